import AnabranchCore
import AnabranchHistory

/// The merge with which a version entered the log, done again (`Spec/Explain.md`, section 2).
///
/// The entries that the client had not seen met the changeset in the form that earlier changesets of the client had
/// given them. So these are merged again as well: all that the log took in after the base, and what else that needs.
struct VersionReplay: ~Copyable {
    /// The size of the uploads that are merged for one explanation, in bytes; and the memory that they and the entries
    /// take which they meet.
    private static let (uploadBytesMax, memoryBytesMax) = (32 << 20, 256 << 20)
    /// The most pairs of instructions that meet: some seconds.
    private static let pairsMax = 1 << 29
    /// The most steps in which the explained changeset is merged, and the pairs of each: what each pair did is kept in
    /// memory, some hundred bytes.
    private static let (recordedSteps, stepPairs) = (16, 1 << 14)

    private let view: any FileView
    private let entry: LogEntry
    /// The client's entries that are merged, the explained one last, and what it uploaded for each.
    private var chain: [(entry: LogEntry, base: ServerVersion, uploaded: [UInt8])] = []
    private(set) var merge: LogMerge
    private var bytes = 0

    /// - Parameters:
    ///   - entry: The version; its client is known.
    ///   - base: The version on which it was made.
    ///   - view: The file.
    init(of entry: LogEntry, on base: ServerVersion, in view: any FileView) throws(HistoryError) {
        self.view = view
        self.entry = entry
        merge = LogMerge([])
        chain.append((entry, base, try uploaded(entry)))
        try findEarlier()
        let incoming = chain.map { link in
            let cursor = UploadCursor(clientVersion: link.entry.clientVersion, serverVersion: link.base)
            return LogMerge.Incoming(
                UploadedChangeset(cursor: cursor, timestamp: link.entry.timestamp, changeset: link.uploaded),
                from: link.entry.origin)
        }
        merge = LogMerge(incoming, pairsMax: Self.pairsMax)
    }

    /// The version on which the first of the client's entries that are merged was made.
    var oldestBase: ServerVersion { chain[0].base }

    /// The bytes that merging again gave.
    var encoded: [UInt8] {
        mutating get { merge.encoded(merge.incoming[0]) }
    }

    /// The instructions as they were uploaded.
    func decodeUploaded(into arena: inout ChangesetArena) throws(HistoryError) -> [Instruction] {
        var sent = entry
        sent.changeset = chain[chain.count - 1].uploaded
        let index = try sent.decode(into: &arena)
        return arena.instructions(of: index)
    }

    private func uploaded(_ entry: LogEntry) throws(HistoryError) -> [UInt8] {
        try view.received(entry.version)?.changeset ?? entry.changeset
    }

    /// Finds what the client uploaded before, as far back as an entry is needed that one of these has met.
    private mutating func findEarlier() throws(HistoryError) {
        var oldest = chain[0].base, end = entry.version - 1
        while oldest < end {
            let receipts = try view.receipts(from: entry.origin, in: VersionRange(after: oldest, through: end))
            guard !receipts.isEmpty else { return }
            end = oldest
            var found: [(entry: LogEntry, base: ServerVersion, uploaded: [UInt8])] = []
            for receipt in receipts {
                guard let earlier = try view.entry(receipt.version), let base = earlier.base else {
                    throw HistoryError(.badServerVersion, "version \(receipt.version) does not say what it was made on")
                }
                found.append((earlier, base, try uploaded(earlier)))
                try count(found[found.count - 1].uploaded)
            }
            oldest = min(oldest, found[0].base)
            chain = found + chain
        }
    }

    private mutating func count(_ changeset: [UInt8]) throws(HistoryError) {
        bytes += changeset.count
        guard bytes <= Self.uploadBytesMax else { throw tooLarge }
    }

    private var tooLarge: HistoryError {
        HistoryError(.tooLarge, "version \(entry.version) met too much to be explained")
    }

    /// Merges all of it; what happens to the last one is recorded.
    ///
    /// - Parameter lineage: the file as the client saw it.
    /// - Throws: `badChangeset` if the client cannot have seen it like this; `tooLarge`, `storeDamaged`, `storeFailed`.
    mutating func run(seeing lineage: any FileView) throws(HistoryError) {
        for link in chain {
            do {
                _ = try merge.beginRun(bytesMax: .max, overheadBytes: 0) { _, _ in true }
            } catch {
                throw HistoryError(
                    .storeDamaged, "what was uploaded as version \(link.entry.version): \(error.error.reason)")
            }
            let isLast = link.entry.version == entry.version
            if isLast { merge.strategy = .recorded }
            try meet(link.entry, after: link.base, in: lineage)
            var stepsLeft = isLast ? Self.recordedSteps : .max
            while try !advance() {
                stepsLeft -= 1
                guard stepsLeft > 0 else { throw tooLarge }
            }
        }
    }

    /// - Returns: whether the run is merged.
    private mutating func advance() throws(HistoryError) -> Bool {
        do {
            return try merge.advance(pairs: Self.stepPairs)
        } catch {
            throw HistoryError(
                error.code == .tooManyPairs ? .tooLarge : .badChangeset,
                "version \(entry.version) cannot be merged again: \(error.reason)")
        }
    }

    private mutating func meet(
        _ entry: LogEntry, after base: ServerVersion, in lineage: any FileView
    ) throws(HistoryError) {
        let range = VersionRange(after: base, through: entry.version - 1)
        let keys = merge.arena.conflictKeys(of: merge.incoming[0])
        var versions: [ServerVersion] = []
        if !range.isEmpty {
            versions =
                keys.readsEverything
                ? try lineage.versions(in: range, excludingOrigin: entry.origin)
                : try lineage.versions(writing: keys.reads, in: range, excludingOrigin: entry.origin)
        }
        let tooLarge = tooLarge
        try merge.begin(meeting: versions.map(\.rawValue)) { number, arena throws(HistoryError) in
            let version = ServerVersion(rawValue: number)
            guard let met = try lineage.entry(version) else {
                throw HistoryError(.storeDamaged, "version \(version) is missing")
            }
            guard arena.memoryBytes <= Self.memoryBytesMax else { throw tooLarge }
            return try met.decode(as: nil, into: &arena)
        }
    }
}

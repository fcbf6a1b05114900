import AnabranchCore
import AnabranchHistory
import AnabranchTesting

/// The client with which the fixture `store-format-7` was written: what it uploads, and when it counts a version, is in
/// the tables. It stays as it was; tests of behaviour use `MemoryClient`.
struct WorkloadClient {
    private struct LogEntry {
        var version: ClientVersion
        /// The last server version that was integrated before.
        var base: ServerVersion
        var timestamp: ChangesetTime
        /// As it was made: the form that is uploaded.
        var changeset: [UInt8]
        /// As the server has to see it, after the entries that were merged with it.
        var reciprocal: [UInt8]?
    }

    let ident: ClientFileID
    let strategy: MergeStrategy
    private(set) var state = ObjectGraph()
    private var log: [LogEntry] = []
    private var version: ClientVersion = 1
    private var uploaded: ClientVersion = 0
    private var cursor = DownloadCursor()

    init(ident: ClientFileID, strategy: MergeStrategy) {
        self.ident = ident
        self.strategy = strategy
    }

    /// The last version of the server's log that it has integrated.
    var integratedVersion: ServerVersion { cursor.serverVersion }

    /// One local transaction.
    ///
    /// - Parameter isAccepted: Whether the changeset that was recorded stays; otherwise nothing has happened.
    mutating func write(
        at timestamp: ChangesetTime, if isAccepted: ([UInt8]) throws -> Bool = { _ in true },
        _ body: (WriteTransaction) throws -> Void
    ) throws {
        var next = state
        let written = try next.write(as: ident, body)
        guard try written.changeset.isEmpty || isAccepted(written.changeset) else { return }
        _ = try next.eraseAsymmetricObjects()
        state = next
        version += 1
        guard !written.changeset.isEmpty else { return }
        log.append(
            LogEntry(
                version: version, base: cursor.serverVersion, timestamp: timestamp, changeset: written.changeset))
    }

    // MARK: Upload

    /// Uploads the next local changesets, at most `countMax` of them, and has them integrated.
    mutating func upload(_ countMax: Int = .max, to file: SyncedFile) throws {
        let entries = log.drop { $0.version <= uploaded }.prefix(countMax)
        guard let last = entries.last else { return }
        let changesets = entries.map {
            UploadedChangeset(
                cursor: UploadCursor(clientVersion: $0.version, serverVersion: $0.base), timestamp: $0.timestamp,
                changeset: $0.changeset)
        }
        let progress = UploadCursor(clientVersion: last.version, serverVersion: last.base)
        try file.integrateAtOnce(
            Upload(progress: progress, lockedVersion: cursor.serverVersion, changesets: changesets), from: ident)
        uploaded = last.version
    }

    // MARK: Download

    /// Integrates everything that the server has.
    mutating func download(from file: SyncedFile) throws {
        guard file.version > cursor.serverVersion else { return }
        let download = try file.downloads(for: ident).download(after: cursor, byteBudget: .max)
        var merge = DownloadMerge()
        var rest = download.changesets[...]
        while let base = rest.first?.cursor.clientVersion {
            let run = rest.prefix { $0.cursor.clientVersion == base }
            try integrate(run, base: base, &merge)
            rest = rest[run.endIndex...]
        }
        for (position, place) in merge.places where merge.arena.isDirty(place) {
            log[position].reciprocal = merge.arena.encoded(place)
        }
        cursor = download.progress.cursor
        log.removeFirst(log.prefix { $0.version <= cursor.clientVersion }.count)
        if !download.changesets.isEmpty { version += 1 }
    }

    /// The changesets that are decoded while one batch is integrated. Local changesets stay as a run leaves them until
    /// the next.
    private struct DownloadMerge {
        var arena = ChangesetArena()
        /// Where the entries of the log, by their position, are in the arena.
        var places: [Int: ChangesetIndex] = [:]
    }

    /// Integrates what the server made on one base.
    private mutating func integrate(
        _ run: ArraySlice<DownloadedChangeset>, base: ClientVersion, _ merge: inout DownloadMerge
    ) throws {
        var incoming: [ChangesetIndex] = []
        for entry in run {
            let version = entry.cursor.serverVersion.rawValue
            incoming.append(try merge.arena.decode(entry.changeset, version: version, tag: entry.tag))
        }
        var local: [ChangesetIndex] = []
        for position in log.indices where log[position].version > base {
            local.append(try place(of: position, &merge))
        }
        try merge.arena.merge(local: local, incoming: incoming, strategy: strategy)
        for changeset in incoming { try state.apply(changeset, of: merge.arena) }
        _ = try state.eraseAsymmetricObjects()
    }

    private func place(of position: Int, _ merge: inout DownloadMerge) throws -> ChangesetIndex {
        if let place = merge.places[position] { return place }
        let entry = log[position]
        let place = try merge.arena.decode(
            entry.reciprocal ?? entry.changeset, version: entry.version.rawValue,
            tag: OriginTag(timestamp: entry.timestamp, ident: ident))
        merge.places[position] = place
        return place
    }
}

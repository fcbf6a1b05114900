import AnabranchCore

/// A changeset in the form in which it enters the log.
struct MergedChangeset {
    /// 0, and client version 0, for one that puts nulls back (`Spec/History.md`, section 16.3).
    var origin: ClientFileID
    var clientVersion: ClientVersion
    var timestamp: ChangesetTime
    var changeset: [UInt8]
    /// The conflict keys under which it is found later.
    var writes: [UInt64]
}

/// The merge of one client's changesets with the log entries that the client had not seen (`Spec/History.md`, section
/// 6, steps 3 to 7): finds the entries for a `LogMerge`, and applies what comes out of it.
struct ClientMerge: ~Copyable {
    /// To merge with fewer entries than this, they are decoded for the client alone.
    private static let sharedEntriesMin = 16

    let ident: ClientFileID
    private var merge: LogMerge
    private var reader: EntryReader
    private(set) var merged: [MergedChangeset] = []
    private(set) var skippedInstructions = SkippedInstructions()
    private let options: MergeOptions

    init(of changesets: ArraySlice<UploadedChangeset>, from ident: ClientFileID, options: MergeOptions) {
        self.ident = ident
        self.options = options
        merge = LogMerge(changesets.map { LogMerge.Incoming($0, from: ident) }, strategy: options.strategy)
        reader = EntryReader(bytesMax: options.localBytesMax)
        merged.reserveCapacity(changesets.count)
    }

    /// How many log entries were decoded, or found decoded.
    var entriesVisited: Int { reader.count }

    /// How many of `merged` put nulls back.
    var restoringCount: Int { reader.restored.count }

    /// Merges all changesets and applies them to the state, if one is kept, run by run: a run is what the client made
    /// on one base.
    mutating func run(
        past log: PendingLog, sharing shared: inout DecodedEntryCache, into state: inout PendingState?
    ) throws(HistoryError) {
        while try beginRun() {
            for index in merge.incoming { try merge.arena.checkErasures(in: index, by: options.destructiveSchema) }
            if state != nil { endRunBehindNullErasure() }
            let keys = merge.incoming.map { merge.arena.conflictKeys(of: $0) }
            let base = ServerVersion(rawValue: merge.base)
            if base < log.version || restoringCount > 0 { try mergeRun(keys, after: base, past: log, &shared) }
            let applied = try state?.apply(merge.incoming, of: &merge.arena, from: ident, on: base, past: log)
            if applied != nil, !options.allowsReplacedClasses {
                for index in merge.incoming { try merge.arena.checkReplacedClasses(in: index) }
            }
            finishRun(keys)
            guard let applied else { continue }
            skippedInstructions.append(applied.skipped)
            if let insertions = applied.nullInsertions { try restoreNulls(insertions, past: log) }
        }
    }

    /// What follows a changeset that may have taken nulls out of sets is a run of its own: it has to be merged with the
    /// entry that puts them back.
    private mutating func endRunBehindNullErasure() {
        let arena = merge.arena
        guard arena.holdsNullErasure, let last = merge.incoming.firstIndex(where: { arena.erasesNull(in: $0) }) else {
            return
        }
        merge.shortenRun(to: last + 1)
    }

    /// Makes the entry that puts nulls back. It has the time of the changeset that it follows.
    private mutating func restoreNulls(_ insertions: [UInt8], past log: PendingLog) throws(HistoryError) {
        let version = log.version + UInt64(merged.count + 1)
        let timestamp = merged.last?.timestamp ?? 0
        var arena = ChangesetArena()
        let entry = LogEntry(
            version: version, salt: 0, origin: 0, clientVersion: 0, timestamp: timestamp, cumulativeSize: 0,
            changeset: insertions)
        let index = try entry.decode(into: &arena)
        reader.restored[version] = entry
        merged.append(
            MergedChangeset(
                origin: 0, clientVersion: 0, timestamp: timestamp, changeset: arena.encoded(index),
                writes: arena.conflictKeys(of: index).writes))
    }

    /// The log entries that the merge changed, as the client has to see them from now on.
    mutating func reciprocals(after base: ServerVersion) -> [ReciprocalChangeset] {
        merge.changedEntries(after: base.rawValue).map {
            ReciprocalChangeset(version: ServerVersion(rawValue: $0.version), changeset: $0.changeset)
        }
    }

    private mutating func beginRun() throws(HistoryError) -> Bool {
        do { return try merge.beginRun() } catch { throw HistoryError(error) }
    }

    private mutating func mergeRun(
        _ keys: [ConflictKeys], after base: ServerVersion, past log: PendingLog, _ shared: inout DecodedEntryCache
    ) throws(HistoryError) {
        let versions = try candidates(for: keys, after: base, in: log)
        try share(versions, from: log, &shared)
        var reader = reader
        defer { self.reader = reader }
        try merge.begin(meeting: versions.map(\.rawValue)) { version, arena throws(HistoryError) in
            try reader.decode(ServerVersion(rawValue: version), from: log, into: &arena)
        }
        do {
            while try !merge.advance() {}
        } catch {
            throw HistoryError(.badChangeset, "a changeset cannot be merged: \(error.reason)")
        }
    }

    /// The versions above `base` that can conflict with the run, in no order. Beside those that the conflict keys find
    /// these are the entries whose form for this client differs from the log: that form can contain instructions which
    /// the log entry lacks (`Spec/Transform.md`, rule R8), so the index does not know it.
    private mutating func candidates(
        for keys: [ConflictKeys], after base: ServerVersion, in log: PendingLog
    ) throws(HistoryError) -> [ServerVersion] {
        var versions: [ServerVersion]
        if keys.contains(where: \.readsEverything) {
            versions = try log.versions(after: base, excludingOrigin: ident)
        } else {
            let reads = keys.count == 1 ? keys[0].reads : keys.flatMap(\.reads).sortedUnique()
            versions = try log.versions(writing: reads, after: base, excludingOrigin: ident)
        }
        let reciprocals = try reader.reciprocals(of: ident, after: base, in: log)
        // What is empty meets nothing.
        for (version, changeset) in reciprocals where version > base.rawValue && !changeset.isEmpty {
            versions.append(ServerVersion(rawValue: version))
        }
        versions += reader.restored.keys
        return versions.sortedUnique()
    }

    /// Goes over to a copy of what is decoded already, if the client's own arena holds no log entry yet.
    private mutating func share(
        _ versions: [ServerVersion], from log: PendingLog, _ shared: inout DecodedEntryCache
    ) throws(HistoryError) {
        guard !merge.hasEntries, versions.count >= Self.sharedEntriesMin else { return }
        let unchanged = versions.filter { !reader.hasReciprocal(of: $0) }
        guard unchanged.count * 2 > versions.count, try shared.load(unchanged, from: log) else { return }
        reader.shared = shared.indices
        do { try merge.continueRun(in: shared.arena) } catch { throw HistoryError(error) }
    }

    private mutating func finishRun(_ keys: [ConflictKeys]) {
        for ((sent, index), keys) in zip(zip(merge.run, merge.incoming), keys) {
            merged.append(
                MergedChangeset(
                    origin: ident, clientVersion: ClientVersion(rawValue: sent.version), timestamp: sent.tag.timestamp,
                    changeset: merge.encoded(index),
                    writes: merge.arena.isDirty(index) ? merge.arena.conflictKeys(of: index).writes : keys.writes))
        }
    }
}

/// Decodes log entries in the form that they have for one client.
private struct EntryReader {
    /// What the log entries that were decoded for the client may occupy, in bytes.
    let bytesMax: Int
    private var bytes = 0
    /// How many entries were asked for.
    private(set) var count = 0
    /// The entries that the arena holds as they are in the log, because it began as a copy of a shared one.
    var shared: [UInt64: ChangesetIndex] = [:]
    /// The stored reciprocal changesets above the lowest base, by version; nil before the first run.
    private var reciprocals: [UInt64: [UInt8]]?
    /// The entries of this upload that put nulls back: they are not in the log yet.
    var restored: [ServerVersion: LogEntry] = [:]

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// - Parameter base: the base of a run; those of later runs are not lower.
    mutating func reciprocals(
        of ident: ClientFileID, after base: ServerVersion, in log: PendingLog
    ) throws(HistoryError) -> [UInt64: [UInt8]] {
        if let reciprocals { return reciprocals }
        let stored = try log.view.reciprocals(of: ident, in: VersionRange(after: base, through: log.head.version))
        let read = Dictionary(stored.map { ($0.version.rawValue, $0.changeset) }, uniquingKeysWith: { $1 })
        reciprocals = read
        return read
    }

    func hasReciprocal(of version: ServerVersion) -> Bool { reciprocals?[version.rawValue] != nil }

    mutating func decode(
        _ version: ServerVersion, from log: PendingLog, into arena: inout ChangesetArena
    ) throws(HistoryError) -> ChangesetIndex {
        count += 1
        let reciprocal = reciprocals?[version.rawValue]
        if reciprocal == nil, let index = shared[version.rawValue] { return index }
        let before = arena.memoryBytes
        let entry = if let restored = restored[version] { restored } else { try log.entry(version) }
        let index = try entry.decode(as: reciprocal, into: &arena)
        bytes += arena.memoryBytes - before
        try require(bytes <= bytesMax, .badChangeset, "it meets too much of the log to be merged with it")
        return index
    }
}

extension HistoryError {
    fileprivate init(_ failure: LogMerge.DecodingError) {
        let (version, error) = (failure.version, failure.error)
        self.init(.badChangeset, "changeset \(version) at byte \(error.offset): \(error.reason)")
    }
}

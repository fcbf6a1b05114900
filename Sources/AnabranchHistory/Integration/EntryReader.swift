import AnabranchCore

/// Decodes log entries in the form that they have for one client.
struct EntryReader {
    /// What the log entries that were decoded for the client may occupy, in bytes.
    let bytesMax: Int
    private var bytes = 0
    /// How many entries were asked for.
    private(set) var count = 0
    /// How many changesets at the arena's start are shared ones, as they are in the log.
    var sharedCount = 0
    /// The stored reciprocal changesets above the lowest base, by version; nil before the first run.
    private var reciprocals: [ServerVersion: [UInt8]]?
    /// The entries of this upload that put nulls back: they are not in the log yet.
    var restored: [ServerVersion: LogEntry] = [:]
    /// Where in the client's own arena the entries are that were read for it.
    private var indices: [ServerVersion: ChangesetIndex] = [:]

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// - Parameter base: the base of a run; those of later runs are not lower.
    mutating func reciprocals(
        of ident: ClientFileID, after base: ServerVersion, in log: PendingLog
    ) throws(HistoryError) -> [ServerVersion: [UInt8]] {
        if let reciprocals { return reciprocals }
        let stored = try log.view.reciprocals(of: ident, in: VersionRange(after: base, through: log.head.version))
        let read = Dictionary(stored.map { ($0.version, $0.changeset) }, uniquingKeysWith: { $1 })
        reciprocals = read
        return read
    }

    func hasReciprocal(of version: ServerVersion) -> Bool { reciprocals?[version] != nil }

    /// Decodes an entry for a later `index(of:)`, unless a shared one is enough.
    /// - Returns: how many bytes it has; 0 if there was nothing to be done.
    mutating func readAhead(
        _ version: ServerVersion, from log: PendingLog, _ shared: DecodedEntryCache, into arena: inout ChangesetArena
    ) throws(HistoryError) -> Int {
        guard indices[version] == nil, sharedIndex(of: version, in: shared) == nil else { return 0 }
        let before = bytes
        indices[version] = try decode(version, from: log, into: &arena)
        return bytes - before
    }

    mutating func index(
        of version: ServerVersion, from log: PendingLog, _ shared: DecodedEntryCache, into arena: inout ChangesetArena
    ) throws(HistoryError) -> ChangesetIndex {
        count += 1
        if let index = sharedIndex(of: version, in: shared) ?? indices[version] { return index }
        return try decode(version, from: log, into: &arena)
    }

    private func sharedIndex(of version: ServerVersion, in shared: DecodedEntryCache) -> ChangesetIndex? {
        guard sharedCount > 0, !hasReciprocal(of: version), let index = shared.index(of: version),
            index.position < sharedCount
        else { return nil }
        return index
    }

    private mutating func decode(
        _ version: ServerVersion, from log: PendingLog, into arena: inout ChangesetArena
    ) throws(HistoryError) -> ChangesetIndex {
        let before = arena.memoryBytes
        let entry = if let restored = restored[version] { restored } else { try log.entry(version) }
        let index = try entry.decode(as: reciprocals?[version], into: &arena)
        bytes += arena.memoryBytes - before
        try require(bytes <= bytesMax, .badChangeset, "it meets too much of the log to be merged with it")
        return index
    }
}

import AnabranchCore

/// Decodes log entries in the form that they have for one client.
struct EntryReader {
    /// The memory that the log entries decoded for the client may occupy, in bytes.
    let bytesMax: Int
    private var bytes = 0
    /// The number of entries that the merge has met.
    var count = 0
    /// The entries that the arena holds as they are in the log, because it began as a copy of a shared one.
    var shared: [UInt64: ChangesetIndex] = [:]
    /// The stored reciprocal changesets above the lowest base, by version; nil before the first run.
    private var reciprocals: [UInt64: [UInt8]]?
    /// The entries of this upload that put nulls back: they are not in the log yet.
    var restored: [ServerVersion: LogEntry] = [:]
    /// The entries that were decoded for the client.
    private var decoded: [UInt64: ChangesetIndex] = [:]

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

    /// True if the entry is not in the log, or not in this form.
    func hasOwnForm(of version: ServerVersion) -> Bool {
        reciprocals?[version.rawValue] != nil || restored[version] != nil
    }

    /// The index of an entry in the arena; decodes it unless it is there.
    mutating func index(
        of version: ServerVersion, from log: PendingLog, into arena: inout ChangesetArena
    ) throws(HistoryError) -> ChangesetIndex {
        if !hasOwnForm(of: version), let index = shared[version.rawValue] { return index }
        if let index = decoded[version.rawValue] { return index }
        let index = try decode(version, from: log, into: &arena)
        decoded[version.rawValue] = index
        return index
    }

    private mutating func decode(
        _ version: ServerVersion, from log: PendingLog, into arena: inout ChangesetArena
    ) throws(HistoryError) -> ChangesetIndex {
        let before = arena.memoryBytes
        let entry = if let restored = restored[version] { restored } else { try log.entry(version) }
        let index = try entry.decode(as: reciprocals?[version.rawValue], into: &arena)
        bytes += arena.memoryBytes - before
        try require(bytes <= bytesMax, .badChangeset, "it meets too much of the log to be merged with it")
        return index
    }
}

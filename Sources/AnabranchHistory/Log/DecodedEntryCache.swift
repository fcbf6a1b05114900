package import AnabranchCore

/// Log entries in decoded form, kept from one integration to the next: clients that return to the same entries share
/// the work of decoding them.
struct DecodedEntryCache: Sendable {
    /// The largest size of the arena, in bytes. If more is needed, the entries are decoded for one client alone, and
    /// none is kept.
    static let memoryBytesMax = 16 << 20

    /// Copying the arena costs less than decoding one in this many of its entries.
    private static let copiedPerDecoded = 8

    /// The entries as they are in the log. Nothing is ever merged in it: a merge works on a copy.
    private(set) var arena = ChangesetArena()
    /// Their places in the arena, by version.
    private(set) var indices: [UInt64: ChangesetIndex] = [:]
    /// The number of entries requested since the arena last had one of them.
    private var missed = 0

    /// Decides before `count` entries are loaded.
    ///
    /// - Returns: Whether loading them pays. It does not if they are so few that decoding them alone costs less than
    ///   copying the arena.
    mutating func beginLoading(_ count: Int) -> Bool {
        if arena.count > Self.copiedPerDecoded * count {
            missed += count
            guard missed > arena.count else { return false }
            self = DecodedEntryCache()
        }
        missed = 0
        return true
    }

    /// Decodes an entry if it is missing.
    ///
    /// - Returns: Whether the arena holds it now. If it is too large, nothing is kept.
    mutating func load(_ version: ServerVersion, from log: PendingLog) throws(HistoryError) -> Bool {
        guard indices[version.rawValue] == nil else { return true }
        indices[version.rawValue] = try log.entry(version).decode(into: &arena)
        guard arena.memoryBytes > Self.memoryBytesMax else { return true }
        self = DecodedEntryCache()
        return false
    }
}

extension LogEntry {
    /// Decodes the entry and returns its index in the arena.
    /// - Parameter reciprocal: the form of the entry for some client; nil: as it is in the log.
    package func decode(
        as reciprocal: [UInt8]? = nil, into arena: inout ChangesetArena
    ) throws(HistoryError) -> ChangesetIndex {
        do {
            return try arena.decode(reciprocal ?? changeset, version: version.rawValue, tag: tag)
        } catch {
            // If the arena is full, it is full of uploads: nothing is wrong with the entry.
            let code = error.rule == .tooLarge ? HistoryError.Code.badChangeset : .storeDamaged
            throw HistoryError(code, "log entry \(version) at byte \(error.offset): \(error.reason)")
        }
    }
}

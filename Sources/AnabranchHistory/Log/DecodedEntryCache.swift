import AnabranchCore

/// Log entries in decoded form, kept from one integration to the next: clients that come back to the same entries share
/// the work of decoding them.
struct DecodedEntryCache: Sendable {
    /// Of the arena, in bytes. If more were needed, the entries are decoded for one client alone, and none is kept.
    static let memoryBytesMax = 16 << 20

    /// Copying the arena costs less than decoding one in this many of its entries.
    private static let copiedPerDecoded = 8

    /// The entries as they are in the log. Nothing is ever merged in it: a merge works on a copy.
    private(set) var arena = ChangesetArena()
    /// Where they are in the arena, by version.
    private(set) var indices: [UInt64: ChangesetIndex] = [:]
    /// How many entries were asked for since the arena was last of use.
    private var missed = 0

    /// Decodes those of `versions` that are missing.
    ///
    /// - Returns: Whether the arena holds them all now. It does not if they are too large, or so few beside what it
    ///   holds already that decoding them alone costs less than copying it.
    mutating func load(_ versions: [ServerVersion], from log: PendingLog) throws(HistoryError) -> Bool {
        if arena.count > Self.copiedPerDecoded * versions.count {
            missed += versions.count
            guard missed > arena.count else { return false }
            self = DecodedEntryCache()
        }
        missed = 0
        if try loadMissing(versions, from: log) { return true }
        self = DecodedEntryCache()
        return false
    }

    private mutating func loadMissing(_ versions: [ServerVersion], from log: PendingLog) throws(HistoryError) -> Bool {
        for version in versions where indices[version.rawValue] == nil {
            indices[version.rawValue] = try log.entry(version).decode(into: &arena)
            if arena.memoryBytes > Self.memoryBytesMax { return false }
        }
        return true
    }
}

extension LogEntry {
    /// Decodes the entry and returns its index in the arena.
    /// - Parameter reciprocal: the form of the entry for some client; nil: as it is in the log.
    func decode(
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

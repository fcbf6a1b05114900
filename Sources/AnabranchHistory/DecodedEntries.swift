import AnabranchCore

/// Log entries in decoded form, kept from one integration to the next: clients that come back to the same entries share
/// the work of decoding them.
struct DecodedEntries: Sendable {
    /// Of the arena: whatever would need more memory is decoded for one client alone, and nothing of it is kept.
    static let memoryBytesMax = 16 << 20

    /// Copying the arena costs less than decoding one in this many of its entries.
    private static let copiedPerDecoded = 8

    /// The entries as they are in the log. Nothing is ever merged in it: a merge works on a copy.
    private(set) var arena = ChangesetArena()
    private var places: [ServerVersion: ChangesetIndex] = [:]
    /// How many entries were asked for in vain since the arena was last of use.
    private var missed = 0

    /// The place of a log entry in the arena; nil if it is not kept.
    func place(of version: ServerVersion) -> ChangesetIndex? { places[version] }

    /// Decodes what is missing of `versions`.
    ///
    /// - Returns: Whether the arena holds them all now; false also if it is so large beside them that to decode them
    ///   alone costs less than to copy it.
    mutating func load(_ versions: [ServerVersion], from log: PendingLog) throws(HistoryError) -> Bool {
        if arena.count > Self.copiedPerDecoded * versions.count {
            missed += versions.count
            guard missed > arena.count else { return false }
            self = DecodedEntries()
        }
        missed = 0
        if try loadMissing(versions, from: log) { return true }
        self = DecodedEntries()
        return false
    }

    private mutating func loadMissing(_ versions: [ServerVersion], from log: PendingLog) throws(HistoryError) -> Bool {
        for version in versions where places[version] == nil {
            places[version] = try log.decode(version, into: &arena)
            if arena.memoryBytes > Self.memoryBytesMax { return false }
        }
        return true
    }
}

extension PendingLog {
    /// Decodes a log entry, or what `changeset` says that it is for some client, and returns its place in the arena.
    func decode(
        _ version: ServerVersion, as changeset: [UInt8]? = nil, into arena: inout ChangesetArena
    ) throws(HistoryError) -> ChangesetIndex {
        try entry(version).decode(as: changeset, into: &arena)
    }
}

extension LogEntry {
    /// Decodes the entry, or what `changeset` says that it is for some client, and returns its place in the arena.
    func decode(as changeset: [UInt8]? = nil, into arena: inout ChangesetArena) throws(HistoryError) -> ChangesetIndex {
        do {
            return try arena.decode(changeset ?? self.changeset, version: version.rawValue, tag: tag)
        } catch {
            // The arena is full of uploads: nothing is wrong with the entry.
            let code = error.rule == .tooLarge ? HistoryError.Code.badChangeset : .storeDamaged
            throw HistoryError(code, "log entry \(version) at byte \(error.offset): \(error.reason)")
        }
    }
}

import AnabranchCore

/// Log entries in decoded form, kept from one integration to the next: clients that come back to the same entries share
/// the work of decoding them.
struct DecodedEntries: Sendable {
    /// Of the pool: whatever would need more memory is decoded for one client alone, and nothing of it is kept.
    static let memoryBytesMax = 16 << 20

    /// Copying the pool costs less than decoding one in this many of its entries.
    private static let copiedPerDecoded = 8

    /// The entries as they are in the log. Nothing is ever merged in it: a merge works on a copy.
    private(set) var pool = ChangesetPool()
    private var places: [ServerVersion: Int] = [:]
    /// How many entries were asked for in vain since the pool was last of use.
    private var missed = 0

    /// The place of a log entry in the pool; nil if it is not kept.
    func place(of version: ServerVersion) -> Int? { places[version] }

    /// Decodes what is missing of `versions`.
    ///
    /// - Returns: Whether the pool holds them all now; false also if it is so large beside them that to decode them
    ///   alone costs less than to copy it.
    mutating func load(_ versions: [ServerVersion], from log: PendingLog) throws(HistoryError) -> Bool {
        if pool.count > Self.copiedPerDecoded * versions.count {
            missed += versions.count
            guard missed > pool.count else { return false }
            self = DecodedEntries()
        }
        missed = 0
        if try loadMissing(versions, from: log) { return true }
        self = DecodedEntries()
        return false
    }

    private mutating func loadMissing(_ versions: [ServerVersion], from log: PendingLog) throws(HistoryError) -> Bool {
        for version in versions where places[version] == nil {
            places[version] = try log.decode(version, into: &pool)
            if pool.memoryBytes > Self.memoryBytesMax { return false }
        }
        return true
    }
}

extension PendingLog {
    /// Decodes a log entry, or what `changeset` says that it is for some client, and returns its place in the pool.
    func decode(
        _ version: ServerVersion, as changeset: [UInt8]? = nil, into pool: inout ChangesetPool
    ) throws(HistoryError) -> Int {
        try entry(version).decode(as: changeset, into: &pool)
    }
}

extension LogEntry {
    /// Decodes the entry, or what `changeset` says that it is for some client, and returns its place in the pool.
    func decode(as changeset: [UInt8]? = nil, into pool: inout ChangesetPool) throws(HistoryError) -> Int {
        do {
            return try pool.decode(changeset ?? self.changeset, version: version.rawValue, tag: tag)
        } catch {
            // The pool is full of uploads: nothing is wrong with the entry.
            let code = error.rule == .tooLarge ? HistoryError.Code.badChangeset : .storeDamaged
            throw HistoryError(code, "log entry \(version) at byte \(error.offset): \(error.reason)")
        }
    }
}

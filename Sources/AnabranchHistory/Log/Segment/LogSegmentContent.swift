package import AnabranchCore

/// The entries of a log segment with their changesets.
package struct LogSegmentContent: Sendable {
    /// The entries without their changesets.
    package let columns: LogSegmentColumns
    private let changesets: [UInt8]
    private let layout: ChangesetLayout

    /// - Parameter changesets: all of them, in an order.
    init(_ columns: LogSegmentColumns, changesets: [UInt8], in order: ChangesetOrder) {
        self.columns = columns
        self.changesets = changesets
        layout = ChangesetLayout(order, endingAt: columns.ends)
    }

    /// The approximate memory that the entries occupy, in bytes.
    var byteCount: Int { columns.byteCount + 8 * columns.count + changesets.count }

    /// The entry that produced `version`; nil if the segment does not have it.
    package func entry(_ version: ServerVersion) -> LogEntry? {
        columns.range.contains(version) ? entry(at: columns.index(of: version)) : nil
    }

    /// The entries of `range` that are not empty, in order, up to and including the one with which their sizes together
    /// exceed `byteBudget`.
    /// - Parameter origin: entries received from this client file are left out; nil: none are.
    package func entries(
        in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int
    ) -> [LogEntry] {
        var found: [LogEntry] = []
        var bytes = 0
        for place in columns.indices(in: range) where bytes <= byteBudget {
            let size = columns.bytes(of: place).count
            guard size > 0, origin.map({ columns.isFrom(others: $0, place) }) ?? true else { continue }
            let entry = entry(at: place)
            found.append(entry)
            bytes += entry.byteCount
        }
        return found
    }

    /// All entries, including empty ones.
    package var entries: [LogEntry] { (0..<columns.count).map(entry(at:)) }

    /// The conflict keys that the entries write, indexed for repeated searches.
    /// - Throws: `storeDamaged` if a changeset cannot be decoded.
    func conflictKeyIndex() throws(HistoryError) -> ConflictKeyIndex {
        var index = ConflictKeyIndex()
        for key in try LogEntry.conflictKeys(of: entries) { index.insert(key) }
        return index
    }

    /// The versions in `range`, ascending and each once, of entries not received from `origin` that write one of the
    /// conflict keys. Only changesets of the parts that write them are decoded.
    /// - Throws: `storeDamaged` if one of these cannot be decoded.
    func versions(
        writing match: ConflictKeyFilter.Match, in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        let wanted = columns.indices(in: range)
        let candidates = match.parts.places(of: columns.count).flatMap { part in
            part.clamped(to: wanted).filter { columns.isFrom(others: origin, $0) }
        }
        let keys = Set(match.keys)
        return try LogEntry.conflictKeys(of: candidates.map(entry(at:)))
            .filter { keys.contains($0.key) }.map(\.version).sortedUnique()
    }

    /// The total size of the changesets of parts, in bytes.
    func changesetBytes(of parts: SegmentParts) -> Int {
        parts.places(of: columns.count).reduce(0) { sum, part in
            sum + part.reduce(0) { $0 + columns.bytes(of: $1).count }
        }
    }

    /// The chain at the end of the segment, computed again: it has to equal `LogSegment.chain`.
    /// - Parameter link: the checksum of the entry before the segment.
    package func chain(after link: Checksum) -> Checksum {
        (0..<columns.count).reduce(link) { $0.following(entry(at: $1)) }
    }

    private func entry(at place: Int) -> LogEntry {
        columns.entry(at: place, layout.changeset(place, of: columns.bytes(of: place).count, in: changesets))
    }
}

extension LogEntry {
    /// The conflict keys that the entries write, in their order.
    /// - Throws: `storeDamaged` if a changeset cannot be decoded.
    package static func conflictKeys(of entries: [LogEntry]) throws(HistoryError) -> [ConflictKeyEntry] {
        var arena = ChangesetArena()
        var keys: [ConflictKeyEntry] = []
        let bytes = entries.reduce(0) { $0 + $1.changeset.count }
        arena.reserve(changesets: entries.count, byteCount: min(bytes, DecodedEntryCache.memoryBytesMax / 8))
        for entry in entries where !entry.changeset.isEmpty {
            if arena.memoryBytes > DecodedEntryCache.memoryBytesMax { arena = ChangesetArena() }
            let index = try entry.decode(into: &arena)
            keys += arena.conflictKeys(of: index).writes.map { key in
                ConflictKeyEntry(key: key, version: entry.version, origin: entry.origin)
            }
        }
        return keys
    }
}

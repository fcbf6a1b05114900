package import AnabranchCore

/// The entries of a log segment with their changesets.
package struct LogSegmentContent: Sendable {
    /// The entries without their changesets.
    package let columns: LogSegmentColumns
    /// One changeset behind the other.
    private let changesets: [UInt8]

    init(_ columns: LogSegmentColumns, changesets: [UInt8]) {
        self.columns = columns
        self.changesets = changesets
    }

    /// About what they occupy, in bytes.
    var byteCount: Int { columns.byteCount + changesets.count }

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
            guard size > 0, columns.entries[place].origin != origin else { continue }
            found.append(entry(at: place))
            bytes += size
        }
        return found
    }

    /// All entries, also empty ones.
    package var entries: [LogEntry] { columns.entries.indices.map(entry(at:)) }

    /// The conflict keys that the entries write, to be asked again and again.
    /// - Throws: `storeDamaged` if a changeset cannot be decoded.
    func conflictKeyIndex() throws(HistoryError) -> ConflictKeyIndex {
        var index = ConflictKeyIndex()
        for key in try LogEntry.conflictKeys(of: entries) { index.insert(key) }
        return index
    }

    /// The versions in `range`, ascending and each once, of entries not received from `origin` that write one of the
    /// conflict keys.
    /// - Throws: `storeDamaged` if a changeset cannot be decoded.
    package func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        var versions: [ServerVersion] = []
        try conflictKeyIndex().collect(keys, in: range, excludingOrigin: origin, into: &versions)
        return versions.sortedUnique()
    }

    /// The chain at the end of the segment, computed anew: it has to be `LogSegment.chain`.
    /// - Parameter link: the checksum of the entry before the segment.
    package func chain(behind link: Checksum) -> Checksum {
        columns.entries.indices.reduce(link) { $0.following(entry(at: $1)) }
    }

    private func entry(at place: Int) -> LogEntry {
        var entry = columns.entries[place]
        entry.changeset = Array(changesets[columns.bytes(of: place)])
        return entry
    }
}

extension LogEntry {
    /// The conflict keys that the entries write, in their order.
    /// - Throws: `storeDamaged` if a changeset cannot be decoded.
    static func conflictKeys(of entries: [LogEntry]) throws(HistoryError) -> [ConflictKeyEntry] {
        var arena = ChangesetArena()
        var keys: [ConflictKeyEntry] = []
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

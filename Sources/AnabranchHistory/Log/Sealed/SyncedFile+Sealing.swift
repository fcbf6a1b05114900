package import AnabranchCore

/// Says when the older entries of a log are sealed.
package struct SealingPolicy: Sendable {
    /// The number of entries in a segment: with as many, or ...
    package var entriesMax: Int
    /// ... with as many bytes, entries are sealed.
    package var bytesMax: Int
    /// The number of newest entries that keep their rows; at least one.
    package var restMin: Int

    /// Creates a policy; without arguments, the default one.
    package init(
        entriesMax: Int = 768,
        bytesMax: Int = 256 << 10,
        restMin: Int = 64
    ) {
        (self.entriesMax, self.bytesMax, self.restMin) = (entriesMax, bytesMax, restMin)
    }
}

extension SyncedFile {
    /// Seals the oldest entries that have rows, if there are enough of them: reads and compresses those of one segment,
    /// and no more. An owner that looks after the file in idle turns calls it until there is nothing to do, and commits
    /// what it returns like any other commit; between the two nobody else may commit to the file.
    /// - Parameter end: entries up to this version are sealed in any case, except the newest one; nil: as the policy
    ///   says.
    /// - Returns: a commit of nothing else; nil if nothing is due, or the store makes no segments.
    /// - Throws: `storeDamaged`: the entries stay as they are; a failure of the store.
    package func sealIfDue(
        _ policy: SealingPolicy = SealingPolicy(), upTo end: ServerVersion? = nil
    ) throws(HistoryError) -> Commit? {
        try read { view throws(HistoryError) in
            guard let base = try view.sealedEnd() else { return nil }
            let head = try view.head()
            let entries = try Self.due(policy, upTo: end, after: base, in: view, head)
            guard !entries.isEmpty else { return nil }
            var commit = Commit(file: id, lease: lease, head: head)
            commit.sealed = try SealedEntries(entries, after: base, of: Checksum(startOf: path))
            return commit
        }
    }

    private static func due(
        _ policy: SealingPolicy, upTo end: ServerVersion?, after base: LogPlace, in view: any FileView,
        _ head: FileHead
    ) throws(HistoryError) -> [LogEntry] {
        let rest = end == nil ? UInt64(max(1, policy.restMin)) : 1
        guard head.version > base.version + rest, end.map({ $0 > base.version }) ?? true else { return [] }
        let count = max(1, min(policy.entriesMax, LogSegment.entryCountMax))
        let full = base.version.rawValue + UInt64(count)
        let last = min(full, head.version.rawValue - rest, end?.rawValue ?? .max)
        let isFull = last == full || end != nil
        // Sizes include entries that are left out, so that the check is free while there is little.
        guard isFull || head.cumulativeSize &- base.cumulativeSize >= UInt64(max(0, policy.bytesMax)) else { return [] }
        var entries: [LogEntry] = [], bytes = 0, sectionBytes = 0
        // Half of what a segment can have beside changesets: the last entry comes on top.
        let sectionBytesMax = LogSegment.columnBytesMax / 2
        for version in base.version.rawValue + 1...last {
            guard bytes < policy.bytesMax, sectionBytes < sectionBytesMax else { break }
            let entry = try view.requiredEntry(ServerVersion(rawValue: version))
            entries.append(entry)
            bytes += entry.byteCount
            sectionBytes += entry.section.count
        }
        return isFull || bytes >= policy.bytesMax || sectionBytes >= sectionBytesMax ? entries : []
    }
}

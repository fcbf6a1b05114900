import AnabranchCore
import Synchronization

/// The opened segments of a store, as far as there is memory for them. The content of a segment never changes, so every
/// reader can use it, whatever is committed in between.
package final class SegmentCache: Sendable {
    /// A segment of the store.
    struct Key: Hashable {
        var file: SyncedFileID
        /// 0 for the log itself.
        var generation: ServerVersion
        /// The last version.
        var last: ServerVersion
    }

    /// An entry of the store.
    struct EntryKey: Hashable {
        var file: SyncedFileID
        /// 0 for the log itself.
        var generation: ServerVersion
        var version: ServerVersion
    }

    private struct Kept {
        var heads: BoundedCache<Key, LogSegmentHead>
        var columns: BoundedCache<Key, LogSegmentColumns>
        var contents: BoundedCache<Key, SearchedContent>
        var conflictKeys: BoundedCache<Key, ConflictKeyIndex>
        /// Single entries without their changesets.
        var entries: BoundedCache<EntryKey, LogEntry>
    }

    /// The entries of a segment, and how many bytes of their changesets searches have decoded.
    private final class SearchedContent: Sendable {
        let content: LogSegmentContent
        let decodedBytes = Atomic(0)

        init(_ content: LogSegmentContent) { self.content = content }
    }

    /// The bytes of a segment's changesets that searches decode without keeping their conflict keys; before more are
    /// decoded, the conflict keys of all of them are kept.
    static let decodedBytesMax = 16 << 10

    private let kept: Mutex<Kept>

    /// - Parameters:
    ///   - headBytesMax: the memory that heads and filters may occupy, in bytes: 4 KB or so for 768 entries.
    ///   - columnBytesMax: the same for entries without changesets.
    ///   - contentBytesMax: the same for entries with changesets.
    ///   - conflictKeyBytesMax: the same for indexes of conflict keys.
    ///   - entryBytesMax: the same for single entries without changesets.
    package init(
        headBytesMax: Int = 64 << 20,
        columnBytesMax: Int = 8 << 20,
        contentBytesMax: Int = 32 << 20,
        conflictKeyBytesMax: Int = 32 << 20,
        entryBytesMax: Int = 1 << 20
    ) {
        kept = Mutex(
            Kept(
                heads: BoundedCache(bytesMax: headBytesMax), columns: BoundedCache(bytesMax: columnBytesMax),
                contents: BoundedCache(bytesMax: contentBytesMax),
                conflictKeys: BoundedCache(bytesMax: conflictKeyBytesMax),
                entries: BoundedCache(bytesMax: entryBytesMax)))
    }

    /// The memory that the cache occupies, in bytes.
    package var byteCount: Int {
        kept.withLock {
            $0.heads.byteCount + $0.columns.byteCount + $0.contents.byteCount + $0.conflictKeys.byteCount
                + $0.entries.byteCount
        }
    }

    /// - Parameter open: opens the segment if its head is not there.
    func head(
        of key: Key, _ open: () throws(HistoryError) -> LogSegment
    ) throws(HistoryError) -> LogSegmentHead {
        if let head = kept.withLock({ $0.heads.find(key) }) { return head }
        let head = try open().head.alone
        kept.withLock { $0.heads.keep(head, as: key, byteCount: head.byteCount) }
        return head
    }

    func columns(
        of key: Key, _ open: () throws(HistoryError) -> LogSegment
    ) throws(HistoryError) -> LogSegmentColumns {
        if let known = knownColumns(of: key) { return known }
        let columns = try open().columns()
        kept.withLock { $0.columns.keep(columns, as: key, byteCount: columns.byteCount) }
        return columns
    }

    /// The columns of a segment, if they are there.
    func knownColumns(of key: Key) -> LogSegmentColumns? {
        kept.withLock { $0.contents.find(key)?.content.columns ?? $0.columns.find(key) }
    }

    /// A single entry without its changeset: who looks at few entries of many segments needs no columns afterwards.
    func entry(
        at key: EntryKey, _ read: () throws(HistoryError) -> LogEntry
    ) throws(HistoryError) -> LogEntry {
        if let entry = kept.withLock({ $0.entries.find(key) }) { return entry }
        let entry = try read()
        kept.withLock { $0.entries.keep(entry, as: key, byteCount: 256 + entry.section.count) }
        return entry
    }

    func content(
        of key: Key, _ open: () throws(HistoryError) -> LogSegment
    ) throws(HistoryError) -> LogSegmentContent {
        try searchedContent(of: key, open).content
    }

    private func searchedContent(
        of key: Key, _ open: () throws(HistoryError) -> LogSegment
    ) throws(HistoryError) -> SearchedContent {
        if let content = kept.withLock({ $0.contents.find(key) }) { return content }
        let content = SearchedContent(try open().content())
        kept.withLock { $0.contents.keep(content, as: key, byteCount: content.content.byteCount) }
        return content
    }

    /// The versions in `range`, ascending and each once, of entries not received from `origin` that write one of the
    /// conflict keys.
    func versions(
        of key: Key, writing match: ConflictKeyFilter.Match, in range: VersionRange,
        excludingOrigin origin: ClientFileID, _ open: () throws(HistoryError) -> LogSegment
    ) throws(HistoryError) -> [ServerVersion] {
        let known = kept.withLock { $0.conflictKeys.find(key) }
        if let known { return known.versions(writing: match.keys, in: range, excludingOrigin: origin) }
        let searched = try searchedContent(of: key, open), content = searched.content
        let bytes = content.changesetBytes(of: match.parts)
        if searched.decodedBytes.wrappingAdd(bytes, ordering: .relaxed).newValue <= Self.decodedBytesMax {
            return try content.versions(writing: match, in: range, excludingOrigin: origin)
        }
        let index = try content.conflictKeyIndex()
        kept.withLock { $0.conflictKeys.keep(index, as: key, byteCount: index.byteCount) }
        return index.versions(writing: match.keys, in: range, excludingOrigin: origin)
    }
}

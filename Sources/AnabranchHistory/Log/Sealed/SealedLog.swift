package import AnabranchCore

/// The place where a store keeps the segments of one synced file, within one reading.
package protocol SegmentSource {
    /// The last versions of the segments above `range.base`, ascending, up to the first that is `range.last` or above.
    func segmentEnds(in range: VersionRange) throws(HistoryError) -> [ServerVersion]

    /// The block of a segment.
    /// - Parameter last: its last version.
    func segmentBlock(endingAt last: ServerVersion) throws(HistoryError) -> [UInt8]
}

/// The sealed part of a log, as `FileView` answers for it. Ranges may reach beyond both ends.
package struct SealedLog {
    private let file: SyncedFileID
    /// The generation whose entries it holds; 0 for the log itself.
    private let generation: ServerVersion
    /// The start of the file's chain.
    private let start: Checksum
    /// The versions that are in segments.
    package let range: VersionRange
    private let source: any SegmentSource
    private let cache: SegmentCache

    /// - Parameters:
    ///   - generation: nonzero for the entries of a generation; then `start` is that generation's own.
    ///   - range: from the beginning of the log to the last version of the newest segment.
    ///   - source: holds the segments; must stay valid as long as this value.
    package init(
        of file: SyncedFileID, _ start: Checksum, generation: ServerVersion = 0, range: VersionRange,
        in source: any SegmentSource, keptBy cache: SegmentCache
    ) {
        (self.file, self.start, self.generation) = (file, start, generation)
        (self.range, self.source, self.cache) = (range, source, cache)
    }

    // MARK: Segments

    /// The place where the entries that have rows begin.
    /// - Throws: `storeDamaged`.
    package func end() throws(HistoryError) -> LogPlace { try head(endingAt: range.last).end }

    private func key(_ last: ServerVersion) -> SegmentCache.Key {
        SegmentCache.Key(file: file, generation: generation, last: last)
    }

    private func open(_ last: ServerVersion) throws(HistoryError) -> LogSegment {
        let segment: LogSegment
        do throws(HistoryError) {
            segment = try LogSegment(try source.segmentBlock(endingAt: last), of: start)
        } catch {
            guard error.code == .storeDamaged else { throw error }
            throw HistoryError(.storeDamaged, "the log segment up to entry \(last): \(error.reason)")
        }
        guard segment.range.last == last else { throw displaced(last) }
        return segment
    }

    private func head(endingAt last: ServerVersion) throws(HistoryError) -> LogSegmentHead {
        try cache.head(of: key(last)) { () throws(HistoryError) in try open(last) }
    }

    private func columns(_ head: LogSegmentHead) throws(HistoryError) -> LogSegmentColumns {
        let last = head.range.last
        return try cache.columns(of: key(last)) { () throws(HistoryError) in try open(last) }
    }

    private func content(_ head: LogSegmentHead) throws(HistoryError) -> LogSegmentContent {
        let last = head.range.last
        return try cache.content(of: key(last)) { () throws(HistoryError) in try open(last) }
    }

    /// Calls `body` with the heads of the segments that have versions of a range, until it returns that it has enough:
    /// a segment that is not needed may be damaged.
    private func forEachSegment(
        in range: VersionRange, _ body: (LogSegmentHead) throws(HistoryError) -> Bool
    ) throws(HistoryError) {
        let wanted = part(of: range)
        guard !wanted.isEmpty else { return }
        var end = wanted.base
        for last in try source.segmentEnds(in: wanted) {
            let head = try head(endingAt: last)
            // Segments follow one another without a gap.
            guard end == wanted.base ? head.range.base <= end : head.range.base == end else { throw displaced(last) }
            end = last
            guard try body(head) else { return }
        }
        guard end >= wanted.last else { throw displaced(wanted.last) }
    }

    /// Does the same from the newest segment on.
    private func forEachSegmentBackwards(
        in range: VersionRange, _ body: (LogSegmentHead) throws(HistoryError) -> Bool
    ) throws(HistoryError) {
        let wanted = part(of: range)
        guard !wanted.isEmpty else { return }
        var base = wanted.last
        for last in try source.segmentEnds(in: wanted).reversed() {
            guard base == wanted.last ? last >= base : last == base else { throw displaced(base) }
            let head = try head(endingAt: last)
            base = head.range.base
            guard try body(head) else { return }
        }
        guard base <= wanted.base else { throw displaced(base) }
    }

    /// The segment of a version; nil if it is not in one.
    private func segment(of version: ServerVersion) throws(HistoryError) -> LogSegmentHead? {
        guard range.contains(version) else { return nil }
        var found: LogSegmentHead?
        try forEachSegment(in: VersionRange(after: version - 1, through: version)) { head in
            found = head
            return true
        }
        return found
    }

    private func displaced(_ version: ServerVersion) -> HistoryError {
        HistoryError(.storeDamaged, "the log segment with entry \(version) is not where it was written")
    }

    private func part(of other: VersionRange) -> VersionRange {
        VersionRange(after: max(range.base, other.base), through: min(range.last, other.last))
    }

    // MARK: Answers

    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        guard let head = try segment(of: version) else { return nil }
        return try content(head).entry(version)
    }

    func entryWithoutChangeset(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        guard range.contains(version) else { return nil }
        let place = SegmentCache.EntryKey(file: file, generation: generation, version: version)
        return try cache.entry(at: place) { () throws(HistoryError) in
            let wanted = VersionRange(after: version - 1, through: version)
            guard let last = try source.segmentEnds(in: wanted).last else { throw displaced(version) }
            // The head is not read: the segment would be opened for it, and once more for its columns.
            let known = cache.knownColumns(of: key(last))
            let columns = if let known { known } else { try open(last).columns() }
            guard columns.range.contains(version) else { throw displaced(version) }
            return columns.entry(at: columns.index(of: version), [])
        }
    }

    func salt(of version: ServerVersion) throws(HistoryError) -> Salt? {
        guard let head = try segment(of: version) else { return nil }
        return try columns(head).salt(of: version)
    }

    func entries(
        in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int
    ) throws(HistoryError) -> [LogEntry] {
        var found: [LogEntry] = [], bytes = 0
        try forEachSegment(in: range) { head throws(HistoryError) in
            if let origin, head.origins == [origin] { return true }
            let more = try content(head).entries(
                in: range, excludingOrigin: origin, byteBudget: byteBudget - bytes)
            bytes += more.reduce(0) { $0 + $1.byteCount }
            found += more
            return bytes <= byteBudget
        }
        return found
    }

    func versions(
        in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        var found: [ServerVersion] = []
        try forEachSegment(in: range) { head throws(HistoryError) in
            if head.origins != [origin] {
                found += try columns(head).versions(in: range, excludingOrigin: origin)
            }
            return true
        }
        return found
    }

    func receipts(from ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [Receipt] {
        var found: [Receipt] = []
        try forEachSegment(in: range) { head throws(HistoryError) in
            if head.has(ident) { found += try columns(head).receipts(from: ident, in: range) }
            return true
        }
        return found
    }

    func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) throws(HistoryError) -> Receipt? {
        var found: Receipt?
        try forEachSegmentBackwards(in: VersionRange(after: range.base, through: version)) {
            head throws(HistoryError) in
            if head.has(ident) { found = try columns(head).lastReceipt(from: ident, upTo: version) }
            return found == nil
        }
        return found
    }

    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        var found: [ServerVersion] = []
        let keys = keys.sortedUnique()
        try forEachSegment(in: range) { head throws(HistoryError) in
            let match = head.match(keys, in: range, excludingOrigin: origin), last = head.range.last
            guard !match.isEmpty else { return true }
            found += try cache.versions(of: key(last), writing: match, in: range, excludingOrigin: origin) {
                () throws(HistoryError) in try open(last)
            }
            return true
        }
        return found
    }

    func newestReceipts(in range: VersionRange) throws(HistoryError) -> [ClientFileID: Receipt] {
        var newest: [ClientFileID: Receipt] = [:]
        try forEachSegment(in: range) { head throws(HistoryError) in
            let columns = try columns(head)
            for origin in head.origins where origin > 0 {
                newest[origin] = columns.receipts(from: origin, in: range).last ?? newest[origin]
            }
            return true
        }
        return newest
    }

    /// The newest end of a segment up to `version`, or else the oldest one up to `last`.
    func trimEnd(near version: ServerVersion, upTo last: ServerVersion) throws(HistoryError) -> ServerVersion? {
        let ends = try source.segmentEnds(in: VersionRange(after: range.base, through: version))
        return ends.last { $0 <= version } ?? ends.first.flatMap { $0 <= last ? $0 : nil }
    }

    /// The place after a segment; nil if none ends with the version.
    package func end(at version: ServerVersion) throws(HistoryError) -> LogPlace? {
        let head = try segment(of: version)
        return head?.range.last == version ? head?.end : nil
    }

    /// The entries above `version` as `HistoryCatalog` lists them.
    package func catalogEntries(after version: ServerVersion, countMax: Int) throws(HistoryError) -> [CatalogEntry] {
        guard countMax > 0 else { return [] }
        let first = max(version, range.base)
        guard first < range.last else { return [] }
        let wanted = VersionRange(
            after: first, through: first + UInt64(min(UInt64(countMax), range.last.rawValue - first.rawValue)))
        var found: [CatalogEntry] = []
        try forEachSegment(in: wanted) { head throws(HistoryError) in
            found += try columns(head).catalogEntries(in: wanted)
            return true
        }
        return found
    }
}

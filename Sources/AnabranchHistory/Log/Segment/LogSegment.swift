package import AnabranchCore

/// Consecutive log entries in one block of bytes that never changes: the form in which the older part of a log is kept
/// (`Spec/Durability.md`, section 8).
///
/// A segment that was opened has passed its checksum. Its `head` is there at once; `columns` and `content` are
/// decompressed at each call, and are worth keeping.
package struct LogSegment: Sendable {
    /// The largest number of entries in a segment.
    package static let entryCountMax = 16_384
    /// The largest total size of the changesets in a segment, in bytes.
    package static let changesetBytesMax = 128 << 20
    /// The largest total size of everything else in the entries of a segment, in bytes.
    package static let columnBytesMax = 16 << 20

    /// The form of the bytes.
    static let format: UInt8 = 2
    static let checksumBytes = 16

    /// The facts about the segment that need no look at its entries.
    package let head: LogSegmentHead
    private let columnFrame: ZstdFrame
    private let changesetOrder: ChangesetOrder
    private let changesetFrame: ZstdFrame

    /// The versions that the segment has: one or more.
    package var range: VersionRange { head.range }

    /// The checksum of the last entry: where the chain of the log goes on.
    package var chain: Checksum { head.end.chain }

    /// Opens a block.
    /// - Parameters:
    ///   - block: what `seal` has made.
    ///   - start: where the chain of the file begins. So a segment of another file is damage as well.
    /// - Throws: `storeDamaged`, with the place and the reason.
    package init(_ block: [UInt8], of start: Checksum) throws(HistoryError) {
        guard let stored = Checksum(bytes: Array(block.prefix(Self.checksumBytes))),
            stored == start.keyed([], block.dropFirst(Self.checksumBytes))
        else { throw HistoryError(.storeDamaged, "a log segment of \(block.count) bytes is not what was written") }
        var reader = SegmentReader(block, from: Self.checksumBytes, name: "a log segment")
        let format = try reader.byte()
        guard format == Self.format else {
            throw reader.damaged("it has format \(format), which is that of another program, maybe a newer one")
        }
        let range = try reader.versions()
        let baseCumulativeSize = try reader.number()
        let chain = try reader.checksum()
        let origins = try reader.origins(atMost: Int(range.last.rawValue - range.base.rawValue))
        let filter = try ConflictKeyFilter(from: &reader)
        columnFrame = try ZstdFrame(from: &reader, sizeMax: Self.columnBytesMax)
        guard let order = ChangesetOrder(rawValue: try reader.byte()) else {
            throw reader.damaged("the changesets have another order")
        }
        changesetOrder = order
        changesetFrame = try ZstdFrame(from: &reader, sizeMax: Self.changesetBytesMax)
        try reader.requireEnd()
        guard baseCumulativeSize <= .max - UInt64(changesetFrame.size) else {
            throw reader.damaged("it begins after \(baseCumulativeSize) bytes")
        }
        let end = LogPlace(
            version: range.last, cumulativeSize: baseCumulativeSize + UInt64(changesetFrame.size), chain: chain)
        head = LogSegmentHead(
            range: range, baseCumulativeSize: baseCumulativeSize, end: end, origins: origins, filter: filter)
    }

    /// The entries without their changesets.
    /// - Throws: `storeDamaged`.
    package func columns() throws(HistoryError) -> LogSegmentColumns {
        try LogSegmentColumns(
            try decompress(columnFrame, "columns"), range: range,
            baseCumulativeSize: head.baseCumulativeSize, origins: head.origins, changesetBytes: changesetFrame.size)
    }

    /// The entries.
    /// - Throws: `storeDamaged`.
    package func content() throws(HistoryError) -> LogSegmentContent {
        let columns = try columns()
        let changesets = try decompress(changesetFrame, "changesets")
        return LogSegmentContent(columns, changesets: changesets, in: changesetOrder)
    }

    /// The versions in `range`, ascending and each once, of entries not received from `origin` that write one of the
    /// conflict keys. Nothing is decompressed unless one of them probably is there; looking for that is quickest if the
    /// keys are ascending.
    /// - Throws: `storeDamaged`.
    package func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        let match = head.match(keys, in: range, excludingOrigin: origin)
        return match.isEmpty ? [] : try content().versions(writing: match, in: range, excludingOrigin: origin)
    }

    private func decompress(_ frame: ZstdFrame, _ part: String) throws(HistoryError) -> [UInt8] {
        if let bytes = frame.decompress() { return bytes }
        throw HistoryError(
            .storeDamaged, "the \(part) of log entries \(range.base + 1) to \(range.last) cannot be decompressed")
    }
}

extension SegmentReader {
    fileprivate mutating func versions() throws(HistoryError) -> VersionRange {
        let base = try number()
        let count = try self.count(atMost: LogSegment.entryCountMax)
        guard count > 0, base <= UInt64(Int64.max) - UInt64(count) else {
            throw damaged("\(count) entries after version \(base)")
        }
        let first = ServerVersion(rawValue: base)
        return VersionRange(after: first, through: first + UInt64(count))
    }

    fileprivate mutating func origins(atMost limit: Int) throws(HistoryError) -> [ClientFileID] {
        let count = try self.count(atMost: limit)
        guard count > 0 else { throw damaged("it has no origin") }
        var origins = [ClientFileID(rawValue: try number())]
        while origins.count < count {
            let newest = origins[origins.count - 1].rawValue
            let (next, isTooLarge) = newest.addingReportingOverflow(try number())
            guard !isTooLarge, next > newest else { throw damaged("the origins are out of order") }
            origins.append(ClientFileID(rawValue: next))
        }
        return origins
    }
}

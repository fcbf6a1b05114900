package import AnabranchCore

/// The part of a commit that seals entries: the rows of a range and their conflict keys go, and a block takes their
/// place. No answer about the log changes.
package struct SealedEntries: Sendable {
    /// The entries: the oldest that have rows, and not the newest one.
    package let range: VersionRange
    /// The block, which `LogSegment` opens.
    package let block: [UInt8]
    /// The conflict keys that are stored for the entries, in addition to their rows.
    package let conflictKeys: [ConflictKeyEntry]

    /// Seals entries.
    /// - Parameters:
    ///   - entries: one or more, without gaps, the first of them directly after `base`.
    ///   - start: where the chain of the file begins.
    /// - Throws: as `LogSegment.seal`.
    package init(
        _ entries: [LogEntry], after base: LogPlace, of start: Checksum
    ) throws(HistoryError) {
        conflictKeys = try LogEntry.conflictKeys(of: entries)
        block = try LogSegment.seal(entries, after: base.chain, of: start)
        range = VersionRange(after: base.version, through: base.version + UInt64(entries.count))
    }

    /// The number of entries.
    package var count: Int { Int(range.last.rawValue - range.base.rawValue) }

    /// Refuses a block that does not exactly replace the rows: the checksum of the last row covers all of them.
    /// - Parameters:
    ///   - base: where the rows begin.
    ///   - end: the last row to remove; nil if there is none.
    ///   - start: where the chain of the file begins.
    /// - Throws: `storeDamaged`.
    package func check(from base: LogPlace, to end: LogPlace?, of start: Checksum) throws(HistoryError) {
        let head = try LogSegment(block, of: start).head
        guard head.range == range, head.range.base == base.version, head.end == end,
            head.baseCumulativeSize == base.cumulativeSize
        else {
            throw HistoryError(
                .storeDamaged, "the segment of log entries \(range.base + 1) to \(range.last) is not what has rows")
        }
    }
}

import AnabranchCore
import AnabranchHistory
import GRDB

extension FileVerification {
    /// The place by which damage of an archived segment is reported.
    static func archivedPlace(_ last: ServerVersion) -> String { "archived log segment up to entry \(last)" }

    /// The archive. It begins anywhere and may have gaps; segments that directly follow one another have to fit.
    func checkArchive() throws {
        var before = LogPlace(version: 0, cumulativeSize: 0, chain: start)
        let sql = "SELECT last, bytes, block FROM archived_segment WHERE file = ? ORDER BY last"
        try forEach(sql, named: "archived log segment") { row in
            let last: ServerVersion = try row.number(0)
            do {
                let block = try row.bytes(2), segment = try LogSegment(block, of: start)
                let isInPlace = try row.number(1) == UInt64(block.count) && segment.range.last == last
                expectArchived(isInPlace, last, "it has \(block.count) bytes up to entry \(segment.range.last)")
                try check(archived: segment, after: before, last)
                before = segment.head.end
            } catch let error as HistoryError {
                expectArchived(false, last, error.reason)
            }
        }
    }

    private func check(archived segment: LogSegment, after before: LogPlace, _ last: ServerVersion) throws {
        let base = segment.range.base, content = try segment.content()
        expectArchived(before.version <= base, last, "it begins after version \(base)")
        expectArchived(segment.range.last <= head.baseVersion, last, "the log has entries of it as well")
        if before.version == base {
            expectArchived(
                segment.head.baseCumulativeSize == before.cumulativeSize
                    && content.chain(after: before.chain) == segment.chain, last,
                "it does not follow what stands before it")
        }
        if segment.range.last == head.baseVersion {
            expectArchived(
                segment.head.end.cumulativeSize == head.baseCumulativeSize && segment.chain == record.baseChain, last,
                "the log does not follow it")
        }
        for entry in content.entries { _ = try entry.writtenKeys() }
        result.archivedCount += content.entries.count
    }

    private func expectArchived(_ holds: Bool, _ last: ServerVersion, _ finding: @autoclosure () -> String) {
        expect(holds, .archive, Self.archivedPlace(last), finding())
    }
}

import AnabranchCore
import AnabranchHistory
import GRDB

extension FileVerification {
    /// The segments, and the entries in them as if they had rows.
    func checkSegments() throws {
        let sql = "SELECT last, block FROM log_segment WHERE file = ? ORDER BY last"
        try forEach(sql, named: "log segment") { row in
            let last: ServerVersion = try row.number(0), place = "log segment up to entry \(last)"
            do {
                let segment = try LogSegment(try row.bytes(1), of: start)
                try check(segment, endingAt: last, place)
            } catch let error as HistoryError {
                isGood = false
                expect(false, .checksum, place, error.reason)
                // The entries after it are not missing.
                previous.version = last
            }
        }
    }

    private func check(_ segment: LogSegment, endingAt last: ServerVersion, _ place: String) throws {
        let head = segment.head, entries = try segment.content().entries
        expect(head.range.last == last, .continuity, place, "it ends with entry \(head.range.last)")
        expect(last < self.head.version, .continuity, place, "the newest log entry is in it")
        expect(
            head.baseCumulativeSize == previous.cumulativeSize, .size, place,
            "it begins after \(head.baseCumulativeSize) bytes")
        for entry in entries {
            try checkNext(entry, link?.following(entry)) { keys, entryPlace in
                expect(
                    keys.allSatisfy { head.mayWrite($0, in: entry.version) }, .value, entryPlace,
                    "the filter of its segment lacks it")
            }
        }
        if link != head.end.chain { isGood = false }
        expect(link == head.end.chain, .checksum, place, "it, or what stands before it, is not what was written")
        link = head.end.chain
    }

    /// The entry that the checks of other records need; nil if there is none, or it cannot be read.
    func sealedEntry(_ version: ServerVersion) -> CatalogEntry? {
        guard version > 0 else { return nil }
        return try? file.sealedLog()?.catalogEntries(after: version - 1, countMax: 1).first
    }
}

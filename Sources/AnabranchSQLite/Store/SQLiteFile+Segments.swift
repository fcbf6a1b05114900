import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// The older part of a log, in segments (`Spec/Durability.md`, section 8). `SQLiteFile` itself has only the part in
/// rows; use `view` to read the whole log.
extension SQLiteFile {
    /// The whole file, with the sealed part of its log.
    func view() throws(HistoryError) -> any FileView {
        guard let sealed = try sealedLog() else { return self }
        return SealedView(self, after: sealed)
    }

    /// The part of the log in segments; nil if there is none. It is everything before the first row: a missing segment
    /// counts as damage of its entries.
    func sealedLog() throws(HistoryError) -> SealedLog? {
        try translatingErrors {
            let sql = "SELECT version FROM log_entry WHERE file = ? ORDER BY version LIMIT 1"
            let first = try rows(sql, [id.number]) { try $0.number(0) as ServerVersion }.first
            guard let first, first > 1 else { return nil }
            let record = try record(), range = VersionRange(after: record.head.baseVersion, through: first - 1)
            guard !range.isEmpty else { return nil }
            return SealedLog(of: id, record.start, range: range, in: self, keptBy: segments)
        }
    }

    func sealedEnd() throws(HistoryError) -> LogPlace? {
        try translatingErrors {
            if let sealed = try sealedLog() { return try sealed.end() }
            let record = try record(), head = record.head
            guard let chain = record.baseChain else {
                throw HistoryError(.storeDamaged, "the log does not begin as it was written")
            }
            return LogPlace(version: head.baseVersion, cumulativeSize: head.baseCumulativeSize, chain: chain)
        }
    }

    // MARK: Sealing

    /// Puts a segment in the place of rows. The caller has a transaction.
    func seal(_ sealed: SealedEntries, of head: FileHead, start: Checksum) throws {
        guard let base = try sealedEnd(), sealed.range.last < head.version else {
            throw HistoryError(.storeDamaged, "the newest log entry is never sealed")
        }
        let sql = "SELECT cumulative_size, checksum FROM log_entry WHERE file = ? AND version = ?"
        let last = sealed.range.last
        let end = try rows(sql, [id.number, sought(last)]) { row in
            try Checksum(bytes: row.bytes(1)).map {
                LogPlace(version: last, cumulativeSize: try row.number(0), chain: $0)
            }
        }.first
        try sealed.check(from: base, to: end ?? nil, of: start)
        try execute("DELETE FROM log_entry WHERE file = ? AND version <= ?", [id.number, sought(last)])
        guard db.changesCount == sealed.count else {
            throw HistoryError(.storeDamaged, "of the log entries up to \(last) some have no row")
        }
        for key in sealed.conflictKeys {
            try execute(
                "DELETE FROM conflict_key WHERE file = ? AND key = ? AND version = ?",
                [id.number, stored(key.key), stored(key.version)])
        }
        try execute(
            "INSERT INTO log_segment (file, last, block) VALUES (?, ?, ?)",
            [id.number, stored(last), Data(sealed.block)])
    }
}

extension SQLiteFile: SegmentSource {
    func segmentEnds(in range: VersionRange) throws(HistoryError) -> [ServerVersion] {
        try translatingErrors {
            let sql = "SELECT last FROM log_segment WHERE file = ? AND last > ? ORDER BY last"
            var ends: [ServerVersion] = []
            // Quicker than rows. A value that is not a number is treated as one without a segment.
            let cursor = try Int64.fetchCursor(
                db.cachedStatement(sql: sql), arguments: [id.number, sought(range.base)])
            while ends.last.map({ $0 < range.last }) ?? true, let last = try cursor.next() {
                ends.append(ServerVersion(rawValue: UInt64(bitPattern: last)))
            }
            return ends
        }
    }

    func segmentBlock(endingAt last: ServerVersion) throws(HistoryError) -> [UInt8] {
        try translatingErrors {
            let sql = "SELECT block FROM log_segment WHERE file = ? AND last = ?"
            if let block = try rows(sql, [id.number, sought(last)], { try $0.bytes(0) }).first { return block }
            throw HistoryError(.storeDamaged, "there is none")
        }
    }
}

import AnabranchCore
import AnabranchHistory
import GRDB

/// The archive: segments that have left the log and from which nobody is served (`Spec/BoundedHistory.md`, section
/// 6.1).
extension SQLiteFile {
    /// Copies the segments up to a version, which are about to leave the log. The caller has a transaction.
    func archive(through version: ServerVersion) throws {
        try execute(
            """
            INSERT INTO archived_segment (file, last, bytes, block)
            SELECT file, last, length(block), block FROM log_segment WHERE file = ? AND last <= ?
            """, [id.number, sought(version)])
    }

    func archivedBytes() throws(HistoryError) -> UInt64 {
        try translatingErrors {
            let sql = "SELECT COALESCE(SUM(bytes), 0) FROM archived_segment WHERE file = ?"
            return try rows(sql, [id.number]) { try $0.number(0) as UInt64 }.first ?? 0
        }
    }

    func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry] {
        try translatingErrors {
            // The segment that the version may be in, and the one before it.
            for place in ["last >= ? ORDER BY last", "last < ? ORDER BY last DESC"] {
                let sql = "SELECT last, block FROM archived_segment WHERE file = ? AND \(place) LIMIT 1"
                let found = try rows(sql, [id.number, sought(version)]) { row in
                    try archivedEntries(row.bytes(1), endingAt: row.number(0))
                }
                if let entries = found.first?.filter({ $0.version <= version }), !entries.isEmpty { return entries }
            }
            return []
        }
    }

    /// The oldest and the newest version in the archive.
    func archivedVersions() throws(HistoryError) -> ClosedRange<ServerVersion>? {
        try translatingErrors {
            let sql = "SELECT last, block FROM archived_segment WHERE file = ? ORDER BY last"
            let oldest = try rows(sql + " LIMIT 1", [id.number]) { row in
                try archivedEntries(row.bytes(1), endingAt: row.number(0)).first?.version
            }
            guard let first = oldest.first ?? nil, let last = try archivedEntries(upTo: .largest).last?.version else {
                return nil
            }
            return first...last
        }
    }

    private func archivedEntries(
        _ block: [UInt8], endingAt last: ServerVersion
    ) throws -> [LogEntry] {
        do {
            let segment = try LogSegment(block, of: try record().start)
            guard segment.range.last == last else {
                throw HistoryError(.storeDamaged, "it ends with entry \(segment.range.last)")
            }
            return try segment.content().entries
        } catch let error as HistoryError {
            throw HistoryError(error.code, "the archived log segment up to entry \(last): \(error.reason)")
        }
    }
}

import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// The stored state of one synced file, as of the newest commit.
///
/// Rows are read when an object is needed, also in the middle of `SQLiteStore.read`. The database then has to be read
/// from within a read, which GRDB allows to `unsafeReentrantRead` alone. Both see the same commit, since only the
/// thread of the file commits to it.
struct SQLiteRows: ObjectRows {
    let file: SyncedFileID
    let pool: DatabasePool

    /// - Throws: `storeFailed` if the row of the schema cannot be read.
    func graph() throws(HistoryError) -> ObjectGraph {
        do {
            return try ObjectGraph(rows: self)
        } catch {
            throw HistoryError(.storeFailed, "the state cannot be read: \(error)")
        }
    }

    func row(at address: RowAddress) throws -> [UInt8]? {
        try pool.unsafeReentrantRead { db in
            let file = SQLiteFile(id: self.file, db: db)
            let sql = "SELECT content FROM state_row WHERE file = ? AND class = ? AND key = ? AND chunk = ?"
            return try file.rows(sql, file.arguments(address)) { try $0.bytes(0) }.first
        }
    }

    func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int
    ) throws -> [(key: [UInt8], row: [UInt8])] {
        try pool.unsafeReentrantRead { db in
            // No key is empty, so the first one is above that.
            let sql = """
                SELECT key, content FROM state_row WHERE file = ? AND class = ? AND key > ? AND chunk = 0
                ORDER BY key LIMIT ?
                """
            let arguments: StatementArguments = [
                file.number, Int64(classID.rawValue), Data(key ?? []), limit,
            ]
            return try SQLiteFile(id: file, db: db).rows(sql, arguments) { (try $0.bytes(0), try $0.bytes(1)) }
        }
    }
}

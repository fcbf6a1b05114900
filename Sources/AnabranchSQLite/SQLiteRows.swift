import AnabranchCore
import AnabranchHistory
import AnabranchRows
import GRDB

/// The stored state of one synced file, as of the newest commit.
struct SQLiteRows {
    let file: SyncedFileID
    let pool: DatabasePool

    /// - Throws: `storeFailed` or `storeDamaged` if the row of the schema cannot be read.
    func graph() throws(HistoryError) -> ObjectGraph {
        do {
            return try StateTable(file: file.number).state(in: pool)
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }
}

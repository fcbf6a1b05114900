import AnabranchCore
import AnabranchHistory
import AnabranchRows
import GRDB

/// The stored state of one synced file, as of the newest commit.
struct SQLiteRows {
    let file: SyncedFileID
    let database: any DatabaseReader

    /// - Throws: `storeFailed` or `storeDamaged` if the row of the schema cannot be read.
    func graph() throws(HistoryError) -> ObjectGraph {
        do {
            return try StateTable(of: file.number).state(in: database)
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }
}

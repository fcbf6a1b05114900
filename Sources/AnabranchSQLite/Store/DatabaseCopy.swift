import AnabranchHistory
import Foundation
import GRDB

/// Copies a database of which another process may be the writer.
///
/// One read transaction lasts from the first page to the last, so the copy is one state between two commits, and no
/// commit makes it begin again. As long as it lasts, the write-ahead log of this database is not emptied.
struct DatabaseCopy {
    /// The number of pages that are copied before a report.
    private static let pagesPerStep: CInt = 1_024
    /// The seconds that it waits for a process that has just begun to make a write-ahead log readable after a crash.
    static let busySeconds = 10.0

    var source: String
    var target: String

    /// - Parameters:
    ///   - read: reads the facts to be kept about the state that is copied.
    ///   - report: called with the number of bytes that were copied since the last call.
    func run<Result>(
        reading read: (Database) throws -> Result, _ report: (Int) throws -> Void
    ) throws(HistoryError) -> Result {
        do {
            return try copy(reading: read, report)
        } catch let error as HistoryError {
            throw error
        } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
            throw HistoryError.diskFull(target)
        } catch let error as DatabaseError where error.isDamage {
            throw HistoryError(.storeDamaged, "\(source): \(error)")
        } catch {
            throw HistoryError(.storeFailed, "\(source) cannot be copied to \(target): \(error)")
        }
    }

    private func copy<Result>(
        reading read: (Database) throws -> Result, _ report: (Int) throws -> Void
    ) throws -> Result {
        let database = try Self.open(source)
        defer { try? database.close() }
        try DataDirectory.makeFile(target).close()
        let copy = try DatabaseQueue(path: target)
        defer { try? copy.close() }
        return try copy.writeWithoutTransaction { copy in
            // An interrupted copy is begun again, and the file is flushed as a whole.
            try copy.execute(sql: "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
            return try database.read { db in
                let result = try read(db), pageBytes = try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 0
                var pages = 0, failure: (any Error)?
                try withoutActuallyEscaping(report) { report in
                    try db.backup(to: copy, pagesPerStep: Self.pagesPerStep) { progress in
                        do {
                            try report((progress.completedPageCount - pages) * pageBytes)
                        } catch {
                            failure = error
                            throw error
                        }
                        pages = progress.completedPageCount
                    }
                }
                // An error thrown after the last page does not end the backup.
                if let failure { throw failure }
                return result
            }
        }
    }

    /// A database that is only read.
    static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(busySeconds)
        return try DatabaseQueue(path: path, configuration: configuration)
    }
}

extension Database {
    /// The digest of all values of all rows, one after the other.
    func digest(of sql: String) throws -> Checksum {
        var digest = Checksum(low: 0, high: 0)
        let rows = try Row.fetchCursor(self, sql: sql)
        while let row = try rows.next() {
            for value in row.databaseValues {
                switch value.storage {
                case .null: digest = digest.keyed([0], [])
                case .int64(let number): digest = digest.keyed([1, UInt64(bitPattern: number)], [])
                case .double(let number): digest = digest.keyed([2, number.bitPattern], [])
                case .string(let text): digest = digest.keyed([3], Array(text.utf8))
                case .blob(let data): digest = digest.keyed([4], Array(data))
                }
            }
        }
        return digest
    }
}

import Foundation
import GRDB
import Synchronization

/// The write-ahead log of a database, and how it is kept short.
///
/// After a commit SQLite moves pages from the log into the database by itself, but it begins the log anew only at a
/// moment when nobody reads it. Readers that overlap each other make it grow without end, and the file then keeps its
/// size. So a log that has become long is emptied as soon as no read that began earlier is under way; those that begin
/// meanwhile read the database alone. Only a log that has become very long keeps new readers out.
final class WriteAheadLog: Sendable {
    /// In bytes; a longer log is emptied when the commit that made it so is done.
    static let bytesMax = 64 << 20
    /// In bytes; with a longer log the commit waits for the reads that are under way, and new ones wait for it.
    static let barrierBytesMax = 1 << 30
    /// In pages; the commit that has made the log longer moves them into the database. Some MiB, so that an object that
    /// is written again and again is not copied, and flushed, with each commit.
    static let movedPagesMin = 8_192
    /// How long the commit waits for reads otherwise.
    private static let busyMilliseconds = 20

    private let path: String
    private let barrierBytesMax: Int
    /// The size above which emptying it is tried. It is higher after a failure, so that not each commit tries in vain.
    private let threshold = Mutex(WriteAheadLog.bytesMax)

    /// - Parameter barrierBytesMax: unless it is the usual one.
    init(ofDatabaseAt path: String, barrierBytesMax: Int = WriteAheadLog.barrierBytesMax) {
        self.path = path + "-wal"
        self.barrierBytesMax = barrierBytesMax
    }

    /// 0 if there is none.
    var byteCount: Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// Empties the log; new readers wait until the running ones are done.
    func empty(in pool: DatabasePool) throws {
        try pool.barrierWriteWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
    }

    /// Empties the log if it is too long. A failure is harmless: it is tried again when the log has grown by a quarter
    /// of the limit.
    func limit(in pool: DatabasePool) {
        guard byteCount > threshold.withLock({ $0 }) else { return }
        do {
            try pool.writeWithoutTransaction { db in
                // Moves the pages while others read.
                _ = try db.checkpoint(.passive)
                if byteCount <= barrierBytesMax { try emptyIfLong(db) }
            }
            if byteCount > barrierBytesMax { try pool.barrierWriteWithoutTransaction(emptyIfLong) }
            threshold.withLock { $0 = Self.bytesMax }
        } catch {
            threshold.withLock { $0 = byteCount + Self.bytesMax / 4 }
        }
    }

    private func emptyIfLong(_ db: Database) throws {
        // Another commit may have done it.
        guard byteCount > Self.bytesMax else { return }
        try db.execute(sql: "PRAGMA busy_timeout = \(Self.busyMilliseconds)")
        defer { try? db.execute(sql: "PRAGMA busy_timeout = 0") }
        _ = try db.checkpoint(.truncate)
    }
}

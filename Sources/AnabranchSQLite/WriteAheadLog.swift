import Foundation
import GRDB
import Synchronization

/// The write-ahead log of a database, and how it is kept short.
///
/// After a commit SQLite moves pages from the log into the database by itself, but it begins the log anew only at a
/// moment when nobody reads it. Readers that overlap each other make it grow without end, and the file then keeps its
/// size. So a log that has become long is emptied while no reader is let in.
final class WriteAheadLog: Sendable {
    /// In bytes; a longer log is emptied when the commit that made it so is done. The commit waits for it.
    static let bytesMax = 64 << 20

    private let path: String
    /// The size above which emptying it is tried. It is higher after a failure, so that not each commit tries in vain.
    private let threshold = Mutex(WriteAheadLog.bytesMax)

    init(ofDatabaseAt path: String) { self.path = path + "-wal" }

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
            // Most pages are moved while others read; for the rest readers wait.
            _ = try pool.writeWithoutTransaction { db in try db.checkpoint(.passive) }
            try pool.barrierWriteWithoutTransaction { db in
                if byteCount > Self.bytesMax { _ = try db.checkpoint(.truncate) }
            }
            threshold.withLock { $0 = Self.bytesMax }
        } catch {
            threshold.withLock { $0 = byteCount + Self.bytesMax / 4 }
        }
    }
}

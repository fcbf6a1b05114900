import Foundation
import GRDB
import Synchronization

/// The write-ahead log of a database, and how it is kept short.
///
/// After a commit SQLite moves pages from the log into the database by itself, but it begins the log anew only at a
/// moment when nobody reads it. Readers that overlap each other make it grow without end, and the file then keeps its
/// size. So a log that has become long is emptied while no reader is let in.
final class WriteAheadLog: Sendable {
    /// What the logs of all shards together may be, in bytes; one shard has its share, but 4 MiB at least.
    static let bytesMax = 64 << 20

    /// In bytes; a longer log is emptied when the commit that made it so is done. The commit waits for it.
    let bytesMax: Int
    private let path: String
    /// The size above which emptying it is tried. It is higher after a failure, so that not each commit tries in vain.
    private let threshold: Mutex<Int>

    init(ofDatabaseAt path: String, shards: Int) {
        self.path = path + "-wal"
        bytesMax = max(4 << 20, Self.bytesMax / shards)
        threshold = Mutex(bytesMax)
    }

    /// 0 if there is none.
    var byteCount: Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// Empties the log if it is too long. A failure is harmless: it is tried again when the log has grown by a quarter
    /// of the limit.
    func limit(in pool: DatabasePool) {
        guard byteCount > threshold.withLock({ $0 }) else { return }
        do {
            // Most pages are moved while others read; for the rest readers wait.
            _ = try pool.writeWithoutTransaction { db in try db.checkpoint(.passive) }
            try pool.barrierWriteWithoutTransaction { db in
                if byteCount > bytesMax { _ = try db.checkpoint(.truncate) }
            }
            threshold.withLock { $0 = bytesMax }
        } catch {
            threshold.withLock { $0 = byteCount + bytesMax / 4 }
        }
    }
}

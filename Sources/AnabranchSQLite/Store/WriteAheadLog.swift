import Foundation
import GRDB
import Synchronization

/// The write-ahead log of a database, and how it is kept short.
///
/// After a commit SQLite moves pages from the log into the database by itself, but it restarts the log only at a moment
/// when nobody reads it. Readers that overlap each other make it grow without end, and the file then keeps its size. So
/// a log that has become long is emptied as soon as no read that began earlier is under way; those that begin in the
/// meantime read the database alone. Only a log that has become very long keeps new readers out.
final class WriteAheadLog: Sendable {
    /// The limit of all logs together, in bytes: while they are longer, each log that has more than half of its share
    /// is emptied when a commit to it is done.
    static let bytesMax = 64 << 20
    /// The size in bytes above which the commit waits for the reads that are under way, and new reads wait for it.
    static let barrierBytesMax = 1 << 30
    /// The size in pages above which the commit that has made the log longer moves them into the database. It is some
    /// MiB, so that an object that is written again and again is not copied, and flushed, with each commit.
    static let movedPagesMin = 8_192
    /// The time that the commit waits for reads otherwise.
    private static let busyMilliseconds = 20

    private let path: String
    private let number: Int
    private let sizes: WriteAheadLogSizes
    private let barrierBytesMax: Int
    /// After a failure, emptying is tried again only above this size, so that not every commit tries and fails.
    private let retryBytesMin = Mutex(0)

    /// - Parameters:
    ///   - number: the number of the shard.
    ///   - sizes: the sizes of the logs of all shards.
    ///   - barrierBytesMax: replaces the usual value, in tests.
    init(
        ofDatabaseAt path: String, number: Int = 0, sizes: WriteAheadLogSizes = WriteAheadLogSizes(count: 1),
        barrierBytesMax: Int = WriteAheadLog.barrierBytesMax
    ) {
        self.path = path + "-wal"
        self.number = number
        self.sizes = sizes
        self.barrierBytesMax = barrierBytesMax
    }

    /// The size of the log in bytes; 0 if there is none.
    var byteCount: Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// Empties the log; new readers wait until the running ones are done.
    func empty(in pool: DatabasePool) throws {
        try pool.barrierWriteWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
    }

    /// Empties the log, unless a read goes on for longer than `busyMilliseconds`.
    /// - Returns: whether it is empty.
    func emptyIfUnread(in pool: DatabasePool) throws -> Bool {
        do {
            try pool.writeWithoutTransaction { db in try empty(db, above: 0) }
            return true
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            return false
        }
    }

    /// Empties the log if it is too long. A failure is harmless: it is tried again when the log has grown by a quarter
    /// of the limit.
    func limit(in pool: DatabasePool) {
        let bytes = byteCount, limit = sizes.limit(ofLog: number, with: bytes)
        guard bytes > limit, bytes > retryBytesMin.withLock({ $0 }) else { return }
        do {
            try pool.writeWithoutTransaction { db in
                // Moves the pages while others read.
                _ = try db.checkpoint(.passive)
                if byteCount <= barrierBytesMax { try empty(db, above: limit) }
            }
            if byteCount > barrierBytesMax {
                try pool.barrierWriteWithoutTransaction { db in try empty(db, above: limit) }
            }
            retryBytesMin.withLock { $0 = 0 }
            _ = sizes.limit(ofLog: number, with: byteCount)
        } catch {
            retryBytesMin.withLock { $0 = byteCount + Self.bytesMax / 4 }
        }
    }

    private func empty(_ db: Database, above limit: Int) throws {
        // Another commit may have emptied it.
        guard byteCount > limit else { return }
        try db.execute(sql: "PRAGMA busy_timeout = \(Self.busyMilliseconds)")
        defer { try? db.execute(sql: "PRAGMA busy_timeout = 0") }
        _ = try db.checkpoint(.truncate)
    }
}

/// The sizes of the write-ahead logs of all shards of a store.
final class WriteAheadLogSizes: Sendable {
    private let bytes: Mutex<[Int]>

    /// - Parameter count: the number of shards.
    init(count: Int) { bytes = Mutex([Int](repeating: 0, count: count)) }

    /// Records the size of a log.
    /// - Returns: the size above which that log has to be emptied.
    func limit(ofLog number: Int, with byteCount: Int) -> Int {
        bytes.withLock { bytes in
            bytes[number] = byteCount
            let areTooLong = bytes.reduce(0, +) > WriteAheadLog.bytesMax
            return areTooLong ? WriteAheadLog.bytesMax / (2 * bytes.count) : WriteAheadLog.bytesMax
        }
    }
}

import AnabranchCore
import AnabranchHistory
import AnabranchRows
import Foundation
import GRDB
import Synchronization

/// A part of a store: some of the synced files in a database of their own, with a writer and a write-ahead log. Shards
/// share nothing, so that each can be flushed while others are.
final class StoreShard: Sendable {
    /// The cache of database pages for the connection that writes, in bytes: the pages of an object that is written
    /// again and again stay there.
    static let writerCacheBytesMax = 6 << 20
    /// The same for all shards of a store together.
    static let allWriterCachesBytesMax = 48 << 20
    /// Connections that read a shard at the same time. Each has two file descriptors, and stays open.
    static let readersMax = 16
    /// The same for all shards of a store together.
    static let allReadersMax = 128
    /// The cache of database pages for a connection that reads, in bytes.
    static let readerCacheBytesMax = 2 << 20

    let number: Int
    let pool: DatabasePool
    private let writeAheadLog: WriteAheadLog
    /// The segments of the store that were opened.
    let segments: SegmentCache
    private let openFiles: Mutex<OpenFiles>
    /// The commits that wait for the one connection that writes.
    private let waiting = Mutex<[CommitRequest]>([])

    /// Makes the database of a new store, unless it has been made.
    static func make(_ number: Int, of manifest: StoreManifest, in directory: DataDirectory) throws(HistoryError) {
        let name = DataDirectory.shardName(number)
        guard directory.size(of: name) == nil else { return }
        directory.remove(name + ".new")
        try translatingErrors(in: name) {
            let path = directory.path(of: name + ".new")
            try DataDirectory.makePrivate(path)
            let queue = try DatabaseQueue(path: path)
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: StoreSchema.layout)
                try db.inTransaction {
                    try StoreSchema.make(number, of: manifest, in: db)
                    return .commit
                }
            }
            try queue.close()
        }
        try DataDirectory.rename(directory.path(of: name + ".new"), to: directory.path(of: name))
    }

    /// Opens the database. Nobody gets a lease before `beginEpoch`.
    /// - Parameters:
    ///   - logSizes: the sizes of the write-ahead logs of all shards.
    ///   - segments: the cache of the whole store.
    init(
        _ number: Int, of manifest: StoreManifest, in directory: DataDirectory, logSizes: WriteAheadLogSizes,
        segments: SegmentCache
    ) throws(HistoryError) {
        self.number = number
        self.segments = segments
        let path = directory.path(ofShard: number)
        writeAheadLog = WriteAheadLog(ofDatabaseAt: path, number: number, sizes: logSizes)
        let (pool, files) = try translatingErrors(in: DataDirectory.shardName(number)) {
            try DataDirectory.makePrivate(database: path)
            let pool = try DatabasePool(path: path, configuration: Self.configuration(number, of: manifest))
            let files = try pool.writeWithoutTransaction { db in
                try StoreSchema.check(number, of: manifest, in: db)
                try db.execute(
                    sql: """
                        PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
                        PRAGMA secure_delete = FAST; PRAGMA journal_size_limit = \(WriteAheadLog.bytesMax);
                        PRAGMA wal_autocheckpoint = \(WriteAheadLog.movedPagesMin);
                        PRAGMA cache_size = -\(Self.writerCacheBytes(shards: manifest.shards) >> 10)
                        """)
                let sql = "SELECT MAX(id) FROM (SELECT id FROM synced_file UNION SELECT file FROM deleted_file)"
                let lastNumber = try Int64.fetchOne(db, sql: sql) ?? 0
                return OpenFiles(lastNumber: lastNumber, epoch: try StoreSchema.epoch(in: db))
            }
            return (pool, files)
        }
        self.pool = pool
        openFiles = Mutex(files)
    }

    private static func configuration(_ number: Int, of manifest: StoreManifest) -> Configuration {
        var configuration = Configuration()
        configuration.label = "anabranch.shard-\(number)"
        configuration.maximumReaderCount = min(readersMax, allReadersMax / manifest.shards)
        let cache = "PRAGMA cache_size = -\(readerCacheBytesMax >> 10)"
        configuration.prepareDatabase { db in try db.execute(sql: cache) }
        return configuration
    }

    /// Begins a new epoch in all shards of a store: when it is opened, and once a day. All earlier leases are lower
    /// than those given out from now on.
    ///
    /// Each shard counts twice, and none is ever ahead of the others by more than one: so an interrupted call can be
    /// told from a shard that was restored from an earlier time.
    static func beginEpoch(of shards: [StoreShard]) throws(HistoryError) {
        let newest = shards.compactMap(\.epoch).max() ?? 0
        for epoch in newest...(newest | 1) + 1 {
            for shard in shards where shard.epoch != epoch { try shard.setEpoch(epoch) }
        }
    }

    var epoch: Int64? { openFiles.withLock(\.epoch) }

    private func setEpoch(_ epoch: Int64) throws(HistoryError) {
        try translatingErrors(in: DataDirectory.shardName(number)) {
            try pool.write { db in try StoreSchema.setMeta("epoch", to: epoch, in: db) }
        }
        openFiles.withLock { $0.begin(epoch) }
    }

    private static func writerCacheBytes(shards: Int) -> Int {
        min(writerCacheBytesMax, allWriterCachesBytesMax / shards)
    }

    /// Ends all access. The write-ahead log is moved into the database: damage to a remaining log would be taken for
    /// its end, and the rest of it lost.
    func close() throws(HistoryError) {
        // By itself SQLite would leave it: the last connection to be closed is one that only reads. A failure is
        // harmless, since everything in the log is committed.
        if writeAheadLog.byteCount > 0 { try? writeAheadLog.empty(in: pool) }
        try translatingErrors { try pool.close() }
    }

    func checkCommit() throws(HistoryError) {
        try translatingErrors(in: DataDirectory.shardName(number)) {
            try pool.write { db in try StoreSchema.setMeta("commit-check", to: 1, in: db) }
        }
    }

    /// The bytes that are committed and not moved into the database yet.
    var writeAheadLogBytes: Int { writeAheadLog.byteCount }

    /// The bytes of the pages of the database that are not free.
    func usedBytes() throws -> Int {
        try pool.read { db in
            func number(_ name: String) throws -> Int { try Int.fetchOne(db, sql: "PRAGMA \(name)") ?? 0 }
            return try (number("page_count") - number("freelist_count")) * number("page_size")
        }
    }

    /// Sets whether commits are flushed to the disk one by one. When that begins, all earlier ones are flushed first.
    func setFlushing(_ isFlushing: Bool) throws(HistoryError) {
        try translatingErrors {
            try pool.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA synchronous = \(isFlushing ? "FULL" : "NORMAL")")
                if isFlushing { _ = try db.checkpoint(.truncate) }
            }
        }
    }

    /// Frees the space of deleted files, piece by piece, and gives the pages back. Then nothing of the files is left in
    /// the database or the write-ahead log; until then they stay listed.
    /// - Parameter shouldContinue: called repeatedly; false stops the work.
    /// - Returns: whether all is freed; false while a reader keeps the write-ahead log in use.
    func freeDeleted(while shouldContinue: () -> Bool) throws -> Bool {
        let files = try pool.read(SQLiteFile.deleted)
        guard !files.isEmpty else { return true }
        var isMore = true
        while isMore, shouldContinue() {
            isMore = try overwritingDeleted { try SQLiteFile.deleteRows(of: files, in: $0) }
        }
        guard !isMore else { return false }
        while shouldContinue(), try overwritingDeleted(SQLiteFile.giveBackPages) {}
        guard try writeAheadLog.emptyIfUnread(in: pool) else { return false }
        try pool.write { db in try SQLiteFile.forgetDeleted(files, in: db) }
        return true
    }

    /// Runs a transaction in which deleted content is overwritten with zeros.
    private func overwritingDeleted(_ body: (Database) throws -> Bool) throws -> Bool {
        try pool.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA secure_delete = ON")
            defer { try? db.execute(sql: "PRAGMA secure_delete = FAST") }
            var result = false
            try db.inTransaction(.immediate) {
                result = try body(db)
                return .commit
            }
            return result
        }
    }

    // MARK: Reading

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile {
        let found = try translatingErrors {
            try pool.read { db in
                let record = try SQLiteFile.find(path, in: db)
                if let record { try file(record.number, db).check(record) }
                return record
            }
        }
        let (opened, lease) = openFiles.withLock { $0.open(path, found) }
        return OpenedFile(
            id: SyncedFileID(opened, shard: number), lease: lease, head: found?.head ?? FileHead())
    }

    func close(_ file: Int64, _ lease: Lease) { openFiles.withLock { $0.close(file, lease) } }

    /// Called when a file was stored that was not open.
    func didStore(_ file: Int64) { openFiles.withLock { $0.didStore(file) } }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool {
        if openFiles.withLock({ $0.hasNew(path) }) { return true }
        return try translatingErrors { try pool.read { db in try SQLiteFile.find(path, in: db) != nil } }
    }

    func read<Result>(
        _ file: Int64, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try translatingErrors { try pool.read { db in try body(self.file(file, db).view()) } }
    }

    /// Reads content of a file that its view does not have.
    func readFile<Result>(
        _ file: Int64, _ body: (SQLiteFile) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try translatingErrors { try pool.read { db in try body(self.file(file, db)) } }
    }

    /// The state is read in a transaction of its own, which lasts as long as the state is kept.
    func frozenState(of file: Int64) throws(HistoryError) -> FrozenState {
        try translatingErrors {
            let snapshot = try pool.makeSnapshot()
            let head = try snapshot.read { db in try self.file(file, db).head() }
            return FrozenState(state: try StateTable(of: file).state(in: snapshot), head: head)
        }
    }

    func file(_ file: Int64, _ db: Database) -> SQLiteFile {
        SQLiteFile(
            id: SyncedFileID(file, shard: number), db: db, newPath: openFiles.withLock { $0.newPath(of: file) },
            segments: segments)
    }

    // MARK: Committing

    /// The caller that gets the writing connection commits for all that wait: one flush to the disk serves them
    /// together. If their common transaction fails, each has one of its own, so that only those fail that have to.
    func commit(_ commits: [Commit]) throws(HistoryError) {
        let request = try enqueue(commits)
        pool.writeWithoutTransaction { db in commitWaiting(in: db) }
        writeAheadLog.limit(in: pool)
        try request.outcome.withLock { $0 }.get()
    }

    /// Finds the rows of states to write, while the stored ones are unchanged: within one read, unless the changes are
    /// so small that none may be needed.
    private func enqueue(_ commits: [Commit]) throws(HistoryError) -> CommitRequest {
        func prepare() throws -> [CommitRequest.Prepared] { try commits.map { ($0, try $0.state?.rowWrites()) } }
        let isSmall = commits.count <= 4 && commits.allSatisfy { $0.state?.isSmall ?? true }
        let prepared = try translatingErrors { isSmall ? try prepare() : try pool.read { _ in try prepare() } }
        let request = CommitRequest(prepared)
        waiting.withLock { $0.append(request) }
        return request
    }

    private func commitWaiting(in db: Database) {
        let requests = waiting.withLock { waiting in
            defer { waiting.removeAll() }
            return waiting
        }
        guard !requests.isEmpty else { return }
        if requests.count == 1 || !apply(requests, in: db) {
            for request in requests { _ = apply([request], in: db) }
        }
    }

    /// Applies requests in one transaction; if it fails, nothing is stored.
    private func apply(_ requests: [CommitRequest], in db: Database) -> Bool {
        let outcome = Result { () throws(HistoryError) in
            try translatingErrors {
                try db.inTransaction(.immediate) {
                    for (commit, state) in requests.flatMap(\.commits) { try apply(commit, state, in: db) }
                    return .commit
                }
            }
        }
        let hasSucceeded = (try? outcome.get()) != nil
        if hasSucceeded {
            openFiles.withLock { files in
                for (commit, _) in requests.flatMap(\.commits) {
                    files.didMake(commit.file.number)
                    if commit.deletesFile { files.close(commit.file.number, commit.lease) }
                }
            }
        }
        for request in requests { request.outcome.withLock { $0 = outcome } }
        return hasSucceeded
    }

    private func apply(_ commit: Commit, _ state: RowWrites?, in db: Database) throws {
        let lost = HistoryError(.leaseLost, "the file has another writer")
        guard openFiles.withLock({ $0.lease(of: commit.file.number) }) == commit.lease else { throw lost }
        let file = file(commit.file.number, db), record = try file.record()
        guard record.lease <= commit.lease, record.head.version == commit.head.version,
            record.head.stateVersion == commit.head.stateVersion
        else { throw lost }
        try file.apply(commit, to: record, state)
    }
}

/// The commits of one caller, and their outcome.
final class CommitRequest: Sendable {
    typealias Prepared = (commit: Commit, state: RowWrites?)

    let commits: [Prepared]
    let outcome = Mutex<Result<Void, HistoryError>>(.failure(HistoryError(.storeFailed, "the store is closed")))

    init(_ commits: [Prepared]) { self.commits = commits }
}

public import AnabranchCore
public import AnabranchHistory
import Foundation
import GRDB
import Synchronization

/// The durable store of one machine: a SQLite database in a directory of its own, in write-ahead mode, flushed to the
/// disk with each commit (`Spec/Durability.md`). Readers do not wait for writers.
public final class SQLiteStore: Sendable {
    /// Of the database's pages for the connection that writes, in bytes: the pages of an object that is written again
    /// and again stay there.
    static let writerCacheBytesMax = 16 << 20

    private let directory: DataDirectory
    let pool: DatabasePool
    private let writeAheadLog: WriteAheadLog
    /// The uploads that are being integrated.
    public let suspects: (any UploadSuspects)?
    private let leases = Mutex<[SyncedFileID: Lease]>([:])
    /// What waits for the one connection that writes.
    private let waiting = Mutex<[CommitRequest]>([])

    /// Opens the store in a directory, which is made if it is missing, and brings it to the current format.
    /// - Throws: `storeUnusable` if another process uses the directory, a newer program has written it, or its database
    ///   has lost its contents.
    public init(directory path: String) throws(HistoryError) {
        let directory = try DataDirectory(path)
        self.directory = directory
        let isThere = try directory.checkDatabaseIsWhole()
        let databasePath = directory.databasePath
        writeAheadLog = WriteAheadLog(ofDatabaseAt: databasePath)
        suspects = SuspectFile(path: directory.suspectsPath)
        pool = try translatingErrors {
            try DataDirectory.makePrivate(database: databasePath)
            var configuration = Configuration()
            configuration.label = "anabranch"
            configuration.maximumReaderCount = 16
            let pool = try DatabasePool(path: databasePath, configuration: configuration)
            try pool.writeWithoutTransaction { db in
                if try StoreSchema.check(db), isThere { try directory.checkIsNew() }
                try db.execute(
                    sql: """
                        PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
                        PRAGMA journal_size_limit = \(WriteAheadLog.bytesMax);
                        PRAGMA wal_autocheckpoint = \(WriteAheadLog.movedPagesMin);
                        PRAGMA cache_size = -\(Self.writerCacheBytesMax >> 10)
                        """)
            }
            try StoreSchema.migrator.migrate(pool)
            return pool
        }
    }

    /// Opens the store in a directory that has one.
    convenience init(existingIn path: String) throws(HistoryError) {
        let database = URL(fileURLWithPath: path).appendingPathComponent(DataDirectory.databaseName).path
        guard FileManager.default.fileExists(atPath: database) else {
            throw HistoryError(.storeUnusable, "\(path): there is no store in it")
        }
        try self.init(directory: path)
    }

    /// Ends all access and lets others use the directory; files opened before cannot be used any more. The write-ahead
    /// log is moved into the database: damage to a log that is left is taken for its end, and what follows is lost.
    /// - Throws: `storeFailed`.
    public func close() throws(HistoryError) {
        // By itself SQLite would leave it: the last connection to be closed is one that only reads. A failure is
        // harmless, since everything in the log is committed.
        if writeAheadLog.byteCount > 0 { try? writeAheadLog.empty(in: pool) }
        try translatingErrors { try pool.close() }
        directory.release()
    }

    /// What is committed and not moved into the database yet, in bytes.
    public var writeAheadLogBytes: Int { writeAheadLog.byteCount }
}

extension SQLiteStore: HistoryStore {
    public func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile {
        let (id, head) = try translatingErrors {
            let found = try pool.read { db in
                let found = try SQLiteFile.find(path, in: db)
                if let (id, head) = found { try SQLiteFile(id: id, db: db).check(head) }
                return found
            }
            if let found { return found }
            return try pool.write { db in try SQLiteFile.find(path, in: db) ?? SQLiteFile.create(path, in: db) }
        }
        let lease = leases.withLock { leases in
            let lease = Lease((leases[id]?.number ?? 0) + 1)
            leases[id] = lease
            return lease
        }
        return OpenedFile(id: id, lease: lease, head: head)
    }

    public func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try translatingErrors { try pool.read { db in try body(SQLiteFile(id: file, db: db)) } }
    }

    public func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        try SQLiteRows(file: file, pool: pool).graph()
    }

    /// The caller that gets the writing connection commits for all that wait: one flush to the disk serves them
    /// together. If their common transaction fails, each has one of its own, so that only those fail that have to.
    public func commit(_ commits: [Commit]) throws(HistoryError) {
        let request = CommitRequest(try prepare(commits))
        waiting.withLock { $0.append(request) }
        pool.writeWithoutTransaction { db in
            let requests = waiting.withLock { waiting in
                defer { waiting.removeAll() }
                return waiting
            }
            guard !requests.isEmpty else { return }
            if requests.count == 1 || !apply(requests, in: db) {
                for request in requests { _ = apply([request], in: db) }
            }
        }
        writeAheadLog.limit(in: pool)
        try request.outcome.withLock { $0 }.get()
    }

    /// Finds out which rows of states are to be written, while the stored ones are as they were: within one read,
    /// because it may look at many of them.
    private func prepare(_ commits: [Commit]) throws(HistoryError) -> [CommitRequest.Prepared] {
        try translatingErrors {
            try pool.read { _ in try commits.map { ($0, try $0.state?.rowWrites()) } }
        }
    }

    /// Applies requests in one transaction; on failure nothing of it stays.
    private func apply(_ requests: [CommitRequest], in db: Database) -> Bool {
        let outcome = Result { () throws(HistoryError) in
            try translatingErrors { try applyTogether(requests, in: db) }
        }
        for request in requests { request.outcome.withLock { $0 = outcome } }
        return (try? outcome.get()) != nil
    }

    private func applyTogether(_ requests: [CommitRequest], in db: Database) throws {
        try db.inTransaction(.immediate) {
            for (commit, state) in requests.flatMap(\.commits) { try apply(commit, state, in: db) }
            return .commit
        }
    }

    private func apply(_ commit: Commit, _ state: RowWrites?, in db: Database) throws {
        let file = SQLiteFile(id: commit.file, db: db), head = try file.head()
        guard leases.withLock({ $0[commit.file] }) == commit.lease, head.version == commit.head.version,
            head.stateVersion == commit.head.stateVersion
        else {
            throw HistoryError(.leaseLost, "the file has another writer")
        }
        try file.apply(commit, state)
    }
}

/// The commits of one caller, and what became of them.
private final class CommitRequest: Sendable {
    typealias Prepared = (commit: Commit, state: RowWrites?)

    let commits: [Prepared]
    let outcome = Mutex<Result<Void, HistoryError>>(.failure(HistoryError(.storeFailed, "the store is closed")))

    init(_ commits: [Prepared]) { self.commits = commits }
}

/// Runs `body` and gives its errors the form that the contract asks for.
func translatingErrors<Result>(_ body: () throws -> Result) throws(HistoryError) -> Result {
    do {
        return try body()
    } catch let error as HistoryError {
        throw error
    } catch let error as DatabaseError where error.resultCode == .SQLITE_NOTADB {
        let name = DataDirectory.databaseName
        throw HistoryError(
            .storeDamaged, "\(name) is damaged or no database: restore a backup, or use another directory (\(error))")
    } catch let error as DatabaseError where error.isDamage {
        throw HistoryError(.storeDamaged, error.description)
    } catch {
        throw HistoryError(.storeFailed, "\(error)")
    }
}

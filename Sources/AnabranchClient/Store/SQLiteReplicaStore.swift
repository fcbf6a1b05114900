public import AnabranchCore
public import AnabranchReplica
import AnabranchRows
import Foundation
import GRDB
import Synchronization

/// Keeps a replica in one SQLite file (`Spec/Replica.md`, section 2.2). A commit is durable when it returns.
///
/// One object writes a file; a lock on a file next to it, `<name>.lock`, shows that another object or process has it
/// open. Any number of `ReplicaReader`s may read at the same time.
public final class SQLiteReplicaStore: ReplicaStore, Sendable {
    /// The file.
    public let path: String
    private let pool: DatabasePool
    let lock: FileLock
    private let index: Mutex<PropertyIndex>
    private let schema = Mutex<KnownSchema?>(nil)
    static let table = StateTable(file: 1, hasPages: true)

    /// Opens a replica's file, or creates it, readable only for its owner.
    /// - Throws: `ReplicaError` with the code `inUse` if another object or process has it open for writing,
    ///   `unknownFormat` if it is another kind of file, `storeFailed` with the reason of the system.
    public convenience init(path: String) throws(ReplicaError) {
        try self.init(path: path, try FileLock(of: path))
    }

    /// - Parameter lock: of this file.
    init(path: String, _ lock: FileLock) throws(ReplicaError) {
        self.path = path
        self.lock = lock
        let (pool, index) = try Self.translatingErrors(path) {
            try FileLock.makePrivate(path)
            try ReplicaSchema.checkHeader(path)
            let pool = try DatabasePool(path: path, configuration: Self.configuration(label: "anabranch.replica"))
            try pool.writeWithoutTransaction { db in
                try ReplicaSchema.prepare(db)
                try db.execute(
                    sql: "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")
            }
            let state = try Self.table.state(in: pool)
            return (pool, try pool.read { db in try PropertyIndex(of: state, in: db) })
        }
        self.pool = pool
        self.index = Mutex(index)
    }

    /// The size of each connection's cache of database pages, in bytes.
    static let cacheBytesMax = 1 << 20
    /// The largest number of connections that read at the same time.
    static let readersMax = 4

    static func configuration(label: String, isReadOnly: Bool = false) -> Configuration {
        var configuration = Configuration()
        configuration.label = label
        configuration.readonly = isReadOnly
        configuration.maximumReaderCount = readersMax
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA cache_size = -\(cacheBytesMax >> 10)") }
        return configuration
    }

    static func translatingErrors<Value>(_ path: String, _ body: () throws -> Value) throws(ReplicaError) -> Value {
        do {
            return try body()
        } catch let error as ReplicaError {
            throw ReplicaError(error.code, "\(path): \(error.reason)")
        } catch let error as DatabaseError {
            throw ReplicaError(error, of: path)
        } catch {
            throw ReplicaError(reading: error, of: path)
        }
    }

    /// Closes the file, and removes its write-ahead log. Nothing else may be called afterwards.
    /// - Throws: `ReplicaError` if a snapshot still exists.
    public func close() throws(ReplicaError) {
        try closeFile()
        lock.release()
    }

    /// Closes the file, which nobody else can open before the lock is released.
    func closeFile() throws(ReplicaError) {
        try Self.translatingErrors(path) {
            // The pool closes its writer first, and a connection that only reads leaves the write-ahead log behind.
            pool.invalidateReadOnlyConnections()
            try pool.close()
        }
    }

    // MARK: ReplicaStore

    /// See `ReplicaStore`.
    public func load() throws -> StoredReplica {
        try Self.translatingErrors(path) {
            let ((record, log), hasState) = try pool.read { db in
                (try ReplicaSchema.recordAndLog(in: db), try !Self.table.isEmpty(in: db))
            }
            let state = try Self.table.state(in: pool)
            guard !state.classes.isEmpty || !hasState else { throw ReplicaError(.damaged, "its schema is missing") }
            return StoredReplica(record: record, log: log, state: state)
        }
    }

    /// See `ReplicaStore`.
    public func changeset(of version: ClientVersion) throws -> [UInt8] {
        try read { db in try ReplicaSchema.changeset(of: version, in: db) }
    }

    /// See `ReplicaStore`.
    public func reciprocal(of version: ClientVersion) throws -> [UInt8]? {
        try read { db in try ReplicaSchema.reciprocal(of: version, in: db) }
    }

    /// See `ReplicaStore`.
    public func changedElements(of version: ClientVersion) throws -> [UInt64] {
        try read { db in try ReplicaSchema.changedElements(of: version, in: db) }
    }

    /// See `ReplicaStore`.
    public func bootstrapParts() throws -> [DownloadedChangeset] {
        try read { db in try ReplicaSchema.bootstrapParts(in: db) }
    }

    private func read<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try Self.translatingErrors(path) { try pool.unsafeReentrantRead(body) }
    }

    /// See `ReplicaStore`. The commit is durable on return.
    public func commit(_ commit: ReplicaCommit) throws {
        try Self.translatingErrors(path) {
            try pool.writeWithoutTransaction { db in
                try db.inTransaction(.immediate) {
                    try carryOut(commit, in: db)
                    return .commit
                }
            }
        }
    }

    private func carryOut(_ commit: ReplicaCommit, in db: Database) throws {
        if commit.erasesState { try Self.table.removeAll(in: db) }
        try Self.table.write(commit.state, in: db)
        try index.withLock { $0 }.write(commit.state, erasesState: commit.erasesState, in: db)
        if commit.trimmedVersion > 0 {
            for table in ["log", "changed_element"] {
                try execute("DELETE FROM \(table) WHERE version <= ?", [commit.trimmedVersion.stored], db)
            }
        }
        for version in commit.removed { try execute("DELETE FROM log WHERE version = ?", [version.stored], db) }
        for (version, changeset) in commit.written where version.number > commit.trimmedVersion {
            try ReplicaSchema.store(version, changeset, in: db)
        }
        for (version, digests) in commit.changedElements {
            try ReplicaSchema.store(changed: digests, of: version, in: db)
        }
        for (version, changeset) in commit.reciprocals {
            try ReplicaSchema.store(reciprocal: changeset, of: version, in: db)
        }
        try carryOut(commit.bootstrap, in: db)
        try ReplicaSchema.store(commit.record, logCount: commit.logCount, in: db)
    }

    private func carryOut(_ parts: ReplicaCommit.BootstrapParts, in db: Database) throws {
        switch parts {
        case .stay: return
        case .go: try execute("DELETE FROM bootstrap_part", [], db)
        case .begin(let first):
            try execute("DELETE FROM bootstrap_part", [], db)
            try carryOut(.come(first), in: db)
        case .come(let more): for part in more { try ReplicaSchema.append(part, in: db) }
        }
    }

    /// The origin with which the replica is synchronized; nil if it is not known yet.
    func origin() throws -> String? { try read { db in try ReplicaSchema.origin(in: db) } }

    /// Stores the origin with which alone the replica is synchronized.
    func store(origin: String) throws {
        try Self.translatingErrors(path) { try pool.write { db in try ReplicaSchema.store(origin: origin, in: db) } }
    }

    /// The time when the replica and the server last had the same; nil if they never had.
    func lastSync() throws(ReplicaError) -> Date? {
        try Self.translatingErrors(path) { try pool.read { db in try ReplicaSchema.lastSync(in: db) } }
    }

    /// Stores the time when the replica and the server last had the same.
    func store(lastSync: Date) throws {
        try Self.translatingErrors(path) {
            try pool.write { db in try ReplicaSchema.store(lastSync: lastSync, in: db) }
        }
    }

    private func execute(_ sql: String, _ arguments: StatementArguments, _ db: Database) throws {
        try db.cachedStatement(sql: sql).execute(arguments: arguments)
    }

    // MARK: Indexed properties

    /// See `ReplicaStore`.
    public func recordedSlots(of object: ObjectReference) -> Set<Int> {
        index.withLock { $0.slots(of: object.classID) }
    }

    /// Indexes exactly these properties of these classes; those of other classes stay as they are.
    func declareIndex(of properties: [ClassID: Set<Property>]) throws {
        try Self.translatingErrors(path) {
            var changed = index.withLock { $0 }
            let state = try Self.table.state(in: pool)
            try pool.writeWithoutTransaction { db in
                try db.inTransaction(.immediate) {
                    try changed.declare(properties, of: state, in: db)
                    return .commit
                }
            }
            index.withLock { $0 = changed }
        }
    }

    // MARK: Reading

    /// Calls `body` with the latest committed state. Calls may be nested.
    func read<Value>(_ body: (StoredState) throws -> Value) throws -> Value {
        try readTogether { try body(try storedState()) }
    }

    /// Calls `body` in one transaction of a reader, which saves each of its reads the work of beginning one.
    public func readTogether<Value>(_ body: () throws -> Value) throws -> Value {
        do {
            return try pool.unsafeReentrantRead { db in
                if db.isInsideTransaction { return try body() }
                var value: Value?
                try db.inTransaction(.deferred) {
                    value = try body()
                    return .commit
                }
                guard let value else { throw ReplicaError(.storeFailed, "\(path): the read was not carried out") }
                return value
            }
        } catch let error as DatabaseError {
            throw ReplicaError(error, of: path)
        }
    }

    /// Calls `body` on another thread with the state committed at the moment of the call; commits may go on.
    func readNow(_ body: @escaping @Sendable (Result<StoredState, any Error>) -> Void) {
        pool.writeWithoutTransaction { _ in
            pool.asyncConcurrentRead { db in
                body(
                    Result {
                        _ = try db.get()
                        return try self.storedState()
                    })
            }
        }
    }

    /// The indexed properties, for as long as nothing is committed.
    var storedIndex: StoredIndex { StoredIndex(index.withLock { $0 }, in: pool) }

    private func storedState() throws -> StoredState {
        var known = schema.withLock { $0 }
        let state = try Self.table.state(in: pool, &known)
        schema.withLock { [known] in $0 = known }
        return StoredState(graph: state, index: storedIndex)
    }

    /// The replica as it is now, for as long as the snapshot is kept.
    public func snapshot() throws(ReplicaError) -> ReplicaSnapshot {
        try Self.translatingErrors(path) { try ReplicaSnapshot(try pool.makeSnapshot()) }
    }
}

extension ReplicaError {
    /// The error for one of SQLite, which notices that a file is not a database when it opens it, and damage when it
    /// gets there. If a table or column is missing, another program has written the schema, since the statements are
    /// our own.
    init(_ error: DatabaseError, of path: String) {
        let code: Code =
            switch error.resultCode {
            case .SQLITE_NOTADB: .unknownFormat
            case .SQLITE_CORRUPT, .SQLITE_ERROR, .SQLITE_MISMATCH, .SQLITE_CONSTRAINT: .damaged
            default: .storeFailed
            }
        self.init(code, "\(path): \(error.message ?? "\(error.resultCode)")")
    }
}

public import AnabranchCore
public import AnabranchProtocol
public import AnabranchReplica
import Foundation

/// A replica in a file that an application writes and reads, and that a `SyncClient` synchronizes in the background
/// (`Spec/Replica.md`, section 3). It works without one as well.
///
///     let replica = try SyncedReplica(path: "tasks.replica")
///     try await replica.write { tx in … }
///     try await client.add(replica, partition: …)
///     try await replica.waitForUpload()
///
/// All calls take their turn, on a thread of the replica's own. `write` returns when the disk has the change.
public actor SyncedReplica {
    private let queue = QueueExecutor(label: "anabranch.replica")
    /// Where the calls are carried out.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { queue.asUnownedSerialExecutor() }

    /// The file.
    public nonisolated let path: String
    nonisolated let readers: ReplicaReaders
    nonisolated let hub = ChangeHub()
    nonisolated let board = StatusBoard()
    var replica: Replica<SQLiteReplicaStore>
    let now: @Sendable () -> ChangesetTime
    /// Those whose properties are indexed.
    private var indexed: [ObjectSchema] = []
    /// What observers and indexes have been told of: the classes, and how often the state was made anew.
    private var told: (stamp: SchemaStamp, renewals: Int)?

    // The session.
    var session: ClientSession?
    var space = ReplicaSpace()
    /// Called when the session may have something to say.
    var wake: (@Sendable () -> Void)?
    var status = SyncStatus.offline
    var waiters = Waiters()
    /// How far it has come, for those who watch.
    var transfers = Transfers()
    var items = ItemStatuses()
    private(set) var isClosed = false
    private var observers: [Int: AsyncStream<ReplicaEvent>.Continuation] = [:]
    private var observerCount = 0

    /// Opens a replica's file, or makes it.
    ///
    /// - Parameter now: the clock, for the times of changes.
    /// - Throws: `ReplicaError`: with the code `inUse` if somebody else writes it.
    public init(path: String, now: @escaping @Sendable () -> ChangesetTime = { .now }) throws(ReplicaError) {
        self.path = path
        self.now = now
        let lock = try FileLock(of: path)
        try ReplicaReset.finish(path)
        let store = try SQLiteReplicaStore(path: path, lock)
        readers = ReplicaReaders(store)
        replica = try Replica(store)
        transfers.count(replica.unacknowledged)
        board.publish(Self.status(of: replica, transfers))
    }

    /// Ends the session without a word, and closes the file. No other call may follow.
    public func close() throws {
        end(SyncError(.notSynchronized, "the replica was closed"))
        for observer in observers.values { observer.finish() }
        hub.end()
        board.end()
        items.end()
        isClosed = true
        try readers.replaceStore {
            try replica.store.close()
            return nil
        }
    }

    // MARK: Reading and writing

    /// A local transaction. When it returns, the disk has the change, and it is uploaded when there is a connection.
    ///
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, and then nothing has happened; `ApplyError` with the place for what makes no
    ///   sense; `ReplicaError` if the disk fails.
    @discardableResult
    public func write<Value: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Value) throws -> Value {
        try write { transaction, _ in try body(transaction) }
    }

    /// The same with the index of what is stored.
    func write<Value: Sendable>(
        _ body: @Sendable (WriteTransaction, StoredIndex) throws -> Value
    ) throws -> Value {
        let index = replica.store.storedIndex
        let written = try replica.write(at: replica.writingTime(now())) { try body($0, index) }
        if !written.changeset.isEmpty {
            transfers.committed(bytes: written.changeset.count)
            changed(written.changes, isLocal: true)
        }
        return written.result
    }

    /// Indexes the properties that types want to have indexed, also those that come later.
    func declareIndex(_ schemas: [ObjectSchema]) throws {
        indexed += schemas
        try declareIndex()
    }

    private func declareIndex() throws {
        guard !indexed.isEmpty else { return }
        let classes = _BoundClasses(replica.state.classes)
        var properties: [ClassID: Set<Property>] = [:]
        for schema in indexed {
            guard let bound = try classes.bound(schema) else { continue }
            properties[bound.number] = Set(schema.indexed.compactMap { bound.properties[$0] })
        }
        try replica.store.declareIndex(of: properties)
    }

    /// Reads what is there now.
    public func read<Value: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Value) throws -> Value {
        try replica.state.read(body)
    }

    /// Calls `body` on this thread with what was committed last.
    nonisolated func reading<Value>(_ body: (StoredState) throws -> Value) throws -> Value {
        try readers.read(body)
    }

    /// What is there now, for as long as it is needed. It can be read anywhere while the replica is written.
    public func snapshot() throws -> ReplicaSnapshot { try replica.store.snapshot() }

    /// Numbers and cursors.
    public var record: ReplicaRecord { replica.record }

    /// The local changes that the server has not acknowledged: how many transactions, and how many bytes.
    public var unacknowledged: (changesets: Int, bytes: Int) { replica.unacknowledged }

    /// How the synchronization stands.
    public var syncStatus: SyncStatus { status }

    // MARK: Subscriptions

    /// Takes other subscriptions in the place of those before (`Spec/FlexibleSync.md`, section 2.1).
    /// - Returns: the number of the set; the server is told when what was written before is uploaded.
    @discardableResult
    public func subscribe(_ subscriptions: [Subscription]) throws -> QueryVersion {
        let version = try replica.subscribe(subscriptions)
        updateStatus()
        wake?()
        return version
    }

    func useFlexibleSync() throws { try replica.useFlexibleSync() }

    // MARK: Observing

    /// What happens from now on, until the task that reads it is cancelled. A slow reader loses nothing.
    public func events() -> AsyncStream<ReplicaEvent> {
        let (stream, continuation) = AsyncStream<ReplicaEvent>.makeStream()
        if isClosed { continuation.finish() }
        observerCount += 1
        let number = observerCount
        observers[number] = continuation
        continuation.onTermination = { [weak self] _ in
            guard let self else { return }
            Task { await self.removeObserver(number) }
        }
        return stream
    }

    /// Something was committed: those hear of it who observe objects.
    func publish(isLocal: Bool) {
        hub.publish(replica.noted, isLocal: isLocal)
        let now = (replica.state.schemaStamp, replica.renewalCount)
        guard told.map({ $0 != now }) ?? true else { return }
        told = now
        // An index that cannot be made is missed by nobody but the clock.
        try? declareIndex()
        hub.renew(replica.state.classes)
    }

    /// What is committed is noted for those who observe it.
    func updateObserved() {
        if hub.isEmpty {
            replica.isObserved = nil
        } else {
            let hub = hub
            replica.isObserved = { hub.isObserved($0) }
            if told == nil { publish(isLocal: true) }
        }
    }

    /// Another file has taken the place of this one.
    func adopt(_ new: consuming Replica<SQLiteReplicaStore>) {
        replica = new
        told = nil
        items.forgetLog()
        transfers.count(replica.unacknowledged)
        updateObserved()
        publish(isLocal: false)
    }

    private func removeObserver(_ number: Int) { observers[number] = nil }

    func tell(_ event: ReplicaEvent) {
        for observer in observers.values { observer.yield(event) }
    }

    func changed(_ changes: StateChanges, isLocal: Bool) {
        if isLocal { wake?() }
        publish(isLocal: isLocal)
        updateStatus()
        guard !observers.isEmpty else { return }
        tell(.changed(version: replica.version, objects: changes.distinctObjects, isLocal: isLocal))
    }
}

/// How the synchronization of a replica stands.
public enum SyncStatus: Equatable, Sendable {
    /// No client synchronizes it, or there is no connection.
    case offline
    /// There is a connection, and the session is being set up.
    case connecting
    /// Changes go to and fro.
    case running
    /// The server wants some time; the session goes on by itself.
    case waiting(SyncError)
    /// The replica is replaced by a fresh one.
    case resetting
    /// Nothing more happens before the application does something.
    case stopped(SyncError)
}

/// What happens to a replica.
public enum ReplicaEvent: Sendable {
    /// A transaction was committed: the objects that it created, changed or erased.
    case changed(version: ClientVersion, objects: [ObjectReference], isLocal: Bool)
    /// The synchronization stands otherwise.
    case status(SyncStatus)
    /// The server has undone writes of this replica; the objects are as the server has them.
    case writesUndone(ErrorMessage)
    /// A client reset begins: what is here now is kept in `SyncedReplica.path` and an ending until it is over.
    case resetBegins
    /// A client reset is over. What was not uploaded is in this backup; nil if there was nothing.
    case resetEnded(ResetReport)
}

/// What a client reset has done.
public struct ResetReport: Equatable, Sendable {
    /// Where the replica is as it was; nil if everything in it had been uploaded.
    public var backupPath: String?
    /// Transactions that were made again on the fresh state.
    public var recoveredChangesets = 0
    /// Changes that could not be made again, because what they change is gone.
    public var droppedChanges = 0
    /// Transactions that were not uploaded and not made again: only the backup has them.
    public var discardedTransactions = 0

    /// Of a reset without local changes.
    public init() {}
}

extension ChangesetTime {
    /// What the clock of the system says.
    public static var now: ChangesetTime { ChangesetTime(secondsSince1970: Date().timeIntervalSince1970) }
}

public import AnabranchCore
public import AnabranchProtocol
public import AnabranchReplica
import Foundation

/// A replica in a file that an application writes and reads, and that a `SyncClient` synchronizes in the background
/// (`Spec/Replica.md`, section 3). It works without a client as well.
///
///     let replica = try SyncedReplica(path: "tasks.replica")
///     try await replica.write { tx in … }
///     try await client.add(replica, partition: …)
///     try await replica.waitForUpload()
///
/// All calls take their turn, on a thread of the replica's own. `write` returns when the change is durable.
public actor SyncedReplica {
    private let queue = QueueExecutor(label: "anabranch.replica")
    /// The executor that carries out the calls.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { queue.asUnownedSerialExecutor() }

    /// The file.
    public nonisolated let path: String
    nonisolated let readers: ReplicaReaders
    nonisolated let hub = ChangePublisher()
    nonisolated let board = StatusPublisher()
    var replica: Replica<SQLiteReplicaStore>
    let now: @Sendable () -> ChangesetTime
    /// The schemas whose properties are indexed.
    private var indexed: [ObjectSchema] = []
    /// The stamp of the classes, and the number of rebuilds of the state, at the last notification of observers and
    /// indexes.
    private var announced: (stamp: SchemaStamp, renewals: Int)?

    // The session.
    var session: ClientSession?
    var space = ReplicaSpace()
    /// The user for whom it is synchronized, if the route names one.
    var account: String?
    /// Called when the session may have something to say.
    var wake: (@Sendable () -> Void)?
    var status = SyncStatus.offline
    var waiters = Waiters()
    /// The progress of transfers, for observers.
    var transfers = Transfers()
    var items = ItemStatuses()
    var lastSync: LastSync
    private(set) var isClosed = false
    private var observers: [Int: AsyncStream<ReplicaEvent>.Continuation] = [:]
    private var observerCount = 0
    private var follower: (@Sendable (_ objects: [ObjectReference]?, _ isLocal: Bool) -> Void)?

    /// Opens or creates a replica's file.
    ///
    /// - Parameter now: the clock, for the times of changes.
    /// - Throws: `ReplicaError`, with the code `inUse` if another object or process has it open for writing.
    public init(path: String, now: @escaping @Sendable () -> ChangesetTime = { .now }) throws(ReplicaError) {
        self.path = path
        self.now = now
        let lock = try FileLock(of: path)
        try ReplicaReset.finish(path)
        let store = try SQLiteReplicaStore(path: path, lock)
        readers = ReplicaReaders(store)
        replica = try Replica(store)
        replica.recordsOverruled = true
        // Where the time cannot be read, it is not known: that is no reason not to open the file.
        lastSync = LastSync((try? store.lastSync()) ?? nil)
        transfers.count(replica.unacknowledged)
        board.publish(Self.status(of: replica, transfers, lastSync.date))
    }

    /// Ends the session without telling the server, and closes the file. No other call may follow.
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

    /// Makes a local transaction. When it returns, the change is durable; it is uploaded when there is a connection.
    ///
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, and then nothing is changed; `ApplyError` with the place, for a change that makes
    ///   no sense; `ReplicaError` if the disk fails.
    @discardableResult
    public func write<Value: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Value) throws -> Value {
        try write { transaction, _ in try body(transaction) }
    }

    /// Makes a local transaction with the index of the stored state.
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

    /// Indexes the properties that types declare as indexed, including those added later.
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

    /// Reads the current state.
    public func read<Value: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Value) throws -> Value {
        try replica.state.read(body)
    }

    /// Calls `body` on this thread with the latest committed state.
    nonisolated func reading<Value>(_ body: (StoredState) throws -> Value) throws -> Value {
        try readers.read(body)
    }

    /// The replica as it is now, for as long as the snapshot is kept. It can be read on any thread while the replica is
    /// written.
    public func snapshot() throws -> ReplicaSnapshot { try replica.store.snapshot() }

    /// The numbers and cursors.
    public var record: ReplicaRecord { replica.record }

    /// The local changes that the server has not acknowledged, in transactions and in bytes.
    public var unacknowledged: (changesets: Int, bytes: Int) { replica.unacknowledged }

    /// The status of the synchronization.
    public var syncStatus: SyncStatus { status }

    // MARK: Subscriptions

    /// Replaces the subscriptions (`Spec/FlexibleSync.md`, section 2.1).
    /// - Returns: the number of the set. It is sent once all earlier changes are uploaded.
    @discardableResult
    public func subscribe(_ subscriptions: [Subscription]) throws -> QueryVersion {
        let version = try replica.subscribe(subscriptions)
        updateStatus()
        wake?()
        return version
    }

    func useFlexibleSync() throws { try replica.useFlexibleSync() }

    // MARK: Observing

    /// The events from now on, until the task that reads them is cancelled. A slow reader loses nothing.
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

    /// Has `body` called at each commit, before any other call to the replica has its turn.
    /// - Parameter body: gets the objects that were created, changed or erased; nil if the state was replaced.
    package func follow(
        _ body: @escaping @Sendable (_ objects: [ObjectReference]?, _ isLocal: Bool) -> Void
    ) {
        follower = body
    }

    /// Tells the observers of objects that something was committed.
    func publish(isLocal: Bool) {
        hub.publish(replica.noted, isLocal: isLocal)
        let now = (replica.state.schemaStamp, replica.renewalCount)
        guard announced.map({ $0 != now }) ?? true else { return }
        announced = now
        // Without an index, queries only take longer.
        try? declareIndex()
        hub.renew(replica.state.classes)
    }

    /// Has the replica note the changes that are observed.
    func updateObserved() {
        if hub.isEmpty {
            replica.isObserved = nil
        } else {
            let hub = hub
            replica.isObserved = { hub.isObserved($0) }
            if announced == nil { publish(isLocal: true) }
        }
    }

    /// Continues with a replica whose file has taken the place of this one.
    func adopt(_ new: consuming Replica<SQLiteReplicaStore>) {
        replica = new
        replica.recordsOverruled = true
        announced = nil
        items.forgetLog()
        lastSync.forgetStored()
        transfers.count(replica.unacknowledged)
        updateObserved()
        follower?(nil, false)
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
        follower?(changes.distinctObjects, isLocal)
        guard !observers.isEmpty else { return }
        tell(.changed(version: replica.version, objects: changes.distinctObjects, isLocal: isLocal))
    }
}

/// The status of a replica's synchronization.
public enum SyncStatus: Equatable, Sendable {
    /// No client synchronizes it, or there is no connection.
    case offline
    /// There is a connection, and the session is being set up.
    case connecting
    /// Changes are sent and received.
    case running
    /// The server has asked to wait; the session continues by itself.
    case waiting(SyncError)
    /// The replica is replaced by a fresh one.
    case resetting
    /// Nothing more happens until the application does something.
    case stopped(SyncError)
}

/// The events that observers of a replica receive, in order.
public enum ReplicaEvent: Sendable {
    /// A transaction was committed: the objects that it created, changed or erased.
    case changed(version: ClientVersion, objects: [ObjectReference], isLocal: Bool)
    /// The status of the synchronization has changed.
    case status(SyncStatus)
    /// The server has undone writes of this replica; the objects are as the server has them.
    case writesUndone(ErrorMessage)
    /// A merge with concurrent changes by others has discarded changes of this replica; the objects are as the merge
    /// has left them.
    case mergedAway([OverruledChange])
    /// A client reset begins: the replica stays as it is until the fresh file takes its place. With the server's
    /// reason; nil if the application has asked for it.
    case resetBegins(because: SyncError?)
    /// A client reset is over. The report names the backup, if there were changes that had not been uploaded.
    case resetEnded(ResetReport)
}

/// The outcome of a client reset.
public struct ResetReport: Equatable, Sendable {
    /// The path of a backup of the replica as it was; nil if everything in it had been uploaded.
    public var backupPath: String?
    /// The number of transactions that were made again on the fresh state.
    public var recoveredChangesets = 0
    /// The number of changes that could not be made again, because what they change is gone.
    public var droppedChanges = 0
    /// The number of transactions that were neither uploaded nor made again: only the backup has them.
    public var discardedTransactions = 0

    /// The report of a reset without local changes.
    public init() {}
}

extension ChangesetTime {
    /// The time by the clock of the system.
    public static var now: ChangesetTime { ChangesetTime(secondsSince1970: Date().timeIntervalSince1970) }
}

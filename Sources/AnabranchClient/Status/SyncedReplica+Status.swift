import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import Foundation

// The status of the synchronization (`Spec/Objects.md`, section 7).

extension SyncedReplica {
    /// Tells the observers the current status.
    func updateStatus() {
        if session?.isRunning == true {
            if isDownloadExpected {
                transfers.expect()
            } else if session?.isWaitingForMark == false {
                transfers.downloadIsComplete()
            }
        }
        recordSync()
        var status = Self.status(of: replica, transfers, lastSync.date)
        addSession(to: &status)
        board.publish(status)
        items.update(status, replica)
    }

    /// True if more is going to be downloaded, as far as it is known.
    var isDownloadExpected: Bool {
        !replica.record.hasSynced || replica.record.awaitsSubscriptions || replica.progress.downloadableBytes > 0
    }

    /// The status as far as it is known without a session.
    static func status(
        of replica: borrowing Replica<SQLiteReplicaStore>, _ transfers: Transfers, _ lastSynced: Date?
    ) -> StoreStatus {
        var status = StoreStatus()
        status.lastSynced = lastSynced
        (status.download, status.upload) = (transfers.download.progress, transfers.upload.progress)
        status.pendingTransactions = transfers.pending.changesets
        status.completedFirstSync = replica.record.hasSynced
        status.isNewerVersionAvailable = !replica.progress.isComplete
        if case .refused(let reason)? = replica.record.subscriptions?.latest.state {
            status.issue = SyncIssue(SyncError(.subscriptionsRefused, reason), isRetrying: false)
        }
        return status
    }

    private func addSession(to status: inout StoreStatus) {
        guard let session else { return }
        if session.isRunning {
            status.activity.insert(.online)
            if transfers.download.isRunning { status.activity.insert(.downloading) }
            if transfers.pending.changesets > 0 { status.activity.insert(.uploading) }
            if session.isWaitingForMark || replica.record.awaitsSubscriptions {
                status.activity.insert(.syncingMetadata)
            }
        }
        status.isRunning = true
        status.account = account
        switch self.status {
        case .stopped(let error): (status.isRunning, status.issue) = (false, SyncIssue(error, isRetrying: false))
        case .waiting(let error): status.issue = SyncIssue(error, isRetrying: true)
        case .offline, .connecting, .running, .resetting:
            if !session.isRunning, let issue = transfers.connectionIssue { status.issue = issue }
        }
    }

    /// Records that there is no connection, for this reason; nil if none is wanted.
    func connectionFailed(_ issue: SyncIssue?) {
        transfers.connectionIssue = issue
        updateStatus()
    }

    // MARK: Objects

    /// The status of an object.
    func status(of item: ItemName) throws -> ObjectStatus {
        try items.readLog(replica)
        return items.status(of: item, board.status, replica.state)
    }

    /// The objects with unacknowledged changes, those that have waited longest first.
    func unsynced() throws -> [UnsyncedObject] {
        var found: Set<ItemName> = [], unsynced: [UnsyncedObject] = []
        for (_, time, objects) in try replica.unacknowledgedObjects(after: 0) {
            for object in objects
            where found.insert(ItemName(className: object.className, key: object.key)).inserted {
                unsynced.append(
                    UnsyncedObject(
                        className: String(decoding: object.className, as: UTF8.self), key: object.key,
                        since: Date(timeIntervalSince1970: time.secondsSince1970)))
            }
        }
        return unsynced
    }

    /// The status of an object, at once and each time that it changes.
    nonisolated func statusUpdates(of item: ItemName) -> AsyncStream<ObjectStatus> {
        let (stream, continuation) = AsyncStream<ObjectStatus>.makeStream(bufferingPolicy: .bufferingNewest(1))
        Task { await self.watch(item, continuation) }
        return stream
    }

    private func watch(_ item: ItemName, _ continuation: AsyncStream<ObjectStatus>.Continuation) {
        guard !isClosed else { return continuation.finish() }
        let number = items.add(item, continuation)
        continuation.onTermination = { [weak self] _ in
            guard let self else { return }
            Task { await self.stopWatching(number) }
        }
        items.update(board.status, replica)
    }

    private func stopWatching(_ number: Int) { items.remove(number) }
}

extension ReplicaRecord {
    /// True while the objects of the newest subscriptions are not here yet.
    fileprivate var awaitsSubscriptions: Bool {
        guard let latest = subscriptions?.latest else { return false }
        switch latest.state {
        case .pending: return latest.version != 0
        case .bootstrapping, .awaitingMark: return true
        case .complete, .refused: return false
        }
    }
}

/// The name of an object among all those of a store.
struct ItemName: Hashable, Sendable {
    let className: [UInt8]
    let key: PrimaryKey
}

/// The statuses of single objects, and their observers.
struct ItemStatuses {
    private struct Watcher {
        let item: ItemName
        let continuation: AsyncStream<ObjectStatus>.Continuation
        var last: ObjectStatus?
    }

    private var watchers: [Int: Watcher] = [:]
    private var lastNumber = 0
    /// The objects that the changesets of the log are about, as far as they were read, by their newest versions.
    private var pending: [ItemName: ClientVersion] = [:]
    private var readThrough: ClientVersion = 0
    private var forgottenThrough: ClientVersion = 0

    mutating func add(_ item: ItemName, _ continuation: AsyncStream<ObjectStatus>.Continuation) -> Int {
        lastNumber += 1
        watchers[lastNumber] = Watcher(item: item, continuation: continuation)
        return lastNumber
    }

    mutating func remove(_ number: Int) { watchers[number] = nil }

    /// Forgets the log, which was replaced by another one.
    mutating func forgetLog() { (pending, readThrough, forgottenThrough) = ([:], 0, 0) }

    mutating func end() {
        for watcher in watchers.values { watcher.continuation.finish() }
        watchers = [:]
    }

    /// Reads the changesets that were added since the last call.
    mutating func readLog(_ replica: Replica<SQLiteReplicaStore>) throws {
        let acknowledged = replica.progress.upload.clientVersion
        if acknowledged > forgottenThrough {
            pending = pending.filter { $0.value > acknowledged }
            forgottenThrough = acknowledged
        }
        for (version, _, objects) in try replica.unacknowledgedObjects(after: readThrough) {
            for object in objects { pending[ItemName(className: object.className, key: object.key)] = version }
        }
        readThrough = replica.version
    }

    func status(of item: ItemName, _ store: StoreStatus, _ state: ObjectGraph) -> ObjectStatus {
        var status = ObjectStatus(of: store, isCached: state.has(item), isPending: pending[item] != nil)
        status.issue?.path = ObjectPath(className: String(decoding: item.className, as: UTF8.self), key: item.key)
        return status
    }

    /// Tells the observers of objects their new statuses.
    mutating func update(_ store: StoreStatus, _ replica: Replica<SQLiteReplicaStore>) {
        guard !watchers.isEmpty else { return }
        // A failure is reported to the next caller that reads the log.
        try? readLog(replica)
        for (number, watcher) in watchers {
            let status = status(of: watcher.item, store, replica.state)
            guard status != watcher.last else { continue }
            watchers[number]?.last = status
            // A stream that ended before it was added would otherwise never be removed.
            if case .terminated = watcher.continuation.yield(status) { watchers[number] = nil }
        }
    }
}

extension ObjectGraph {
    fileprivate func has(_ item: ItemName) -> Bool {
        guard let number = classes.first(where: { $0.name == item.className })?.number else { return false }
        return (try? object(ObjectReference(classID: number, key: item.key))) != nil
    }
}

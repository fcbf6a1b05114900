import AnabranchCore
import AnabranchProtocol
import AnabranchReplica

// A client reset (`Spec/History.md`, section 12.6; `Spec/Replica.md`, section 4).

/// The reaction when the server requests that a replica be replaced by a fresh one, because the server has lost its
/// history or the replica was offline for too long.
public enum ResetMode: Sendable {
    /// Nothing: the session stops with `SyncError.Code.clientResetRequired`, and the application decides. It may read
    /// the replica, and call `SyncClient.reset`.
    case manual
    /// The replica gets the server's state. Changes that were not uploaded are in a backup.
    case discardLocal
    /// Changes that were not uploaded are made again on the server's state; if the server forbids it, or a recovery was
    /// interrupted before, the session stops as with `manual`. The replica as it was is in a backup.
    case recover
    /// Like `recover`, but where that stops, local changes are discarded.
    case recoverOrDiscard

    /// - Parameter isAllowed: whether the server allows recovery.
    /// - Returns: whether to recover; nil if nothing is done.
    func recovers(isAllowed: Bool, isRecovering: Bool) -> Bool? {
        switch self {
        case .manual: nil
        case .discardLocal: false
        case .recover: isAllowed && !isRecovering ? true : nil
        case .recoverOrDiscard: isAllowed && !isRecovering
        }
    }
}

/// The changes that were not uploaded and that a client reset makes again.
enum RecoveredChanges: Equatable {
    case none
    case all
    /// All but those of some objects.
    case allBut(Set<ObjectAddress>)

    init(_ recovers: Bool) { self = recovers ? .all : .none }

    var recovers: Bool { self != .none }

    var discarded: Set<ObjectAddress> { if case .allBut(let objects) = self { objects } else { [] } }
}

extension SyncedReplica {
    /// Begins a client reset.
    /// - Parameter reason: the server's; nil if the application has asked for it.
    func beginReset(because reason: SyncError?) {
        session?.suspend()
        set(.resetting)
        tell(.resetBegins(because: reason))
    }

    /// The subscriptions for the fresh file; nil in partition-based sync.
    var activeSubscriptionList: [Subscription]? {
        replica.record.subscriptions.map { $0.active?.subscriptions ?? [] }
    }

    /// The replica of a fresh file, which nobody uses here any more.
    func surrender() -> Replica<SQLiteReplicaStore> {
        lastSync = LastSync()
        return replica
    }

    /// Puts a fresh replica, which has everything that the server has, in the place of this one.
    ///
    /// - Parameters:
    ///   - fresh: the replica in the file at `ReplicaReset.freshPath`.
    ///   - recovery: the changes that are made again.
    func reset(to fresh: consuming Replica<SQLiteReplicaStore>, _ recovery: RecoveredChanges) throws {
        guard !isClosed else { throw SyncError(.notSynchronized, "the replica was closed") }
        let unsent = replica.unacknowledged.changesets
        var report = ResetReport()
        var fresh = fresh
        let made = try fresh.takePlace(
            of: replica, recovers: recovery.recovers, discarding: recovery.discarded, at: now())
        (report.recoveredChangesets, report.droppedChanges) = (made.changesets, made.droppedChanges)
        if !recovery.recovers { report.discardedTransactions = unsent }
        try fresh.store.close()
        report.backupPath = try replaceFile(keepsBackup: unsent > 0)
        tell(.resetEnded(report))
        // The changes for which tasks wait have other versions now, and a subscription set may be gone.
        waiters.waitForUpload(of: replica.newestChange)
        waiters.release { $0 == .subscriptionNews || $0.isUploaded(by: replica.progress.upload.clientVersion) }
    }

    /// Puts the fresh file in the place of the old one.
    /// - Returns: the path of the backup; nil if there is none.
    private func replaceFile(keepsBackup: Bool) throws -> String? {
        var backup: String?, failure: (any Error)?
        try readers.replaceStore {
            // The lock is kept: nobody else may open the files while they are replaced.
            try replica.store.closeFile()
            do {
                backup = try ReplicaReset.replace(path, keepsBackup: keepsBackup, at: replica.record.lastWritten)
            } catch {
                // Either the old file is still there, or the new one is `ready` to take its place.
                failure = error
                try ReplicaReset.finish(path)
            }
            let store = try SQLiteReplicaStore(path: path, replica.store.lock)
            adopt(try Replica(store))
            return store
        }
        if let failure { throw failure }
        return backup
    }
}

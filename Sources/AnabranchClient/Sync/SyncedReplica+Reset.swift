import AnabranchCore
import AnabranchProtocol
import AnabranchReplica

// A client reset (`Spec/History.md`, section 12.6; `Spec/Replica.md`, section 4).

/// What is done when the server wants a replica to be replaced by a fresh one: it has lost its history, or the replica
/// was away for too long.
public enum ResetMode: Sendable {
    /// Nothing: the session stops with `SyncError.Code.clientResetRequired`, and the application decides. It may read
    /// the replica, and call `SyncClient.reset`.
    case manual
    /// The replica becomes what the server has. What was not uploaded is in a backup.
    case discardLocal
    /// What was not uploaded is made again on what the server has; if the server forbids it, or a recovery was
    /// interrupted before, the session stops as with `manual`. The replica as it was is in a backup.
    case recover
    /// The same; where `recover` stops, local changes are discarded.
    case recoverOrDiscard

    /// - Parameter isAllowed: whether the server allows recovery.
    /// - Returns: whether to recover; nil: nothing is done.
    func recovers(isAllowed: Bool, isRecovering: Bool) -> Bool? {
        switch self {
        case .manual: nil
        case .discardLocal: false
        case .recover: isAllowed && !isRecovering ? true : nil
        case .recoverOrDiscard: isAllowed && !isRecovering
        }
    }
}

extension SyncedReplica {
    /// A client reset begins.
    func beginReset() {
        session?.suspend()
        set(.resetting)
        tell(.resetBegins)
    }

    /// What the fresh file has to subscribe to; nil in partition-based sync.
    var activeSubscriptionList: [Subscription]? {
        replica.record.subscriptions.map { $0.active?.subscriptions ?? [] }
    }

    /// The replica of a fresh file, which nobody uses here any more.
    func surrender() -> Replica<SQLiteReplicaStore> { replica }

    /// Puts a fresh replica, which has everything that the server has, in the place of this one.
    ///
    /// - Parameter fresh: of the file at `ReplicaReset.freshPath`.
    func reset(to fresh: consuming Replica<SQLiteReplicaStore>, recovers: Bool) throws {
        guard !isClosed else { throw SyncError(.notSynchronized, "the replica was closed") }
        let unsent = replica.unacknowledged.changesets
        var report = ResetReport()
        var fresh = fresh
        let recovery = try fresh.takePlace(of: replica, recovers: recovers, at: now())
        (report.recoveredChangesets, report.droppedChanges) = (recovery.changesets, recovery.droppedChanges)
        if !recovers { report.discardedTransactions = unsent }
        try fresh.store.close()
        report.backupPath = try replaceFile(keepsBackup: unsent > 0)
        tell(.resetEnded(report))
        // What they wait for has other versions now, and a subscription set may be gone.
        waiters.waitForUpload(of: replica.newestChange)
        waiters.release { $0 == .subscriptionNews || $0.isUploaded(by: replica.progress.upload.clientVersion) }
    }

    /// The fresh file takes the place of the old one.
    /// - Returns: where the old one is kept.
    private func replaceFile(keepsBackup: Bool) throws -> String? {
        var backup: String?, failure: (any Error)?
        try readers.replaceStore {
            // The lock is kept: nobody else may open what is in its place for a moment.
            try replica.store.closeFile()
            do {
                backup = try ReplicaReset.replace(path, keepsBackup: keepsBackup, at: replica.record.lastWritten)
            } catch {
                // The old file is there, or the new one is `ready` in its place.
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

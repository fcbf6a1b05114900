public import AnabranchCore
import AnabranchProtocol
import AnabranchReplica

// A client reset (`Spec/Protocol.md`, section 10): a fresh file is downloaded in a session of its own, then it takes
// the place of the old one, whose session begins again.

extension SyncClient {
    /// Makes a client reset for a replica whose session has stopped with `clientResetRequired`.
    /// - Parameter recovers: whether changes that were not uploaded are made again on the server's state.
    /// - Throws: `SyncError` if the client does not synchronize the replica, or its session has not stopped.
    public func reset(_ replica: SyncedReplica, recovers: Bool) async throws {
        try await reset(replica, RecoveredChanges(recovers))
    }

    /// Discards changes that the server does not take, by a client reset that makes all others again.
    /// - Parameter objects: the objects whose changes are discarded, as far as they were not uploaded.
    /// - Throws: `SyncError` if the client does not synchronize the replica, or its session has not stopped.
    public func discard(_ objects: Set<ObjectAddress>, of replica: SyncedReplica) async throws {
        try await reset(replica, .allBut(objects))
    }

    private func reset(_ replica: SyncedReplica, _ recovery: RecoveredChanges) async throws {
        guard let (ident, member) = members.first(where: { $0.value.replica === replica }) else {
            throw SyncError(.notSynchronized, "the client does not synchronize this replica")
        }
        if isUnderWay(resetOf: ident) { return }
        guard case .stopped = await replica.syncStatus else {
            throw SyncError(.notSynchronized, "the session has not stopped: it needs no client reset")
        }
        // A session that has refused a download is still on the connection.
        if !member.isStopped { await connection?.socket.close() }
        members[ident]?.isStopped = false
        retry.signal()
        await download(freshFor: ident, recovery)
    }

    func beginReset(_ ident: SessionID, isRecoveryAllowed: Bool, _ reason: SyncError) async {
        guard let member = members[ident] else { return }
        guard member.reset == nil else { return await giveUp(ident, reason) }
        let isRecovering = await member.replica.record.isRecovering
        guard let recovers = member.resetMode.recovers(isAllowed: isRecoveryAllowed, isRecovering: isRecovering) else {
            return await stop(ident, SyncError(.clientResetRequired, reason.reason))
        }
        await download(freshFor: ident, RecoveredChanges(recovers), because: reason)
    }

    private func isUnderWay(resetOf ident: SessionID) -> Bool {
        members.values.contains { $0.reset?.of == ident && !$0.isLeaving }
    }

    private func download(
        freshFor ident: SessionID, _ recovery: RecoveredChanges, because reason: SyncError? = nil
    ) async {
        guard let member = members[ident], !isUnderWay(resetOf: ident) else { return }
        members[ident]?.rest += 1
        await member.replica.beginReset(because: reason)
        do {
            // The server may not know the file that an earlier attempt has left.
            try ReplicaReset.removeFresh(member.replica.path)
            let fresh = try SyncedReplica(path: ReplicaReset.freshPath(member.replica.path))
            if let subscriptions = await member.replica.activeSubscriptionList {
                try await fresh.useFlexibleSync()
                if !subscriptions.isEmpty { try await fresh.subscribe(subscriptions) }
            }
            var freshMember = Registration(replica: fresh, target: member.target, resetMode: .manual)
            freshMember.reset = (ident, recovery)
            try await add(freshMember)
        } catch {
            await stop(ident, SyncError(.storeFailed, "\(error)"))
        }
    }

    /// Ends a client reset if the fresh file is complete, after a MARK of its session was answered.
    func endReset(_ freshIdent: SessionID) async {
        guard let fresh = members[freshIdent], !fresh.isLeaving, let (ident, recovery) = fresh.reset,
            let member = members[ident]
        else { return }
        if let sets = await fresh.replica.record.subscriptions {
            if case .refused(let reason) = sets.latest.state {
                return await giveUp(freshIdent, SyncError(.subscriptionsRefused, reason))
            }
            guard sets.latest.state == .complete else { return }
        }
        members[freshIdent]?.isLeaving = true
        _ = await fresh.replica.unbind()
        wake(freshIdent)
        do {
            try await member.replica.reset(to: fresh.replica.surrender(), recovery)
            await resume(ident)
        } catch {
            await stop(ident, SyncError(.storeFailed, "the client reset has failed: \(error)"))
        }
    }

    /// Gives up a client reset, since its fresh file cannot be downloaded.
    func giveUp(_ freshIdent: SessionID, _ reason: SyncError) async {
        guard let (ident, _) = members[freshIdent]?.reset else { return }
        await leave(freshIdent)
        await stop(ident, SyncError(.clientResetRequired, "the client reset has failed: \(reason)"))
    }
}

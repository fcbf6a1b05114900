package import AnabranchCore

// A client reset: a fresh replica takes the place of one that the server does not know any more (`Spec/History.md`,
// section 12.6).

/// What was made of the local changes of a replica that was replaced.
package struct ReplicaRecovery: Equatable, Sendable {
    /// Transactions that were made again.
    package var changesets = 0
    /// Changes that could not be made again, because what they change is gone.
    package var droppedChanges = 0
}

extension Replica {
    /// Takes the place of another replica: with its own ident and progress, the other's version, and the other's
    /// subscription sets under their numbers.
    ///
    /// - Parameters:
    ///   - other: the replica as it was.
    ///   - recovers: whether the other's changes that were not acknowledged are made again, and its subscription sets
    ///     stay that the server has not answered yet.
    ///   - now: what the clock says. Changes are made again with their old times, but with none that a wrong clock says.
    /// - Throws: `ReplicaError` if a store fails.
    package mutating func takePlace(
        of other: Replica<some ReplicaStore>, recovers: Bool, at now: ChangesetTime
    ) throws -> ReplicaRecovery {
        var change = Change(self)
        change.append([], at: 0, as: max(record.version, other.record.version) + 1)
        try carryOut(change)
        let recovery = recovers ? try recoverChanges(of: other, at: now) : ReplicaRecovery()
        change = Change(self)
        // What is written next comes behind what was written there.
        change.commit.record.lastWritten = max(record.lastWritten, other.record.lastWritten)
        change.commit.record.subscriptions = other.record.subscriptions
        change.commit.record.subscriptions?.reset(keepsPending: recovers, at: record.version)
        change.commit.record.isRecovering = recovers && recovery.changesets > 0
        try carryOut(change)
        return recovery
    }

    private mutating func recoverChanges(
        of other: Replica<some ReplicaStore>, at now: ChangesetTime
    ) throws -> ReplicaRecovery {
        var result = ReplicaRecovery(), recovery = ChangeRecovery()
        let unacknowledged = other.log.versions(after: other.record.progress.upload.clientVersion).filter {
            $0.bytes > 0
        }
        guard let first = unacknowledged.first else { return result }
        func time(of version: LocalVersion) -> ChangesetTime {
            // The old time stands: another client's newer change wins over it. One that is still to come is none.
            min(version.timestamp, now.following(version.timestamp))
        }
        try write(at: time(of: first)) { tx in try SchemaRecovery.copy(other.state.classes, to: tx) }
        for version in unacknowledged {
            let bytes = try ReplicaError.catching { try other.store.changeset(of: version.number) }
            var arena = ChangesetArena()
            let tag = OriginTag(timestamp: version.timestamp, ident: other.ident)
            let changeset = try arena.decode(bytes, version: version.number.rawValue, tag: tag)
            let written = try write(at: time(of: version)) { tx in
                try recovery.repeatChanges(of: changeset, in: arena, on: tx)
            }
            if !written.changeset.isEmpty { result.changesets += 1 }
        }
        let copied = try write(at: record.lastWritten) { tx in try recovery.copyLists(from: other.state, on: tx) }
        if !copied.changeset.isEmpty { result.changesets += 1 }
        result.droppedChanges = recovery.droppedCount
        return result
    }
}

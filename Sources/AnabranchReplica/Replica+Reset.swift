package import AnabranchCore

// A client reset: a fresh replica takes the place of one that the server does not know any more (`Spec/History.md`,
// section 12.6).

/// The outcome of recovering the local changes of a replica that was replaced.
package struct ReplicaRecovery: Equatable, Sendable {
    /// The number of transactions that were made again.
    package var changesets = 0
    /// The number of changes that could not be made again, because what they change is gone.
    package var droppedChanges = 0
}

extension Replica {
    /// Takes the place of another replica: with its own ident and progress, the other's version, and the other's
    /// subscription sets under their numbers.
    ///
    /// - Parameters:
    ///   - other: the replica as it was.
    ///   - recovers: whether the other's changes that were not acknowledged are made again, and those of its
    ///     subscription sets stay that the server has not answered yet.
    ///   - discarded: the objects whose changes are not made again, and count as none.
    ///   - now: the time by the clock. Changes are made again with their old times, but none later than that.
    /// - Throws: `ReplicaError` if a store fails.
    package mutating func takePlace(
        of other: Replica<some ReplicaStore>, recovers: Bool, discarding discarded: Set<ObjectAddress> = [],
        at now: ChangesetTime
    ) throws -> ReplicaRecovery {
        var change = Change(self)
        change.append([], at: 0, as: max(record.version, other.record.version) + 1)
        try carryOut(change)
        let (recovery, versions) =
            recovers ? try recoverChanges(of: other, discarding: discarded, at: now) : (ReplicaRecovery(), [])
        change = Change(self)
        // The next write has to come after everything that was written there.
        change.commit.record.lastWritten = max(record.lastWritten, other.record.lastWritten)
        change.commit.record.subscriptions = other.record.subscriptions
        // Before a set is sent, exactly the changes made before it are uploaded.
        change.commit.record.subscriptions?.reset(keepsPending: recovers) { [version = record.version] snapshot in
            versions.last { $0.old <= snapshot }?.new ?? version
        }
        change.commit.record.isRecovering = recovers && recovery.changesets > 0
        try carryOut(change)
        return recovery
    }

    /// - Returns: what became of the changes, and the versions that they have in place of the old ones, ascending.
    private mutating func recoverChanges(
        of other: Replica<some ReplicaStore>, discarding discarded: Set<ObjectAddress>, at now: ChangesetTime
    ) throws -> (ReplicaRecovery, versions: [(old: ClientVersion, new: ClientVersion)]) {
        let judge = DiscardJudge(discarded)
        defer { withExtendedLifetime(judge) {} }
        var result = ReplicaRecovery(), recovery = ChangeRecovery(from: other.state, judge: judge)
        let unacknowledged = other.log.versions(after: other.record.progress.upload.clientVersion).filter {
            $0.bytes > 0
        }
        guard let first = unacknowledged.first else { return (result, []) }
        for version in unacknowledged {
            var arena = ChangesetArena()
            let changeset = try other.decode(version, into: &arena)
            let digests = try ReplicaError.catching { try other.store.changedElements(of: version.number) }
            recovery.read(changeset, in: arena, changing: digests)
        }
        func time(of version: LocalVersion) -> ChangesetTime {
            // The old time stands: another client's newer change wins over it. A time in the future does not stand.
            min(version.timestamp, now.following(version.timestamp))
        }
        try write(at: time(of: first)) { tx in try SchemaRecovery.copy(other.state.classes, to: tx) }
        var versions: [(old: ClientVersion, new: ClientVersion)] = [(0, record.version)]
        for version in unacknowledged {
            var arena = ChangesetArena()
            let changeset = try other.decode(version, into: &arena)
            let written = try write(at: time(of: version)) { tx in
                try recovery.repeatChanges(of: changeset, in: arena, on: tx)
            }
            if !written.changeset.isEmpty { result.changesets += 1 }
            versions.append((version.number, record.version))
        }
        result.droppedChanges = recovery.droppedCount
        return (result, versions)
    }
}

/// Leaves out the changes of some objects.
private final class DiscardJudge: RecoveryJudge {
    private let discarded: Set<ObjectAddress>

    init(_ discarded: Set<ObjectAddress>) { self.discarded = discarded }

    func allows(_ instruction: Instruction, in arena: ChangesetArena, on transaction: WriteTransaction) -> Bool {
        discarded.isEmpty || !discarded.contains(ObjectAddress(of: instruction, in: arena))
    }

    func record(dropped instruction: Instruction, in arena: ChangesetArena, _ reason: String) {}
}

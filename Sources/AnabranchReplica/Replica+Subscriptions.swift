public import AnabranchCore

// Flexible sync (`Spec/FlexibleSync.md`, part 2).

extension Replica {
    /// Replaces the subscriptions. They are sent in the next session, once all earlier changes are uploaded.
    ///
    /// - Returns: the number of the new set.
    /// - Throws: `ReplicaError`, with the code `notAllowed` once the replica was synchronized by partition.
    @discardableResult
    public mutating func subscribe(_ subscriptions: [Subscription]) throws -> QueryVersion {
        try useFlexibleSync()
        var change = Change(self)
        change.append([], at: 0)
        let version = change.commit.record.subscriptions?.commit(subscriptions, at: change.commit.record.version) ?? 0
        try carryOut(change)
        return version
    }

    /// Makes the replica one of flexible sync, perhaps without subscriptions.
    public mutating func useFlexibleSync() throws {
        guard record.subscriptions == nil else { return }
        guard record.file == nil else {
            throw ReplicaError(.notAllowed, "the replica is synchronized by partition, and has no subscriptions")
        }
        var change = Change(self)
        change.commit.record.subscriptions = SubscriptionSets()
        try carryOut(change)
    }

    /// Records that the server has refused a set; the one before stays active.
    public mutating func subscriptionsRefused(_ version: QueryVersion, _ message: String) throws {
        try changeSubscriptions { sets throws(ReplicaError) in try sets.refused(version, message) }
    }

    /// Records that the MARK after a bootstrap was answered: the active set is complete.
    public mutating func subscriptionsMarked() throws {
        try changeSubscriptions { sets throws(ReplicaError) in sets.marked() }
    }

    private mutating func changeSubscriptions(
        _ body: (inout SubscriptionSets) throws(ReplicaError) -> Void
    ) throws(ReplicaError) {
        guard var sets = record.subscriptions else {
            throw ReplicaError(.badDownload, "the replica is synchronized by partition")
        }
        try body(&sets)
        guard sets != record.subscriptions else { return }
        var change = Change(self)
        change.commit.record.subscriptions = sets
        try carryOut(change)
    }

    /// Drops the parts of an incomplete bootstrap when a session begins, since the server begins it again.
    public mutating func dropBootstrapParts() throws {
        guard var sets = record.subscriptions,
            openBootstrap != nil || sets.entries.contains(where: { $0.state == .bootstrapping })
        else { return }
        sets.bootstrapsDropped()
        var change = Change(self)
        change.commit.record.subscriptions = sets
        change.commit.bootstrap = .go
        try carryOut(change)
        openBootstrap = nil
    }

    /// Stores a part of a bootstrap; after the last one the whole is integrated in one commit, so that nobody sees half
    /// of it.
    mutating func integrate(
        _ download: Download, ofBootstrap version: QueryVersion, isLast: Bool
    ) throws -> StateChanges {
        guard var sets = record.subscriptions else {
            throw ReplicaError(.badDownload, "a bootstrap, and the replica is synchronized by partition")
        }
        if let large = download.changesets.first(where: {
            $0.changeset.count > ReplicaLimits.bootstrapChangesetBytesMax
        }) {
            throw ReplicaError(.changesetTooLarge, "a changeset of \(large.changeset.count) bytes in a bootstrap")
        }
        let continues = openBootstrap == version || sets.entry(version)?.state == .bootstrapping
        try sets.bootstrapCame(version)
        var change = Change(self)
        guard isLast else {
            change.commit.record.subscriptions = sets
            change.commit.bootstrap = continues ? .come(download.changesets) : .begin(download.changesets)
            try carryOut(change)
            openBootstrap = version
            return StateChanges()
        }
        var whole = download
        if continues {
            whole.changesets = try ReplicaError.catching { try store.bootstrapParts() } + download.changesets
        }
        sets.bootstrapped(version)
        change.commit.record.subscriptions = sets
        change.commit.bootstrap = .go
        let changes = try merge(whole, into: &change)
        try carryOut(change)
        openBootstrap = nil
        return changes
    }
}

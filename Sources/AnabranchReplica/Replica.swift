public import AnabranchCore

/// A synchronized database on the client's side (`Spec/Replica.md`): a state, the log of the local changes that the
/// server has not confirmed, and its place in the server's log. It can be written and read without a server, and has no
/// clock, no network and no disk of its own.
///
///     var replica = try Replica(MemoryReplicaStore())
///     try replica.write(at: replica.writingTime(now)) { tx in try tx.addClass("Task", key: "id", .int) }
///
/// It changes by local transactions and by what a session downloads. Each is one commit of its store: when a function
/// that changes something returns, the change is as durable as the store makes it, and when it throws, nothing has
/// changed.
public struct Replica<Store: ReplicaStore> {
    /// The store that keeps it.
    package internal(set) var store: Store
    /// The numbers and cursors.
    public internal(set) var record: ReplicaRecord
    /// The state that readers see: a value that no later change touches as long as its store keeps what it needs to
    /// read.
    public internal(set) var state: ObjectGraph
    var log: LocalLog
    /// The place up to which the log was uploaded in this session.
    var uploaded = UploadCursor()
    /// The subscription set whose bootstrap is stored in part, which the state of one that is active does not show.
    var openBootstrap: QueryVersion?
    let behaviour: ReplicaBehaviour
    /// True for the objects whose contents before and after a commit are recorded, besides those that the store needs;
    /// nil if there are none.
    package var isObserved: (@Sendable (ObjectReference) -> Bool)?
    /// The changes of the last commit to such objects.
    package private(set) var noted: [NotedChange] = []
    /// True if `overruled` is kept.
    package var recordsOverruled = false
    /// The changes of this replica that the last download has overruled.
    package internal(set) var overruled: [OverruledChange] = []
    /// The number of times the state was rebuilt, which `noted` does not show.
    package private(set) var renewalCount = 0

    /// Opens the replica of a store; a new one if the store is empty.
    /// - Throws: `ReplicaError` if the store cannot be read.
    public init(_ store: Store) throws(ReplicaError) { try self.init(store, ReplicaBehaviour()) }

    package init(_ store: Store, _ behaviour: ReplicaBehaviour) throws(ReplicaError) {
        let stored = try ReplicaError.catching { try store.load() }
        self.store = store
        self.behaviour = behaviour
        record = stored.record
        state = stored.state
        log = LocalLog(stored.log)
        uploaded = stored.record.progress.upload
    }

    /// The number under which it writes: 0 until the server has given it one.
    public var ident: ClientFileID { record.file?.ident ?? 0 }

    /// The timestamp of a change that is made now: the time by the clock. If the clock is a few seconds behind the last
    /// change, it was adjusted, and the time stands still until it catches up; if it is further behind, it was wrong
    /// before and counts again.
    public func writingTime(_ now: ChangesetTime) -> ChangesetTime { now.following(record.lastWritten) }

    // MARK: Local transactions

    /// Makes a local transaction. Its changes are in the log, and are uploaded when there is a session.
    ///
    /// - Parameter timestamp: The time when it is made; see `writingTime`.
    /// - Returns: what `body` returns, and what was changed.
    /// - Throws: what `body` throws, `ApplyError` for a change that makes no sense, `ReplicaError` if the store fails.
    @discardableResult
    public mutating func write<Result>(
        at timestamp: ChangesetTime, _ body: (WriteTransaction) throws -> Result
    ) throws -> WriteResult<Result> {
        try write(at: timestamp, if: { _ in true }, body)
    }

    /// Makes a local transaction that can be refused once it is recorded.
    ///
    /// - Parameter isAccepted: Whether the changeset that was recorded stays; otherwise nothing changes.
    @discardableResult
    package mutating func write<Result>(
        at timestamp: ChangesetTime, if isAccepted: ([UInt8]) throws -> Bool,
        _ body: (WriteTransaction) throws -> Result
    ) throws -> WriteResult<Result> {
        var next = state
        var written = try store.readTogether { try next.write(as: ident, body) }
        guard try written.changeset.isEmpty || isAccepted(written.changeset) else { return written }
        written.changes.append(try next.eraseAsymmetricObjects())
        // Reading changes nothing, and writes nothing to the disk.
        if !written.changeset.isEmpty {
            try commitLocal(
                written.changeset, timestamp, next, written.changes, changing: written.changedElements)
        }
        return written
    }

    /// Commits a local transaction that was recorded elsewhere, perhaps an empty one.
    ///
    /// - Parameter number: The version that it produces, above all earlier ones; the next one if it is nil.
    package mutating func commit(
        _ changeset: [UInt8], at timestamp: ChangesetTime, as number: ClientVersion? = nil
    ) throws {
        var arena = ChangesetArena(), next = state
        let tag = OriginTag(timestamp: timestamp, ident: ident)
        let index = try arena.decode(changeset, version: 1, tag: tag)
        let changes = try apply([index], of: &arena, to: &next)
        try commitLocal(changeset, timestamp, next, changes, as: number)
    }

    private mutating func commitLocal(
        _ changeset: [UInt8], _ timestamp: ChangesetTime, _ next: ObjectGraph, _ changes: StateChanges,
        as number: ClientVersion? = nil, changing digests: [UInt64] = []
    ) throws {
        var change = Change(self, state: next)
        change.commit.state = try change.state.rowWrites(of: changes, noting: recordingDepth)
        change.append(changeset, at: timestamp, as: number)
        if !digests.isEmpty { change.commit.changedElements.append((change.commit.record.version, digests)) }
        change.commit.record.lastWritten = timestamp
        try carryOut(change)
    }

    func apply(
        _ changesets: [ChangesetIndex], of arena: inout ChangesetArena, to state: inout ObjectGraph
    ) throws(ApplyError) -> StateChanges {
        guard behaviour.keepsState else { return StateChanges() }
        let skipsFailures = behaviour.skipsFailures
        return try state.applyTransactions(changesets, of: &arena, refusing: behaviour.refusals) {
            skipsFailures && $0.object != nil
        }
    }

    // MARK: Committing

    /// The changes that a function is about to make: none of them holds before the store has committed them.
    struct Change {
        var state: ObjectGraph
        /// The rows that the state reads from if it takes the place of another one.
        var emptiedRows: EmptiedRows?
        var log: LocalLog
        var commit: ReplicaCommit
        var overruled = OverruledChanges()

        init(_ replica: Replica, state: ObjectGraph? = nil) {
            self.state = state ?? replica.state
            log = replica.log
            commit = ReplicaCommit(replica.record)
        }

        /// Adds a version to the log.
        mutating func append(_ changeset: [UInt8], at timestamp: ChangesetTime, as number: ClientVersion? = nil) {
            commit.record.version = number ?? commit.record.version + 1
            let version = LocalVersion(
                number: commit.record.version, base: commit.record.progress.cursor.serverVersion,
                timestamp: timestamp, bytes: changeset.count)
            if let superseded = log.append(version) { commit.removed.append(superseded) }
            commit.written.append((version, changeset))
        }
    }

    func recordingDepth(of object: ObjectReference) -> RecordingDepth {
        if isObserved?(object) ?? false { return .whole }
        let slots = store.recordedSlots(of: object)
        return slots.isEmpty ? .nothing : .columns(slots)
    }

    mutating func carryOut(_ change: consuming Change) throws(ReplicaError) {
        var commit = change.commit
        commit.logCount = change.log.versions.count
        try ReplicaError.catching { try store.commit(commit) }
        change.emptiedRows?.refill()
        record = commit.record
        noted = commit.state.noted
        overruled = change.overruled.found
        if commit.erasesState { renewalCount += 1 }
        log = change.log
        state = change.state
        if state.loadedBytes > behaviour.loadedBytesMax { state.unload() }
    }
}

extension Replica: Sendable where Store: Sendable {}

/// The behaviour of a replica that tests and measurements vary.
package struct ReplicaBehaviour: Sendable {
    /// The way in which changesets are merged.
    package var strategy = MergeStrategy.indexed
    /// The number of pairs of instructions that a step of a merge visits.
    package var pairsPerStep = Int.max
    /// False for a replica without a state, which takes changesets as they are and applies none.
    package var keepsState = true
    /// True if an instruction on an object that cannot be applied is skipped, which is not an error.
    package var skipsFailures = false
    /// The instructions that a client of an older release cannot apply.
    package var refusals: ApplyRefusals = []
    /// The size of the part of a DOWNLOAD that is integrated in one commit, in bytes of changesets: it ends after the
    /// changeset that reaches it.
    package var commitBytes = 32 << 10
    /// The size up to which objects of a state stay in memory between two commits, in bytes as they are stored; in
    /// memory they take about five times as many.
    package var loadedBytesMax = 256 << 10

    package init() {}
}

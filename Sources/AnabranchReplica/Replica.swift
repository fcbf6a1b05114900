public import AnabranchCore

/// A synchronized database on the client's side (`Spec/Replica.md`): a state, the log of the local changes that the
/// server has not confirmed, and its place in the server's log. It needs no server to be written and read, and has no
/// clock, no network and no disk of its own.
///
///     var replica = try Replica(MemoryReplicaStore())
///     try replica.write(at: replica.writingTime(now)) { tx in try tx.addClass("Task", key: "id", .int) }
///
/// It changes by local transactions and by what a session downloads. Each is one commit of its store: when a function
/// that changes something returns, the change is as durable as the store, and when it throws, nothing has happened.
public struct Replica<Store: ReplicaStore> {
    /// Where it is kept.
    package internal(set) var store: Store
    /// Numbers and cursors.
    public internal(set) var record: ReplicaRecord
    /// What readers see: a value that no later change touches as long as its store keeps what it needs to read.
    public internal(set) var state: ObjectGraph
    var log: LocalLog
    /// How far the log was uploaded in this session.
    var uploaded = UploadCursor()
    let behaviour: ReplicaBehaviour
    /// Who wants to know what objects held before and behind a commit, beside the store; nobody if it is nil.
    package var isObserved: (@Sendable (ObjectReference) -> Bool)?
    /// What the last commit has changed in such objects.
    package private(set) var noted: [NotedChange] = []
    /// How often the state was made anew, without a word in `noted`.
    package private(set) var renewalCount = 0

    /// Opens what the store has; a new replica if it has nothing.
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

    /// The number under which it writes: 0 as long as the server has given it none.
    public var ident: ClientFileID { record.file?.ident ?? 0 }

    /// When something that is written now was written: what the clock says. One that is behind the last change by a few
    /// seconds was adjusted, and stands still until then; behind by more, it was wrong before and counts again.
    public func writingTime(_ now: ChangesetTime) -> ChangesetTime { now.following(record.lastWritten) }

    // MARK: Local transactions

    /// One local transaction. The changes are in the log, and are uploaded when there is a session.
    ///
    /// - Parameter timestamp: When it is made; see `writingTime`.
    /// - Returns: what `body` returns, and what was changed.
    /// - Throws: what `body` throws, `ApplyError` for what makes no sense, `ReplicaError` if the store fails.
    @discardableResult
    public mutating func write<Result>(
        at timestamp: ChangesetTime, _ body: (WriteTransaction) throws -> Result
    ) throws -> WriteResult<Result> {
        try write(at: timestamp, if: { _ in true }, body)
    }

    /// The same.
    ///
    /// - Parameter isAccepted: Whether the changeset that was recorded stays; otherwise nothing has happened.
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

    /// One local transaction that was recorded elsewhere, perhaps an empty one.
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
        change.commit.state = try change.state.rowWrites(of: changes, noting: noteDepth)
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

    /// What a function is about to change: nothing of it holds before the store has it.
    struct Change {
        var state: ObjectGraph
        /// Where the state reads from if it takes the place of another one.
        var emptiedRows: EmptiedRows?
        var log: LocalLog
        var commit: ReplicaCommit

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

    func noteDepth(of object: ObjectReference) -> NoteDepth {
        if isObserved?(object) ?? false { return .whole }
        let slots = store.notedSlots(of: object)
        return slots.isEmpty ? .nothing : .columns(slots)
    }

    mutating func carryOut(_ change: consuming Change) throws(ReplicaError) {
        var commit = change.commit
        commit.logCount = change.log.versions.count
        try ReplicaError.catching { try store.commit(commit) }
        change.emptiedRows?.refill()
        record = commit.record
        noted = commit.state.noted
        if commit.erasesState { renewalCount += 1 }
        log = change.log
        state = change.state
        if state.loadedBytes > behaviour.loadedBytesMax { state.unload() }
    }
}

extension Replica: Sendable where Store: Sendable {}

/// What tests and measurements vary.
package struct ReplicaBehaviour: Sendable {
    /// How changesets are merged.
    package var strategy = MergeStrategy.indexed
    /// How many pairs of instructions a step of a merge visits.
    package var pairsPerStep = Int.max
    /// Without a state a replica takes changesets for what they are, and applies none.
    package var keepsState = true
    /// An instruction on an object that cannot be applied is skipped, and is no error.
    package var skipsFailures = false
    /// What a client of an older release cannot apply.
    package var refusals: ApplyRefusals = []
    /// What may stay in memory of a state between two commits, in bytes as they are stored; in memory objects take
    /// about five times as many.
    package var loadedBytesMax = 256 << 10

    package init() {}
}

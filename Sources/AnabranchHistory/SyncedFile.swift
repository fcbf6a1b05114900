public import AnabranchCore

/// The server's side of one synced file: its client files, its log, the resulting state, and the uploads that wait to
/// enter the log.
///
/// Not Sendable: it belongs to one thread, which may block. Methods return only what is durable.
///
/// Over a shared store, it is one node's side of the file (`Spec/Nodes.md`): it takes in changes by other nodes when
/// `follow` is called, or when its own work needs them.
public final class SyncedFile {
    /// The name of the file.
    public let path: VirtualPath
    let store: any HistoryStore
    /// The store's number for the file.
    package let id: SyncedFileID
    let lease: Lease
    /// True if other nodes write the file as well.
    package let isShared: Bool
    /// In a shared store, the newest session of each client file that has begun here.
    var ownSessions: [ClientFileID: UInt64] = [:]
    /// The client files that have a newer session elsewhere, as was found out since `takeSuperseded`.
    var superseded: Set<ClientFileID> = []
    /// The numbers of uploads that were dropped since `takeDropped`, since their client has a newer session.
    var dropped: [ClientFileID: Int] = [:]
    /// True if a commit did not fit: rows of client files may not be what they were.
    var hasConflict = false
    /// The number of entries of other nodes that were taken in.
    package internal(set) var followedCount: UInt64 = 0
    /// The number of times that other nodes have written while uploads waited here, less the commits of uploads since.
    var overtakenCount = 0
    /// The end of the log as of the last commit; its version is the exposed one (`Spec/History.md`, section 3.3).
    public internal(set) var head: FileHead
    /// The head at the end of the last round of maintenance, or at the opening of the file.
    var maintained: FileHead
    /// The newest version when all client files were last looked at.
    var scanned: ServerVersion = 0
    /// True if the log is full and an entry waits to be added.
    var isTrimRequested = false
    /// The newest part of the log; nil if none is kept, and after a failed commit, which may have succeeded if it
    /// failed late.
    var tail: LogTail?
    let tailBytesMax: Int
    /// The time of the newest entry, and its version: of an entry that was read, since one that is only prepared may
    /// be another one in the end.
    var newestTime: (version: ServerVersion, time: ChangesetTime)?
    var sharedScans = SharedScans()
    /// Client files as changed by UPLOADs that brought nothing else, until that is stored.
    var unwritten: [ClientFileID: ClientFile] = [:]
    /// The files among them whose lineage is not stored yet.
    var unwrittenChoices: Set<ClientFileID> = []
    var allProgressIsDue = false
    /// False where each client sees only a part: it begins with a view of the state.
    var makesGenerations = true
    /// The bootstrap generations, once they were read.
    var knownGenerations: [Generation]?
    /// True if the next commits write all unwritten progress.
    package var isProgressDue: Bool { allProgressIsDue && !unwritten.isEmpty }
    /// The lowest pin of the client files that were committed since maintenance began to look at all of them.
    var lowestCommittedPin = ServerVersion.largest
    /// True if somebody else may write the file.
    private var isLeaseLost = false
    /// The state at `head`; nil for a relay.
    var state: ObjectGraph?
    /// True if `commit` only applies a commit to this object, and its owner stores what `takeDeferred` returns before
    /// announcing it.
    package var defersCommits = false
    private var deferred: Commit?
    /// True if `head`, `state` and `tail` are ahead of the store.
    package private(set) var isAhead = false
    /// True after a failed commit, which may have succeeded if it failed late: `state` may be behind the store.
    var isStateUncertain = false
    /// The number of objects that stay in memory between two commits.
    let cachedObjectsMax: Int
    /// The size of the objects that do, in bytes: what was read of them, and what was written since.
    let cachedBytesMax: Int
    /// The salt of the versions that this object makes.
    let versionSalt: Salt
    var randomness: any RandomNumberGenerator
    var queue = WaitingUploads()
    /// When the client files that have identified themselves were seen before, in seconds since 1970.
    var identified: [ClientFileID: UInt64] = [:]
    /// The integration of the first queued uploads; nil between a commit and the next step.
    var integration: Integration?
    /// The entries that it has merged, while the observers are shown them; nil before.
    var observation: Observation?
    /// The bytes that were read of the state when it began.
    var readBytesBefore = 0
    package var mergeOptions = MergeOptions()
    /// The doors that keep records about the entries of the file.
    package var observers: [any RecordObserver] = []
    var observerFailure: HistoryError?
    /// The server's clock. If there is one, the times at which entries are integrated are kept (`Spec/History.md`,
    /// section 18).
    public var clock: (@Sendable () -> ChangesetTime)?
    /// The newest of these times; nil if they were not read yet.
    var times: IntegrationTimes?
    /// Decoded entries for the next integration.
    var decodedEntries = DecodedEntryCache()
    let adoptsUnownedClientFiles: Bool
    /// The size of the uploads that may wait for integration, in bytes (contents and overhead).
    let backlogBytesMax: Int

    /// Opens the file and takes over its lease. If the state is behind the log, it is brought up to date first.
    /// - Parameters:
    ///   - keepsState: whether changesets are applied to the file's state before they enter the log, and refused if
    ///     they cannot be. If not, the file is a mere relay, until it is opened with a state again.
    ///   - destructiveSchema: whether uploads may take classes and columns away.
    ///   - cachedObjectsMax: how many objects of the state stay in memory between two commits, if the store does not
    ///     keep all of them there anyway.
    ///   - cachedBytesMax: how much of the state stays there, in bytes as they are stored.
    ///   - randomness: source of the salts; must be hard to guess except in tests.
    ///   - objectBytesMax: the largest size to which uploads and writes can bring an object, in bytes (`Spec/State.md`,
    ///     B11).
    ///   - adoptsUnownedClientFiles: whether a client file that was made when the server did not know its user belongs
    ///     to the first user who comes with it. If not, users are refused with it.
    ///   - backlogBytesMax: the size of the uploads that may wait for integration, in bytes (`Spec/History.md`, section
    ///     5, row 12).
    ///   - tailBytesMax: how much of the newest log entries stays in memory, in bytes, and as much of client files; by
    ///     default 4 MiB, or nothing if the store is in memory itself.
    /// - Throws: a failure of the store; `storeDamaged` if the state is of a version that is not in the log.
    public init(
        path: VirtualPath, store: any HistoryStore, keepsState: Bool = true,
        destructiveSchema: DestructiveSchema = .refuse, cachedObjectsMax: Int = 16_384,
        cachedBytesMax: Int = 16 << 20,
        objectBytesMax: Int = 17 << 20, adoptsUnownedClientFiles: Bool = false,
        backlogBytesMax: Int = 256 << 20, tailBytesMax: Int? = nil,
        randomness: any RandomNumberGenerator = SystemRandomNumberGenerator()
    ) throws(HistoryError) {
        let opened = try store.open(path)
        self.path = path
        self.store = store
        self.cachedObjectsMax = cachedObjectsMax
        self.cachedBytesMax = cachedBytesMax
        self.backlogBytesMax = backlogBytesMax
        self.tailBytesMax = tailBytesMax ?? (store.isInMemory ? 0 : 4 << 20)
        self.adoptsUnownedClientFiles = adoptsUnownedClientFiles
        mergeOptions.destructiveSchema = destructiveSchema
        mergeOptions.objectBytesMax = objectBytesMax
        mergeOptions.watch = store.suspects.map { UploadWatch(suspects: $0, path: path) }
        self.randomness = randomness
        id = opened.id
        lease = opened.lease
        isShared = store.isShared
        head = opened.head
        maintained = opened.head
        if self.tailBytesMax > 0 { tail = LogTail(at: opened.head, bytesMax: self.tailBytesMax) }
        versionSalt = Salt.random(using: &self.randomness)
        guard keepsState else { return }
        do throws(HistoryError) { state = try store.state(of: id) } catch {
            // Another node has written since the file was opened.
            guard error.code == .conflict else { throw error }
            (state, isStateUncertain) = (ObjectGraph(), true)
            try follow()
        }
        try replayLog()
    }

    deinit { store.close(id, lease) }

    /// A number that is another one when the same versions may have other contents: after a restoration, and if commits
    /// are deferred also in another object of the same file, since deferred ones may have failed.
    package var epoch: UInt64 { isShared || defersCommits ? lease.number : lease.number >> 32 }

    /// The part of the store that the file is in.
    package var shard: Int { id.shard }

    /// The exposed version E (`Spec/History.md`, section 3.3).
    public var version: ServerVersion { head.version }

    /// The memory that is used only to make later work cheaper, in bytes: the newest part of the log and client files,
    /// decoded log entries, and objects of the state (as they are stored).
    package var cachedByteCount: Int {
        // Anything an integration has read since it began counts there, and cannot be freed before its end.
        let readBytes = isIntegrating ? max(0, (state?.readBytes ?? 0) - readBytesBefore) : 0
        return (tail?.byteCount ?? 0) + decodedEntries.arena.memoryBytes + (state?.loadedBytes ?? 0) - readBytes
    }

    /// Frees it, unless the store does not have all of it yet. Later reads go to the store.
    package func releaseCaches() {
        guard !isAhead else { return }
        tail = nil
        decodedEntries = DecodedEntryCache()
        state?.unload()
    }

    /// Frees what scans share: to be called when nobody is likely to ask for the same again.
    package func releaseScans() { sharedScans = SharedScans() }

    /// Reads the stored file.
    /// - Parameter missesTail: whether much of what is read is likely not to be in the tail.
    func read<Result: Sendable>(
        missesTail: Bool = true, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        guard isShared else { return try read(try currentTail(), missesTail: missesTail, body) }
        if isStateUncertain { try follow() }
        if let tail = try currentTail(), !missesTail { return try body(TailView(tail, .closed(store, id))) }
        return try store.read(id) { [head, tail] view throws(HistoryError) in
            try view.requireHead(head, of: id)
            return try body(tail.map { TailView($0, .open(view)) as any FileView } ?? view)
        }
    }

    private func read<Result: Sendable>(
        _ tail: LogTail?, missesTail: Bool, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        guard let tail else { return try store.read(id, body) }
        if !missesTail { return try body(TailView(tail, .closed(store, id))) }
        return try store.read(id) { view throws(HistoryError) in try body(TailView(tail, .open(view))) }
    }

    private func currentTail() throws(HistoryError) -> LogTail? {
        if isAhead { return tail }
        guard tailBytesMax > 0, !isLeaseLost else { return nil }
        if let tail { return tail }
        let head = isShared ? head : try store.read(id) { view throws(HistoryError) in try view.head() }
        let tail = LogTail(at: head, bytesMax: tailBytesMax)
        self.tail = tail
        return tail
    }

    /// The bootstrap generations, the newest one last.
    func generations() throws(HistoryError) -> [Generation] {
        if let knownGenerations { return knownGenerations }
        let found = try read(missesTail: false) { view throws(HistoryError) in try view.generations() }
        knownGenerations = found
        return found
    }

    /// True if the file has a state; a relay has none.
    var keepsState: Bool { state != nil }

    /// The state at the newest version that is stored; nil for a relay.
    func currentState() throws(HistoryError) -> ObjectGraph? {
        if isShared, isStateUncertain { try follow() }
        if isStateUncertain, state != nil { state = try store.state(of: id) }
        isStateUncertain = false
        return state
    }

    /// Commits changes of client files alone.
    func commit(_ clientFiles: [ClientFile], at head: FileHead) throws(HistoryError) {
        var commit = Commit(file: id, lease: lease, head: head)
        commit.clientFiles = clientFiles
        try self.commit(commit)
    }

    /// Commits and applies the commit to this object; or only the latter, if commits are deferred.
    func commit(_ commit: Commit) throws(HistoryError) {
        if defersCommits { return try `defer`(commit) }
        if let failure = SyncedFile.commit([(self, commit)])[0] { throw failure }
    }

    /// Commits for different files of one store, in one transaction for each shard, and applies the commits to the
    /// files.
    /// - Returns: for each commit why it failed; nil if it has succeeded.
    static func commit(_ commits: [(file: SyncedFile, commit: Commit)]) -> [HistoryError?] {
        let commits = commits.map { file, commit in (file: file, commit: file.completed(commit)) }
        let changes = commits.map(\.commit).filter { !$0.isEmpty }
        let failures = changes.isEmpty ? [:] : commits.first?.file.store.commitByShard(changes) ?? [:]
        return commits.map { file, commit in
            let failure = failures[commit.file]
            file.finish(commit, failure)
            return failure
        }
    }

    // MARK: Commits that are stored elsewhere

    /// The commit to store: unwritten progress goes with it. Unless it is empty, it is handed to the store, on any
    /// thread. Nothing is done with the file until the outcome is known and `finish` was called with this commit.
    package func completed(_ commit: Commit) -> Commit {
        commit.deletesFile ? commit : revised(withProgress(timed(observed(commit))))
    }

    /// The commit that deletes the file. Once it is done this object is of no more use.
    package func deletion() -> Commit {
        var commit = Commit(file: id, lease: lease, head: head)
        commit.deletesFile = true
        return commit
    }

    /// Applies a stored commit to this object.
    /// - Parameter failure: why it failed; nil if it has succeeded.
    package func finish(_ commit: Commit, _ failure: HistoryError?) {
        if let failure { return failure.code == .conflict ? didNotFit() : commitFailed(failure) }
        if isAhead {
            // The tail has all of it except the progress that was added last.
            for file in commit.clientFiles { tail?.keep(file) }
            tail?.endHold()
            if tailBytesMax == 0 { tail = nil }
            isAhead = false
        } else if !commit.isEmpty {
            tail?.append(commit)
        }
        // It may have failed together with a commit of another file whose lease was lost.
        if !commit.isEmpty { isLeaseLost = false }
        takeOver(commit)
        if let update = commit.state { retain(update.after) }
    }

    /// Applies a commit to everything but the tail and the state.
    private func takeOver(_ commit: Commit) {
        head = commit.newHead
        progressWritten(by: commit)
        releaseScans()
        if commit.generation != nil { knownGenerations = nil }
        for file in commit.clientFiles { lowestCommittedPin = min(lowestCommittedPin, file.pin ?? .largest) }
    }

    // MARK: Commits that are deferred

    /// Adds a commit to those that will be stored as one, and applies it to this object, so that later work builds on
    /// it. It must not be announced before they are stored; if that fails, this object must not be used again.
    private func `defer`(_ commit: Commit) throws(HistoryError) {
        let commit = completed(commit)
        guard !commit.isEmpty else { return }
        if !isAhead {
            if tail == nil { tail = LogTail(at: head, bytesMax: max(tailBytesMax, 1)) }
            tail?.beginHold()
            isAhead = true
        }
        tail?.append(commit)
        takeOver(commit)
        if let update = commit.state { state = update.after }
        if deferred == nil { deferred = commit } else { deferred?.append(commit) }
    }

    /// The approximate size of the commits that wait to be stored, in bytes.
    package var deferredBytes: Int { deferred?.byteCount ?? 0 }

    /// The deferred commits, joined into one; nil if there are none. Call `finish` with it once it is stored.
    package func takeDeferred() -> Commit? { deferred.take() }

    private func commitFailed(_ error: HistoryError) {
        deferred = nil
        isAhead = false
        isStateUncertain = true
        tail = nil
        // The store may be ahead now.
        (unwritten, unwrittenChoices, knownGenerations, times) = ([:], [], nil, nil)
        if error.code == .leaseLost { isLeaseLost = true }
        dropIntegration()
    }

    private func retain(_ state: ObjectGraph) {
        self.state = state
        // All objects are dropped, not just some: reading the row of one that is needed again costs little.
        if state.loadedCount > cachedObjectsMax || state.loadedBytes > cachedBytesMax { self.state?.unload() }
    }
}

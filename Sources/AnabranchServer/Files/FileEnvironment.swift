import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchRules
import Foundation
import Logging
import Metrics
import Synchronization

/// The common environment of a server's synced files: how they are served, and the limits of all of them together.
final class FileEnvironment: Sendable {
    let store: any HistoryStore
    let names: FileNames
    /// The committers that store the results of turns; nil if turns do so themselves.
    let committers: Committers?
    let options: FileOptions
    let metrics: SyncMetrics
    let log: FileLog
    let bodies: SharedBodies
    let caches: CacheBudget
    let longMerges: MergeBudget
    let space: SpaceReserve
    let clock: MaintenanceClock
    let fullFiles = FullFiles()
    let followers = LogFollowers()
    /// The memory of the requests that are not done yet.
    let budget: MemoryBudget
    /// The memory of long messages, from clients and to them.
    let messageMemory: MemoryBudget
    /// The clock that tells when a client file was last seen, in seconds since 1970.
    let unixSeconds: @Sendable () -> UInt64
    /// The clock by which the server's own changes compete with those of clients, to the millisecond.
    let now: @Sendable () -> ChangesetTime
    private let makeStep: (@Sendable () -> StepLimit)?
    /// The number of files that wait for a short turn.
    let readyCount = Atomic(0)
    /// The source of the salts of files.
    private let randomness: @Sendable () -> any RandomNumberGenerator
    /// The duration of a step of a turn, in milliseconds, unless the step is a single piece of work that cannot be cut.
    static let stepMillisecondsMax: Int64 = 10
    /// The number of files with which steps become shorter, so that it does not take long until each has its turn.
    private static let crowd = 16
    private let isEndingFlag = Atomic(false)

    /// - Parameters:
    ///   - committerThreads: the number of threads that store commits. If there are none, or the store is in memory,
    ///     where nothing is flushed, the workers do so.
    ///   - names: the files of the store that paths mean.
    ///   - budget: the memory of requests that are not done yet.
    ///   - messageMemory: the memory of long messages.
    ///   - beginStep: begins a step; nil for the clock of the machine.
    ///   - monotonicSeconds: a clock that never goes back; nil for the machine's.
    ///   - now: the clock for the times of changes.
    init(
        store: any HistoryStore, names: FileNames = FileNames(), committerThreads: Int = 2,
        options: FileOptions = FileOptions(), metrics: SyncMetrics, logger: Logger,
        budget: MemoryBudget = MemoryBudget(bytesMax: .max), messageMemory: MemoryBudget = MemoryBudget(bytesMax: .max),
        beginStep: (@Sendable () -> StepLimit)? = nil,
        randomness: @escaping @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() },
        unixSeconds: @escaping @Sendable () -> UInt64, monotonicSeconds: (@Sendable () -> UInt64)? = nil,
        now: @escaping @Sendable () -> ChangesetTime = { Date().changesetTime }
    ) {
        committers =
            committerThreads > 0 && !store.isInMemory
            ? Committers(store, threads: committerThreads, metrics) : nil
        self.store = committers.map { CommittedStore(base: store, committers: $0) } ?? store
        self.names = names
        self.options = options
        self.metrics = metrics
        log = FileLog(metrics: metrics, logger: logger)
        bodies = SharedBodies(bytesMax: options.sharedBodiesBytesMax) { metrics.bodiesEncoded.increment() }
        caches = CacheBudget(bytesMax: options.cachesBytesMax)
        longMerges = MergeBudget(bytesMax: options.longMergeBytesMax)
        space = SpaceReserve(
            store, freeBytesMin: options.reservedBytes, usedBytesMax: options.storeBytesMax)
        clock = MaintenanceClock(
            self.store, options.history, logger: logger, unixSeconds: unixSeconds, monotonicSeconds: monotonicSeconds)
        self.budget = budget
        self.messageMemory = messageMemory
        makeStep = beginStep
        self.randomness = randomness
        self.unixSeconds = unixSeconds
        self.now = now
    }

    /// Begins one step of a turn.
    func beginStep() -> StepLimit {
        if let makeStep { return makeStep() }
        return StepLimit(milliseconds: Self.stepMilliseconds(whileReady: readyCount.load(ordering: .relaxed)))
    }

    /// The duration of a step while so many files wait for a short turn, in milliseconds.
    static func stepMilliseconds(whileReady count: Int) -> Int64 {
        max(1, stepMillisecondsMax * Int64(crowd) / Int64(max(crowd, count)))
    }

    /// True once nobody waits for long merges any more.
    var isEnding: Bool { isEndingFlag.load(ordering: .relaxed) }

    func end() { isEndingFlag.store(true, ordering: .relaxed) }

    func open(_ path: VirtualPath) throws(HistoryError) -> FileSessions {
        let file = try SyncedFile(
            path: path, store: store, keepsState: options.keepsState,
            destructiveSchema: options.destructiveSchema(path), objectBytesMax: options.objectBytesMax,
            adoptsUnownedClientFiles: options.adoptsUnownedClientFiles, backlogBytesMax: options.backlogBytesMax,
            randomness: randomness())
        file.clock = now
        let flexible = options.isFlexible(path) ? try FlexibleFile(file) : nil
        if let bytes = options.bootstrapPartBytes { flexible?.partBytes = bytes }
        flexible?.instant = options.instant
        if flexible == nil { file.observers = options.observers(path) }
        let sessions = FileSessions(file, flexible, self)
        try sessions.followExport()
        // From now on, commits of a flexible file wait for the end of a turn; where other nodes may write in the
        // meantime, they do not.
        file.defersCommits = flexible != nil && !file.isShared
        return sessions
    }
}

/// The options of synced files.
struct FileOptions: Sendable {
    var limits = Limits()
    /// True if uploads are applied to the states of their files; if not, the server is a relay.
    var keepsState = true
    /// The size of the uploads that may wait for integration in one file, in bytes.
    var backlogBytesMax = Int.max
    /// The largest size of an object, in bytes.
    var objectBytesMax = Int.max
    /// True if a client file without a user belongs to the first user who comes with it.
    var adoptsUnownedClientFiles = false
    /// The rule for clients that take classes and columns of a file away.
    var destructiveSchema: @Sendable (VirtualPath) -> DestructiveSchema = { _ in .refuse }
    /// True for a file that each client sees only a part of, by its queries.
    var isFlexible: @Sendable (VirtualPath) -> Bool = { _ in false }
    /// Called with a file that has its first change.
    var onFirstChange: @Sendable (VirtualPath) -> Void = { _ in }
    /// Called with a file that was deleted.
    var onDeletion: @Sendable (VirtualPath) -> Void = { _ in }
    /// The doors that keep records about the entries of a file of partition-based sync.
    var observers: @Sendable (VirtualPath) -> [any RecordObserver] = { _ in [] }
    /// The approximate length at which a part of a bootstrap ends, in bytes; nil for the default of `FlexibleFile`.
    var bootstrapPartBytes: Int?
    /// The clock of `FlexibleFile.instant`, and of commits that wait for others.
    var instant: @Sendable () -> ContinuousClock.Instant = { .now }
    /// The export of a flexible file's app; nil if everybody may do everything.
    var export: @Sendable (VirtualPath) -> AppExport? = { _ in nil }
    /// The quota of new files. A user who has used it up can only open files that are open already.
    var newFiles = UserQuota()
    /// The quota of new client files. A user who has used it up gets no further ident.
    var newClientFiles = UserQuota()
    /// The quota of time for queries, in milliseconds. A user who has used it up has to wait with further ones.
    var queryTime = UserQuota()
    /// The longest body of a DOWNLOAD that needs no permit for its memory, in bytes.
    var shortBodyBytesMax = DownloadMemory.shortBytesMax
    /// The memory for bodies of DOWNLOADs that several readers may want, in bytes.
    var sharedBodiesBytesMax = Int.max
    /// The memory of all files together that only makes later work cheaper, in bytes.
    var cachesBytesMax = Int.max
    /// The space that is to stay free on the disk of the store, in bytes.
    var reservedBytes = 0
    /// The space that the store may have in use, in bytes.
    var storeBytesMax = Int.max
    /// The error of a client's clock that is tolerated, in seconds. A client whose clock is wrong by more is named to
    /// the operator.
    var clientClockSecondsMax = 300
    /// The policy that says how much history is kept.
    var history = HistoryPolicy()
    /// The memory that all long merges but the largest may occupy together, in bytes.
    var longMergeBytesMax = 256 << 20
    /// The most sessions of a file with which progress that comes without changesets is stored at once, and reported
    /// with the next DOWNLOAD. With more sessions, it is kept in memory for a while.
    var storedProgressSessionsMax = 64
}

import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchRules
import Foundation
import Logging
import Metrics
import Synchronization

/// What the synced files of a server have in common: how they are served, and what holds for all of them together.
final class FileEnvironment: Sendable {
    let store: any HistoryStore
    let names: FileNames
    /// Store what turns come to; nil if turns do so themselves.
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
    /// The clock, in seconds since 1970: when a client file was last seen.
    let unixSeconds: @Sendable () -> UInt64
    /// The clock by which the server's own changes compete with those of clients, to the millisecond.
    let now: @Sendable () -> ChangesetTime
    /// Begins a part of a turn.
    let beginStep: @Sendable () -> StepLimit
    /// Where the salts of files come from.
    private let randomness: @Sendable () -> any RandomNumberGenerator
    /// How long a turn takes, unless it is one thing that cannot be cut.
    static let stepMillisecondsMax: Int64 = 10
    private let isEndingFlag = Atomic(false)

    /// - Parameters:
    ///   - committerThreads: how many threads store commits. If there are none, or the store is in memory, of which
    ///     nothing is flushed, the workers do so.
    ///   - names: which of the store's files paths mean.
    ///   - budget: for requests that are not done yet.
    ///   - messageMemory: for long messages.
    ///   - monotonicSeconds: a clock that only goes on; nil: the machine's.
    ///   - now: the clock for the times of changes.
    init(
        store: any HistoryStore, names: FileNames = FileNames(), committerThreads: Int = 2,
        options: FileOptions = FileOptions(), metrics: SyncMetrics, logger: Logger,
        budget: MemoryBudget = MemoryBudget(bytesMax: .max), messageMemory: MemoryBudget = MemoryBudget(bytesMax: .max),
        beginStep: @escaping @Sendable () -> StepLimit = {
            StepLimit(milliseconds: FileEnvironment.stepMillisecondsMax)
        },
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
        self.beginStep = beginStep
        self.randomness = randomness
        self.unixSeconds = unixSeconds
        self.now = now
    }

    /// Whether nobody waits for long merges any more.
    var isEnding: Bool { isEndingFlag.load(ordering: .relaxed) }

    func end() { isEndingFlag.store(true, ordering: .relaxed) }

    func open(_ path: VirtualPath) throws(HistoryError) -> FileSessions {
        let file = try SyncedFile(
            path: path, store: store, keepsState: options.keepsState,
            destructiveSchema: options.destructiveSchema(path), objectBytesMax: options.objectBytesMax,
            adoptsUnownedClientFiles: options.adoptsUnownedClientFiles, backlogBytesMax: options.backlogBytesMax,
            randomness: randomness())
        let flexible = options.isFlexible(path) ? try FlexibleFile(file) : nil
        if let bytes = options.bootstrapPartBytes { flexible?.partBytes = bytes }
        flexible?.instant = options.instant
        let sessions = FileSessions(file, flexible, self)
        try sessions.followExport()
        // From now on what operations of a flexible file store waits for the end of a turn.
        file.defersCommits = flexible != nil
        return sessions
    }
}

/// How synced files are served.
struct FileOptions: Sendable {
    var limits = Limits()
    /// Whether uploads are applied to the states of their files; if not, the server is a relay.
    var keepsState = true
    /// What may wait for integration in one file, in bytes.
    var backlogBytesMax = Int.max
    /// How large an object can grow.
    var objectBytesMax = Int.max
    /// Whether a client file without user belongs to the first one who comes with it.
    var adoptsUnownedClientFiles = false
    /// Whether clients may take classes and columns of a file away.
    var destructiveSchema: @Sendable (VirtualPath) -> DestructiveSchema = { _ in .refuse }
    /// Whether each client sees a part of a file, by its queries.
    var isFlexible: @Sendable (VirtualPath) -> Bool = { _ in false }
    /// At about how many bytes a part of a bootstrap ends; nil: as `FlexibleFile` says.
    var bootstrapPartBytes: Int?
    /// As `FlexibleFile` has it.
    var instant: @Sendable () -> ContinuousClock.Instant = { .now }
    /// What the app of a flexible file was exported as; nil if everybody may do everything.
    var export: @Sendable (VirtualPath) -> AppExport? = { _ in nil }
    /// A user whose share of new files is used up can only open files that are open already.
    var newFiles = UserQuota()
    /// A user whose share of new client files is used up gets no further ident.
    var newClientFiles = UserQuota()
    /// A user whose share of milliseconds for queries is used up has to wait with further ones.
    var queryTime = UserQuota()
    /// What is kept of the bodies of DOWNLOADs that several readers may want.
    var sharedBodiesBytesMax = Int.max
    /// What all files may keep in memory together only to make what comes next cheaper.
    var cachesBytesMax = Int.max
    /// What is to stay free where the store is, in bytes.
    var reservedBytes = 0
    /// What the store may have in use, in bytes.
    var storeBytesMax = Int.max
    /// A client whose clock is wrong by more, in seconds, is named to the operator.
    var clientClockSecondsMax = 300
    /// How much of the past is kept.
    var history = HistoryPolicy()
    /// What the long merges may occupy together in bytes, beside the largest of them.
    var longMergeBytesMax = 256 << 20
    /// A file with more sessions keeps in memory for a while what they report without uploading anything. Otherwise it
    /// is stored at once, and reported with the next DOWNLOAD.
    var storedProgressSessionsMax = 64
}

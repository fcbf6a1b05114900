import AnabranchHistory
import NIOPosix
import Synchronization

/// The replies of one turn to one connection.
struct ConnectionReplies: Sendable {
    let connection: ConnectionID
    var replies: [FileReply] = []
    /// The cost of the connection's requests that are done.
    var doneBytes = 0
}

/// The threads that may block on the store. Each synced file belongs to one of them, which works in turns
/// (`StoreTurns`). What comes in during a turn is there for the next one.
final class StoreThreads: Sendable {
    private let threads: [StoreThread]
    /// The memory of the requests that are not done yet.
    let budget: MemoryBudget
    /// The memory of long messages, from clients and to them.
    let messageMemory: MemoryBudget

    /// - Parameters:
    ///   - budget: for requests that are not done yet.
    ///   - messageMemory: for long messages.
    ///   - makeRegistry: makes the files of one thread.
    ///   - deliver: called on store threads when everything that the replies speak of is durable.
    init(
        count: Int, budget: MemoryBudget = MemoryBudget(bytesMax: .max),
        messageMemory: MemoryBudget = MemoryBudget(bytesMax: .max), makeRegistry: @Sendable () -> sending FileRegistry,
        deliver: @escaping @Sendable ([ConnectionReplies]) -> Void
    ) {
        self.budget = budget
        self.messageMemory = messageMemory
        threads = (0..<count).map { _ in StoreThread(makeRegistry(), budget, messageMemory, deliver: deliver) }
    }

    func submit(_ request: FileRequest) {
        budget.reserve(request.cost)
        submitReserved([request])
    }

    /// Submits requests whose memory is taken into account already.
    func submitReserved(_ requests: [FileRequest]) {
        guard threads.count > 1 else { return threads[0].submit(requests) }
        for (number, requests) in Dictionary(grouping: requests, by: { number(of: $0.path) }) {
            threads[number].submit(requests)
        }
    }

    /// Runs a job with the files of the thread that `path` belongs to, before the requests that wait. When the call
    /// returns, the sessions have been told what the job has done: a client that learns of it in another way, and asks
    /// by MARK whether it has everything, is not told so too early.
    /// - Parameter comesAfterMerge: whether a merge of uploads to the file is finished first, if one has begun.
    /// - Throws: what the job throws; `storeFailed` if the threads have ended.
    func run<Result: Sendable>(
        on path: VirtualPath, comesAfterMerge: Bool = false,
        _ job: @escaping @Sendable (FileRegistry) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            let job = StoreJob(path: path, comesAfterMerge: comesAfterMerge) { registry in
                let outcome = Swift.Result {
                    guard let registry else { throw HistoryError(.storeFailed, "the server has ended") }
                    return try job(registry)
                }
                return { continuation.resume(with: outcome) }
            }
            thread(of: path).submit(job)
        }
    }

    private func number(of path: VirtualPath) -> Int { Int(path.hashValue.magnitude % UInt(threads.count)) }

    private func thread(of path: VirtualPath) -> StoreThread { threads[number(of: path)] }

    /// Has all files written, where that is not done, how far clients have come: to be called every second.
    func writeProgress() {
        for thread in threads { thread.writeProgress() }
    }

    /// From now on a merge that takes longer than a step is given up, and so are those that have begun: their sessions
    /// fail, and the clients send again what was not committed.
    func endLongMerges() {
        for thread in threads { thread.endLongMerges() }
    }

    /// Handles what has been submitted, but for long merges, and ends the threads.
    func shutDown() async throws {
        endLongMerges()
        for thread in threads { try await thread.shutDown() }
    }
}

private final class StoreThread: Sendable {
    private struct Inbox {
        var jobs: [StoreJob] = []
        var requests: [FileRequest] = []
        var isScheduled = false
        var isEnding = false
        /// Progress that is in memory only is to be written.
        var writesProgress = false
    }

    private let pool = NIOThreadPool(numberOfThreads: 1)
    private let inbox = Mutex(Inbox())
    /// Only this thread takes the lock. It is there to show the compiler that nobody else uses what is in it.
    private let turns: Mutex<StoreTurns>

    init(
        _ registry: sending FileRegistry, _ budget: MemoryBudget, _ messageMemory: MemoryBudget,
        deliver: @escaping @Sendable ([ConnectionReplies]) -> Void
    ) {
        turns = Mutex(StoreTurns(registry, budget, deliver: deliver))
        pool.start()
        let memory = DownloadMemory(budget: messageMemory) { [weak self] in self?.submit([$0]) }
        turns.withLock { $0.registry.downloadMemory = memory }
    }

    func submit(_ requests: [FileRequest]) { submit { $0.requests += requests } }

    func submit(_ job: StoreJob) { submit { $0.jobs.append(job) } }

    func writeProgress() { submit { $0.writesProgress = true } }

    private func submit(_ put: (inout Inbox) -> Void) {
        let isFirst = inbox.withLock { inbox in
            put(&inbox)
            defer { inbox.isScheduled = true }
            return !inbox.isScheduled
        }
        guard isFirst else { return }
        pool.submit { [self] state in
            if case .active = state { turns.withLock { takeTurns($0) } } else { failJobs() }
        }
    }

    /// Called when the thread has ended.
    private func failJobs() {
        while let inbox = next(hasWork: false) {
            for job in inbox.jobs { job.run(nil)() }
            // A permit among them must not end within `next`: that of another request may come here.
            withExtendedLifetime(inbox.requests) {}
        }
    }

    private func takeTurns(_ turns: StoreTurns) {
        while let inbox = next(hasWork: turns.hasWork) {
            turns.take(inbox.jobs, inbox.requests)
            if inbox.writesProgress { turns.registry.writeProgress() }
            turns.takeTurn(isEnding: inbox.isEnding)
        }
    }

    /// Takes what has come in.
    /// - Parameter hasWork: whether there is another turn in any case.
    private func next(hasWork: Bool) -> Inbox? {
        inbox.withLock { inbox in
            guard hasWork || !inbox.jobs.isEmpty || !inbox.requests.isEmpty || inbox.writesProgress else {
                inbox.isScheduled = false
                return nil
            }
            defer { (inbox.jobs, inbox.requests, inbox.writesProgress) = ([], [], false) }
            return inbox
        }
    }

    func endLongMerges() { inbox.withLock { $0.isEnding = true } }

    func shutDown() async throws {
        writeProgress()
        // The promise is kept behind everything that was submitted, and whether or not the task is cancelled.
        await withCheckedContinuation { continuation in pool.submit { _ in continuation.resume() } }
        try await pool.shutdownGracefully()
    }
}

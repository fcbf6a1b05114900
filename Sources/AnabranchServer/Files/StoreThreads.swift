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

/// The threads that may block on the store. Each synced file belongs to one of them, so its requests are handled in
/// order. Requests that come in during a turn make the next turn, and all its uploads are committed together.
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
        thread(of: request.path).submit(request)
    }

    /// Runs a job with the files of the thread that `path` belongs to, before the requests that wait. When the call
    /// returns, the sessions have been told what the job has done: a client that learns of it in another way, and asks
    /// by MARK whether it has everything, is not told so too early.
    /// - Throws: what the job throws; `storeFailed` if the threads have ended.
    func run<Result: Sendable>(
        on path: VirtualPath, _ job: @escaping @Sendable (FileRegistry) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            thread(of: path).submit { registry in
                let outcome = Swift.Result {
                    guard let registry else { throw HistoryError(.storeFailed, "the server has ended") }
                    return try job(registry)
                }
                return { continuation.resume(with: outcome) }
            }
        }
    }

    private func thread(of path: VirtualPath) -> StoreThread {
        threads[Int(path.hashValue.magnitude % UInt(threads.count))]
    }

    /// Handles what has been submitted and ends the threads.
    func shutDown() async throws {
        for thread in threads { try await thread.shutDown() }
    }
}

private final class StoreThread: Sendable {
    /// Is run once, without files if the thread has ended.
    /// - Returns: what is to be called when the sessions have been told.
    typealias Job = @Sendable (FileRegistry?) -> () -> Void

    private struct Inbox {
        var jobs: [Job] = []
        var requests: [FileRequest] = []
        var isScheduled = false

        var isEmpty: Bool { jobs.isEmpty && requests.isEmpty }
    }

    private let pool = NIOThreadPool(numberOfThreads: 1)
    private let inbox = Mutex(Inbox())
    /// Only this thread takes the lock. It is there to show the compiler that nobody else uses the registry.
    private let registry: Mutex<FileRegistry>
    private let budget: MemoryBudget
    private let deliver: @Sendable ([ConnectionReplies]) -> Void

    init(
        _ registry: sending FileRegistry, _ budget: MemoryBudget, _ messageMemory: MemoryBudget,
        deliver: @escaping @Sendable ([ConnectionReplies]) -> Void
    ) {
        self.registry = Mutex(registry)
        self.budget = budget
        self.deliver = deliver
        pool.start()
        let memory = DownloadMemory(budget: messageMemory) { [weak self] in self?.submit($0) }
        self.registry.withLock { $0.downloadMemory = memory }
    }

    func submit(_ request: FileRequest) { submit { $0.requests.append(request) } }

    func submit(_ job: @escaping Job) { submit { $0.jobs.append(job) } }

    private func submit(_ put: (inout Inbox) -> Void) {
        let isFirst = inbox.withLock { inbox in
            put(&inbox)
            defer { inbox.isScheduled = true }
            return !inbox.isScheduled
        }
        guard isFirst else { return }
        pool.submit { [self] state in
            if case .active = state { takeTurns() } else { failJobs() }
        }
    }

    /// Called when the thread has ended.
    private func failJobs() {
        while let (jobs, requests) = next() {
            for job in jobs { job(nil)() }
            // A permit among them must not end within `next`: that of another request may come here.
            withExtendedLifetime(requests) {}
        }
    }

    private func takeTurns() {
        while let (jobs, requests) = next() {
            registry.withLock { registry in
                run(jobs, with: registry)
                deliver(Self.byConnection(registry.handle(requests), done: []))
                deliver(Self.byConnection(registry.commit(), done: requests))
                budget.release(requests.reduce(0) { $0 + $1.cost })
            }
        }
    }

    private func run(_ jobs: [Job], with registry: FileRegistry) {
        guard !jobs.isEmpty else { return }
        let completions = jobs.map { $0(registry) }
        deliver(Self.byConnection(registry.takeReplies(), done: []))
        for complete in completions { complete() }
    }

    private func next() -> (jobs: [Job], requests: [FileRequest])? {
        inbox.withLock { inbox in
            guard !inbox.isEmpty else {
                inbox.isScheduled = false
                return nil
            }
            defer { (inbox.jobs, inbox.requests) = ([], []) }
            return (inbox.jobs, inbox.requests)
        }
    }

    private static func byConnection(_ replies: [FileReply], done requests: [FileRequest]) -> [ConnectionReplies] {
        var batches: [ConnectionID: ConnectionReplies] = [:]
        for reply in replies {
            let connection = reply.session.connection
            batches[connection, default: ConnectionReplies(connection: connection)].replies.append(reply)
        }
        for request in requests {
            let connection = request.session.connection
            batches[connection, default: ConnectionReplies(connection: connection)].doneBytes += request.cost
        }
        return Array(batches.values)
    }

    func shutDown() async throws {
        // The promise is kept behind everything that was submitted, and whether or not the task is cancelled.
        await withCheckedContinuation { continuation in pool.submit { _ in continuation.resume() } }
        try await pool.shutdownGracefully()
    }
}

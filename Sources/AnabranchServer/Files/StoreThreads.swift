import AnabranchHistory
import NIOPosix
import Synchronization

/// What a turn of a store thread has for one connection.
struct ConnectionReplies: Sendable {
    let connection: ConnectionID
    var replies: [FileReply] = []
    /// The cost of the connection's calls that have been done with.
    var doneBytes = 0
}

/// The threads that may block on the store. Each synced file belongs to one of them, so its calls are done in order;
/// what has come in while a turn was under way makes the next turn, and all its uploads are committed together.
final class StoreThreads: Sendable {
    private let threads: [StoreThread]
    /// Where calls are until they have been done.
    let budget: UploadMemoryBudget

    /// - Parameters:
    ///   - waitingBytesMax: what may wait to be done before there is no budget for more.
    ///   - deliver: called on store threads, after everything that a delivery speaks of is durable.
    init(
        count: Int, waitingBytesMax: Int, makeRegistry: @Sendable () -> sending FileRegistry,
        deliver: @escaping @Sendable ([ConnectionReplies]) -> Void
    ) {
        let budget = UploadMemoryBudget(bytesMax: waitingBytesMax)
        self.budget = budget
        threads = (0..<count).map { _ in StoreThread(makeRegistry(), budget, deliver: deliver) }
    }

    func submit(_ call: FileRequest) {
        budget.reserve(call.cost)
        thread(of: call.path).submit(call)
    }

    /// Does something with the files of the thread that `path` belongs to, before the calls that wait.
    func run<Result: Sendable>(
        on path: VirtualPath, _ job: @escaping @Sendable (FileRegistry) throws(HistoryError) -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            thread(of: path).submit { registry in
                continuation.resume(
                    with: Swift.Result { () throws(HistoryError) in
                        guard let registry else { throw HistoryError(.storeFailed, "the server has ended") }
                        return try job(registry)
                    })
            }
        }
    }

    private func thread(of path: VirtualPath) -> StoreThread {
        threads[Int(path.hashValue.magnitude % UInt(threads.count))]
    }

    /// Does what has been submitted and ends the threads.
    func shutDown() async throws {
        for thread in threads { try await thread.shutDown() }
    }
}

private final class StoreThread: Sendable {
    private struct Inbox {
        /// To be run once each, without files if the thread has ended.
        var jobs: [@Sendable (FileRegistry?) -> Void] = []
        var calls: [FileRequest] = []
        var isScheduled = false

        var isEmpty: Bool { jobs.isEmpty && calls.isEmpty }
    }

    private let pool = NIOThreadPool(numberOfThreads: 1)
    private let inbox = Mutex(Inbox())
    /// Only the thread takes this lock; it shows the compiler that nobody else sees the registry.
    private let registry: Mutex<FileRegistry>
    private let budget: UploadMemoryBudget
    private let deliver: @Sendable ([ConnectionReplies]) -> Void

    init(
        _ registry: sending FileRegistry, _ budget: UploadMemoryBudget,
        deliver: @escaping @Sendable ([ConnectionReplies]) -> Void
    ) {
        self.registry = Mutex(registry)
        self.budget = budget
        self.deliver = deliver
        pool.start()
    }

    func submit(_ call: FileRequest) { submit { $0.calls.append(call) } }

    func submit(_ job: @escaping @Sendable (FileRegistry?) -> Void) { submit { $0.jobs.append(job) } }

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

    /// The thread has ended.
    private func failJobs() {
        while let (jobs, _) = next() {
            for job in jobs { job(nil) }
        }
    }

    private func takeTurns() {
        while let (jobs, calls) = next() {
            registry.withLock { registry in
                for job in jobs { job(registry) }
                deliver(Self.sorted(registry.handle(calls), done: []))
                deliver(Self.sorted(registry.commit(), done: calls))
                budget.release(calls.reduce(0) { $0 + $1.cost })
            }
        }
    }

    private func next() -> (jobs: [@Sendable (FileRegistry?) -> Void], calls: [FileRequest])? {
        inbox.withLock { inbox in
            guard !inbox.isEmpty else {
                inbox.isScheduled = false
                return nil
            }
            defer { (inbox.jobs, inbox.calls) = ([], []) }
            return (inbox.jobs, inbox.calls)
        }
    }

    /// One delivery a connection.
    private static func sorted(_ replies: [FileReply], done calls: [FileRequest]) -> [ConnectionReplies] {
        var batches: [ConnectionID: ConnectionReplies] = [:]
        for reply in replies {
            let connection = reply.session.connection
            batches[connection, default: ConnectionReplies(connection: connection)].replies.append(reply)
        }
        for call in calls {
            let connection = call.session.connection
            batches[connection, default: ConnectionReplies(connection: connection)].doneBytes += call.cost
        }
        return Array(batches.values)
    }

    func shutDown() async throws {
        // Behind everything that was submitted, and whether or not the task is cancelled.
        await withCheckedContinuation { continuation in pool.submit { _ in continuation.resume() } }
        try await pool.shutdownGracefully()
    }
}

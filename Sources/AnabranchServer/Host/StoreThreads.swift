import AnabranchHistory
import NIOPosix
import Synchronization

/// What a turn of a store thread has for one connection.
struct Delivery: Sendable {
    let connection: ConnectionIdent
    var replies: [FileReply] = []
    /// The cost of the connection's calls that have been done with.
    var doneBytes = 0
}

/// The threads that may block on the store. Each synced file belongs to one of them, so its calls are done in order;
/// what has come in while a turn was under way makes the next turn, and all its uploads are committed together.
final class StoreThreads: Sendable {
    private let threads: [StoreThread]

    /// - Parameter deliver: called on store threads, after everything that a delivery speaks of is durable.
    init(
        count: Int, hubs: @Sendable () -> sending FileHubs, deliver: @escaping @Sendable ([Delivery]) -> Void
    ) {
        threads = (0..<count).map { _ in StoreThread(hubs(), deliver: deliver) }
    }

    func submit(_ call: FileCall) {
        threads[Int(call.path.hashValue.magnitude % UInt(threads.count))].submit(call)
    }

    /// Does what has been submitted and ends the threads.
    func shutDown() async throws {
        for thread in threads { try await thread.shutDown() }
    }
}

private final class StoreThread: Sendable {
    private struct Inbox {
        var calls: [FileCall] = []
        var isScheduled = false
    }

    private let pool = NIOThreadPool(numberOfThreads: 1)
    private let inbox = Mutex(Inbox())
    /// Only the thread takes this lock; it shows the compiler that nobody else sees the hubs.
    private let hubs: Mutex<FileHubs>
    private let deliver: @Sendable ([Delivery]) -> Void

    init(_ hubs: sending FileHubs, deliver: @escaping @Sendable ([Delivery]) -> Void) {
        self.hubs = Mutex(hubs)
        self.deliver = deliver
        pool.start()
    }

    func submit(_ call: FileCall) {
        let isFirst = inbox.withLock { inbox in
            inbox.calls.append(call)
            defer { inbox.isScheduled = true }
            return !inbox.isScheduled
        }
        guard isFirst else { return }
        pool.submit { [self] state in
            if case .active = state { takeTurns() }
        }
    }

    private func takeTurns() {
        while let calls = nextCalls() {
            hubs.withLock { hubs in
                deliver(Self.sorted(hubs.handle(calls), done: []))
                deliver(Self.sorted(hubs.commit(), done: calls))
            }
        }
    }

    private func nextCalls() -> [FileCall]? {
        inbox.withLock { inbox in
            inbox.isScheduled = !inbox.calls.isEmpty
            defer { inbox.calls = [] }
            return inbox.isScheduled ? inbox.calls : nil
        }
    }

    /// One delivery a connection.
    private static func sorted(_ replies: [FileReply], done calls: [FileCall]) -> [Delivery] {
        var deliveries: [ConnectionIdent: Delivery] = [:]
        for reply in replies {
            let connection = reply.session.connection
            deliveries[connection, default: Delivery(connection: connection)].replies.append(reply)
        }
        for call in calls {
            let connection = call.session.connection
            deliveries[connection, default: Delivery(connection: connection)].doneBytes += call.cost
        }
        return Array(deliveries.values)
    }

    func shutDown() async throws {
        // Behind everything that was submitted, and whether or not the task is cancelled.
        await withCheckedContinuation { continuation in pool.submit { _ in continuation.resume() } }
        try await pool.shutdownGracefully()
    }
}

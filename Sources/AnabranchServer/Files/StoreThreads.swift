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
    /// Where calls are until they have been done.
    let room: WaitingRoom

    /// - Parameters:
    ///   - waitingBytesMax: what may wait to be done before there is no room for more.
    ///   - deliver: called on store threads, after everything that a delivery speaks of is durable.
    init(
        count: Int, waitingBytesMax: Int, hubs: @Sendable () -> sending FileHubs,
        deliver: @escaping @Sendable ([Delivery]) -> Void
    ) {
        let room = WaitingRoom(bytesMax: waitingBytesMax)
        self.room = room
        threads = (0..<count).map { _ in StoreThread(hubs(), room, deliver: deliver) }
    }

    func submit(_ call: FileCall) {
        room.enter(call.cost)
        thread(of: call.path).submit(call)
    }

    /// Does something with the files of the thread that `path` belongs to, before the calls that wait.
    func run<Result: Sendable>(
        on path: VirtualPath, _ errand: @escaping @Sendable (FileHubs) throws(HistoryError) -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            thread(of: path).submit { hubs in
                continuation.resume(
                    with: Swift.Result { () throws(HistoryError) in
                        guard let hubs else { throw HistoryError(.storeFailed, "the server has ended") }
                        return try errand(hubs)
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
        var errands: [@Sendable (FileHubs?) -> Void] = []
        var calls: [FileCall] = []
        var isScheduled = false

        var isEmpty: Bool { errands.isEmpty && calls.isEmpty }
    }

    private let pool = NIOThreadPool(numberOfThreads: 1)
    private let inbox = Mutex(Inbox())
    /// Only the thread takes this lock; it shows the compiler that nobody else sees the hubs.
    private let hubs: Mutex<FileHubs>
    private let room: WaitingRoom
    private let deliver: @Sendable ([Delivery]) -> Void

    init(_ hubs: sending FileHubs, _ room: WaitingRoom, deliver: @escaping @Sendable ([Delivery]) -> Void) {
        self.hubs = Mutex(hubs)
        self.room = room
        self.deliver = deliver
        pool.start()
    }

    func submit(_ call: FileCall) { submit { $0.calls.append(call) } }

    func submit(_ errand: @escaping @Sendable (FileHubs?) -> Void) { submit { $0.errands.append(errand) } }

    private func submit(_ put: (inout Inbox) -> Void) {
        let isFirst = inbox.withLock { inbox in
            put(&inbox)
            defer { inbox.isScheduled = true }
            return !inbox.isScheduled
        }
        guard isFirst else { return }
        pool.submit { [self] state in
            if case .active = state { takeTurns() } else { decline() }
        }
    }

    /// The thread has ended.
    private func decline() {
        while let (errands, _) = next() {
            for errand in errands { errand(nil) }
        }
    }

    private func takeTurns() {
        while let (errands, calls) = next() {
            hubs.withLock { hubs in
                for errand in errands { errand(hubs) }
                deliver(Self.sorted(hubs.handle(calls), done: []))
                deliver(Self.sorted(hubs.commit(), done: calls))
                room.leave(calls.reduce(0) { $0 + $1.cost })
            }
        }
    }

    private func next() -> (errands: [@Sendable (FileHubs?) -> Void], calls: [FileCall])? {
        inbox.withLock { inbox in
            guard !inbox.isEmpty else {
                inbox.isScheduled = false
                return nil
            }
            defer { (inbox.errands, inbox.calls) = ([], []) }
            return (inbox.errands, inbox.calls)
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

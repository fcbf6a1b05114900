import NIOCore
import Synchronization

/// The open WebSockets, by which synced files and the rest of the server reach their connections.
final class ConnectionRegistry: Sendable {
    private struct Entry {
        let handler: NIOLoopBound<SyncHandler>
        let replies: ReplyQueue
    }

    private struct State {
        var entries: [ConnectionID: Entry] = [:]
        var lastNumber: UInt64 = 0
    }

    private let state = Mutex(State())

    func newID() -> ConnectionID {
        state.withLock { state in
            state.lastNumber += 1
            return ConnectionID(number: state.lastNumber)
        }
    }

    func connect(_ id: ConnectionID, _ handler: NIOLoopBound<SyncHandler>, _ replies: ReplyQueue) {
        state.withLock { $0.entries[id] = Entry(handler: handler, replies: replies) }
    }

    func disconnect(_ id: ConnectionID) {
        state.withLock { $0.entries[id] = nil }
    }

    var count: Int { state.withLock { $0.entries.count } }

    /// Asks connections, each on its event loop.
    /// - Parameters:
    ///   - first: connections with lower numbers are not asked.
    ///   - countMax: the most connections that are asked.
    /// - Returns: the answers, in the order of the connections' numbers.
    func ask<Answer: Sendable>(
        from first: ConnectionID = ConnectionID(number: 0), countMax: Int = .max,
        _ question: @escaping @Sendable (SyncHandler) -> Answer
    ) async -> [(id: ConnectionID, answer: Answer)] {
        let asked = state.withLock { state in
            state.entries.filter { $0.key >= first }.sorted { $0.key < $1.key }.prefix(countMax)
        }
        let ofLoops = Dictionary(grouping: asked) { ObjectIdentifier($0.value.handler.eventLoop) }
        var answers: [(id: ConnectionID, answer: Answer)] = []
        for ofLoop in ofLoops.values {
            let handlers = ofLoop.map { ($0.key, $0.value.handler) }
            let answered = handlers[0].1.eventLoop.submit {
                handlers.map { (id: $0.0, answer: question($0.1.value)) }
            }
            answers += (try? await answered.get()) ?? []
        }
        return answers.sorted { $0.id < $1.id }
    }

    /// Does something with one connection, on its event loop.
    /// - Returns: what `body` returns; false if there is no such connection.
    func withConnection(_ id: ConnectionID, _ body: @escaping @Sendable (SyncHandler) -> Bool) async -> Bool {
        guard let handler = state.withLock({ $0.entries[id]?.handler }) else { return false }
        return (try? await handler.eventLoop.submit { body(handler.value) }.get()) ?? false
    }

    /// Does something with every connection, each on its event loop.
    func forEach(_ body: @escaping @Sendable (SyncHandler) -> Void) {
        for handler in state.withLock({ $0.entries.values.map(\.handler) }) {
            handler.eventLoop.execute { body(handler.value) }
        }
    }

    /// Delivers replies of synced files: one task for each event loop, however many connections it serves. None sends
    /// anything of a commit before all connections have the replies that belong to it (`ReplyQueue`).
    func deliver(_ turn: TurnReplies) {
        var handlersOfLoops: [ObjectIdentifier: [NIOLoopBound<SyncHandler>]] = [:]
        func notify(_ entry: Entry) {
            handlersOfLoops[ObjectIdentifier(entry.handler.eventLoop), default: []].append(entry.handler)
        }
        state.withLock { state in
            for reply in turn.replies {
                if let entry = state.entries[reply.session.connection], entry.replies.append(reply) { notify(entry) }
            }
            for charge in turn.done {
                if let entry = state.entries[charge.connection], entry.replies.append(done: charge.bytes) {
                    notify(entry)
                }
            }
        }
        for handlers in handlersOfLoops.values {
            handlers[0].eventLoop.execute {
                for handler in handlers { handler.value.drainReplies() }
            }
        }
    }
}

/// Replies of synced files on their way to one connection.
///
/// An event loop reads its sockets before it runs the tasks that other threads submit. So the connection also drains
/// this queue before each message: a client that knows of a commit, and asks by MARK if it has everything, must not get
/// an answer from before the commit.
///
/// The mere end of requests does not wake the event loop: the connection has to know of it only while it waits for
/// that, which it does while many requests are not done.
final class ReplyQueue: Sendable {
    struct Waiting {
        var replies: [FileReply] = []
        /// The cost of the requests that are done.
        var doneBytes = 0
        /// True once the event loop has been notified to drain.
        fileprivate var isNotified = false
        fileprivate var notifiesOfAll = false

        /// - Returns: whether the event loop has to be notified.
        fileprivate mutating func notify() -> Bool {
            defer { isNotified = true }
            return !isNotified
        }
    }

    private let quietBytesMax: Int
    private let waiting = Mutex(Waiting())

    /// - Parameter quietBytesMax: the cost of finished requests that need not be reported to the connection
    ///   immediately; at most half of the cost that may wait, so that a waiting connection hears before its last
    ///   request is done.
    init(quietBytesMax: Int) { self.quietBytesMax = quietBytesMax }

    /// - Returns: whether the event loop has to be notified.
    func append(_ reply: FileReply) -> Bool {
        waiting.withLock { waiting in
            waiting.replies.append(reply)
            return waiting.notify()
        }
    }

    /// - Parameter bytes: the cost of a request that is done.
    /// - Returns: whether the event loop has to be notified.
    func append(done bytes: Int) -> Bool {
        waiting.withLock { waiting in
            waiting.doneBytes += bytes
            return (waiting.doneBytes > quietBytesMax || waiting.notifiesOfAll) && waiting.notify()
        }
    }

    func drain() -> Waiting {
        waiting.withLock { waiting in
            defer { (waiting.replies, waiting.doneBytes, waiting.isNotified) = ([], 0, false) }
            return waiting
        }
    }

    /// Makes the queue notify the event loop of everything from now on.
    func notifyOfAll() { waiting.withLock { $0.notifiesOfAll = true } }
}

import NIOCore
import Synchronization

/// The WebSockets that are open, so that store threads reach the connections behind them.
final class ConnectionRegistry: Sendable {
    private struct Entry {
        let handler: NIOLoopBound<SyncHandler>
        let replyQueue: ReplyQueue
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

    func connect(_ ident: ConnectionID, _ handler: NIOLoopBound<SyncHandler>, _ replyQueue: ReplyQueue) {
        state.withLock { $0.entries[ident] = Entry(handler: handler, replyQueue: replyQueue) }
    }

    func disconnect(_ ident: ConnectionID) {
        state.withLock { $0.entries[ident] = nil }
    }

    var count: Int { state.withLock { $0.entries.count } }

    /// Asks connections, each on its event loop; the answers come in the order of the connections' idents.
    /// - Parameters:
    ///   - first: connections with lower idents are passed over.
    ///   - countMax: how many connections are asked at most.
    func ask<Answer: Sendable>(
        from first: ConnectionID = ConnectionID(number: 0), countMax: Int = .max,
        _ question: @escaping @Sendable (SyncHandler) -> Answer
    ) async -> [(ident: ConnectionID, answer: Answer)] {
        let asked = state.withLock { state in
            state.entries.filter { $0.key >= first }.sorted { $0.key < $1.key }.prefix(countMax)
        }
        let ofLoops = Dictionary(grouping: asked) { ObjectIdentifier($0.value.handler.eventLoop) }
        var answers: [(ident: ConnectionID, answer: Answer)] = []
        for ofLoop in ofLoops.values {
            let handlers = ofLoop.map { ($0.key, $0.value.handler) }
            let answered = handlers[0].1.eventLoop.submit {
                handlers.map { (ident: $0.0, answer: question($0.1.value)) }
            }
            answers += (try? await answered.get()) ?? []
        }
        return answers.sorted { $0.ident < $1.ident }
    }

    /// Has something done for one connection, on its event loop.
    /// - Returns: false if there is no such connection.
    func withConnection(_ ident: ConnectionID, _ body: @escaping @Sendable (SyncHandler) -> Bool) async -> Bool {
        guard let handler = state.withLock({ $0.entries[ident]?.handler }) else { return false }
        return (try? await handler.eventLoop.submit { body(handler.value) }.get()) ?? false
    }

    /// Has something done for every connection, each on its event loop.
    func forEach(_ body: @escaping @Sendable (SyncHandler) -> Void) {
        for handler in state.withLock({ $0.entries.values.map(\.handler) }) {
            handler.eventLoop.execute { body(handler.value) }
        }
    }

    /// Takes news to the connections' event loops: one trip a loop, however many connections it serves.
    func deliver(_ replies: [ConnectionReplies]) {
        guard !replies.isEmpty else { return }
        var trips: [ObjectIdentifier: [NIOLoopBound<SyncHandler>]] = [:]
        state.withLock { state in
            for batch in replies {
                guard let entry = state.entries[batch.connection] else { continue }
                entry.replyQueue.append(batch)
                trips[ObjectIdentifier(entry.handler.eventLoop), default: []].append(entry.handler)
            }
        }
        for trip in trips.values {
            trip[0].eventLoop.execute {
                for handler in trip { handler.value.drainReplies() }
            }
        }
    }
}

/// News on their way to a connection.
///
/// An event loop reads sockets before it does what others ask of it. So the connection looks here before it takes in a
/// message: whoever knows of a commit, and asks by MARK whether it has everything, is not told yes from before the
/// commit.
final class ReplyQueue: Sendable {
    private let replies = Mutex<[ConnectionReplies]>([])

    func append(_ batch: ConnectionReplies) { replies.withLock { $0.append(batch) } }

    func drain() -> [ConnectionReplies] {
        replies.withLock { replies in
            defer { replies = [] }
            return replies
        }
    }
}

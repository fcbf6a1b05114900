import NIOCore
import Synchronization

/// The WebSockets that are open, so that store threads reach the connections behind them.
final class ConnectionTable: Sendable {
    private struct State {
        var handlers: [ConnectionIdent: NIOLoopBound<SyncHandler>] = [:]
        var lastNumber: UInt64 = 0
    }

    private let state = Mutex(State())

    func newIdent() -> ConnectionIdent {
        state.withLock { state in
            state.lastNumber += 1
            return ConnectionIdent(number: state.lastNumber)
        }
    }

    func connect(_ ident: ConnectionIdent, _ handler: NIOLoopBound<SyncHandler>) {
        state.withLock { $0.handlers[ident] = handler }
    }

    func disconnect(_ ident: ConnectionIdent) {
        state.withLock { $0.handlers[ident] = nil }
    }

    /// Has something done for every connection, each on its event loop.
    func forEach(_ body: @escaping @Sendable (SyncHandler) -> Void) {
        for handler in state.withLock({ Array($0.handlers.values) }) {
            handler.eventLoop.execute { body(handler.value) }
        }
    }

    /// Takes news to the connections' event loops: one trip a loop, however many connections it serves.
    func deliver(_ deliveries: [Delivery]) {
        guard !deliveries.isEmpty else { return }
        var trips: [ObjectIdentifier: [(NIOLoopBound<SyncHandler>, Delivery)]] = [:]
        state.withLock { state in
            for delivery in deliveries {
                guard let handler = state.handlers[delivery.connection] else { continue }
                trips[ObjectIdentifier(handler.eventLoop), default: []].append((handler, delivery))
            }
        }
        for trip in trips.values {
            trip[0].0.eventLoop.execute {
                for (handler, delivery) in trip { handler.value.take(delivery) }
            }
        }
    }
}

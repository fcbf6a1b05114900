import AnabranchCore
import AnabranchServer
import Synchronization

/// The outcomes of the changes of a connection, until it takes them.
final class Inbox: Sendable {
    struct Item: Sendable {
        let channel: ChannelName
        let serial: Int
        let request: Decided
        let result: Result<(outcome: ChangeOutcome, version: ServerVersion), any Error>
        /// True of a deletion that may have been the answer to another client's after all.
        var mayBeLateAnswer = false
    }

    /// A request that was decided on, without what it says.
    struct Decided: Sendable {
        let key: String
        /// `ccid`
        let ident: String
        let isDeletion: Bool

        init(_ request: ChangeRequest) {
            key = request.key
            ident = request.ident
            isDeletion = if case .delete = request.operation { true } else { false }
        }
    }

    private struct State {
        var items: [Item] = []
        var underWay = 0
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let socket: TextSocket
    private let state = Mutex(State())

    init(_ socket: TextSocket) { self.socket = socket }

    /// A change is on its way.
    func begin() { state.withLock { $0.underWay += 1 } }

    func add(_ item: Item) {
        let waiter = state.withLock { state in
            state.items.append(item)
            state.underWay -= 1
            return state.waiter.take()
        }
        waiter?.resume()
        socket.wake()
    }

    func take() -> [Item] {
        state.withLock { state in
            defer { state.items = [] }
            return state.items
        }
    }

    /// Waits while at least this many changes are under way.
    func wait(while countMax: Int) async {
        while true {
            let isFull = state.withLock { $0.underWay >= countMax }
            guard isFull else { return }
            await withCheckedContinuation { continuation in
                let isFree = state.withLock { state in
                    guard state.underWay >= countMax else { return true }
                    state.waiter = continuation
                    return false
                }
                if isFree { continuation.resume() }
            }
        }
    }
}

import NIOCore
import Synchronization

/// The start of a server's listener, for those who wait for it.
final class ListeningState: Sendable {
    private enum State {
        case notYet([AsyncStream<Result<SocketAddress, any Error>>.Continuation])
        case known(Result<SocketAddress, any Error>)
    }

    private let state = Mutex(State.notYet([]))

    /// The server listens, or will not do so any more.
    func set(_ outcome: Result<SocketAddress, any Error>) {
        let waiting = state.withLock { state in
            defer { state = .known(outcome) }
            if case .notYet(let waiting) = state { return waiting }
            return []
        }
        for waiter in waiting { waiter.yield(outcome) }
    }

    /// Waits until it is known.
    func outcome() async throws -> SocketAddress {
        let (outcomes, outcome) = AsyncStream.makeStream(of: Result<SocketAddress, any Error>.self)
        state.withLock { state in
            switch state {
            case .notYet(let waiting): state = .notYet(waiting + [outcome])
            case .known(let known): outcome.yield(known)
            }
        }
        for await outcome in outcomes { return try outcome.get() }
        throw CancellationError()
    }
}

import Synchronization

/// The times when each of the readers had what was written in a round.
final class Arrivals: Sendable {
    private struct State {
        var times: [ContinuousClock.Instant] = []
        var error: (any Error)?
        var waiter: CheckedContinuation<Void, any Error>?
    }

    private let readers: Int
    private let state = Mutex(State())

    init(readers: Int) { self.readers = readers }

    /// Records that a reader has got `count` changesets.
    func record(_ count: Int, at time: ContinuousClock.Instant) {
        change { state in
            for _ in 0..<count { state.times.append(time) }
        }
    }

    /// Records that a reader will get nothing more.
    func fail(_ error: any Error) { change { $0.error = error } }

    private func change(_ change: (inout State) -> Void) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, any Error>? in
            change(&state)
            return isComplete(state) ? state.waiter.take() : nil
        }
        waiter?.resume()
    }

    private func isComplete(_ state: State) -> Bool { state.times.count >= readers || state.error != nil }

    /// - Throws: the error of a reader that has failed since.
    func check() throws { if let error = state.withLock({ $0.error }) { throw error } }

    /// Waits for the last reader, and starts over.
    func all() async throws -> [ContinuousClock.Instant] {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let isOver = state.withLock { state in
                if isComplete(state) { return true }
                state.waiter = continuation
                return false
            }
            if isOver { continuation.resume() }
        }
        return try state.withLock { state in
            if let error = state.error { throw error }
            defer { state.times = [] }
            return state.times
        }
    }
}

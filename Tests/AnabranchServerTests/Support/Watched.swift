import Synchronization

/// A state that several threads change, and that a test waits for.
final class Watched<State: Sendable>: Sendable {
    private struct Content {
        var state: State
        var waiting: [(isReached: @Sendable (State) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let content: Mutex<Content>

    init(_ state: State) { content = Mutex(Content(state: state)) }

    func withLock<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, reached) = content.withLock { content in
            let result = body(&content.state), state = content.state
            let reached = content.waiting.filter { $0.isReached(state) }.map(\.continuation)
            content.waiting.removeAll { $0.isReached(state) }
            return (result, reached)
        }
        for continuation in reached { continuation.resume() }
        return result
    }

    /// Returns once the state is as it should be.
    func wait(until isReached: @escaping @Sendable (State) -> Bool) async {
        await withCheckedContinuation { continuation in
            let isOver = content.withLock { content in
                if isReached(content.state) { return true }
                content.waiting.append((isReached, continuation))
                return false
            }
            if isOver { continuation.resume() }
        }
    }
}

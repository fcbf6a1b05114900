import Synchronization

/// A limit for the memory of all requests to synced files that are not done yet, of all connections together.
final class UploadMemoryBudget: Sendable {
    private struct State {
        var bytes = 0
        var waiting: [@Sendable () -> Void] = []
    }

    private let bytesMax: Int
    private let state = Mutex(State())

    /// - Parameter bytesMax: a soft limit. Callers ask for room before they know how much they need, so each of them
    ///   may exceed it by one message.
    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// - Parameter retry: called once, on any thread, when there may be room again, if there is none now.
    func hasRoom(orElse retry: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if state.bytes > bytesMax { state.waiting.append(retry) }
            return state.bytes <= bytesMax
        }
    }

    func reserve(_ bytes: Int) { state.withLock { $0.bytes += bytes } }

    func release(_ bytes: Int) {
        let waiting = state.withLock { state in
            state.bytes -= bytes
            guard state.bytes <= bytesMax else { return [] as [@Sendable () -> Void] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for retry in waiting { retry() }
    }
}

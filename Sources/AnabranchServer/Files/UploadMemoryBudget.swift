import Synchronization

/// What the calls of all connections that wait to be done occupy together, and who wants to bring more.
final class UploadMemoryBudget: Sendable {
    private struct State {
        var bytes = 0
        var waiting: [@Sendable () -> Void] = []
    }

    private let bytesMax: Int
    private let state = Mutex(State())

    /// - Parameter bytesMax: with more inside there is no room. What goes in is not refused: whoever asks whether there
    ///   is room does not know yet how much it needs.
    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// - Parameter retry: called on any thread as soon as there may be room, if there is none now.
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

import Synchronization

/// Wakes one waiting task, at a given time or when it is signaled. A signal while no task waits wakes the next one
/// at once.
final class WakeSignal: Sendable {
    private struct State {
        var isSignaled = false
        var number = 0
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    func signal() {
        let waiter = state.withLock { state in
            state.isSignaled = state.waiter == nil
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Clears a signal that no task has waited for: the work it asked for is about to be done.
    func silence() { state.withLock { $0.isSignaled = false } }

    /// Waits for a signal, or until the time is up; not at all in a task that is cancelled.
    /// - Parameter milliseconds: the longest time to wait; nil for no limit.
    func wait(milliseconds: Int64?) async {
        let timer = milliseconds.map { milliseconds in
            Task {
                // A cancelled timer is not needed any more.
                guard (try? await Task.sleep(for: .milliseconds(milliseconds))) != nil else { return }
                signal()
            }
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.isSignaled || Task.isCancelled {
                        state.isSignaled = false
                        return true
                    }
                    state.waiter = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            signal()
        }
        timer?.cancel()
    }
}

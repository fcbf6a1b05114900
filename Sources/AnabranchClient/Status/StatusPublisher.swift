import Synchronization

/// The status of a replica, for readers and observers. An observer that is cancelled is removed a moment later:
/// cancellation holds a lock of the task, which `publish` may be waiting for while it holds the lock of this object.
final class StatusPublisher: Sendable {
    private struct State {
        var status = StoreStatus()
        var watchers: [Int: AsyncStream<StoreStatus>.Continuation] = [:]
        var issueWatchers: [Int: AsyncStream<SyncIssueNews>.Continuation] = [:]
        var lastNumber = 0
        var hasEnded = false

        mutating func nextNumber() -> Int {
            lastNumber += 1
            return lastNumber
        }
    }

    private let state = Mutex(State())

    var status: StoreStatus { state.withLock { $0.status } }

    /// Notifies the observers, if the status has changed: under the lock, so that changes arrive in order.
    func publish(_ status: StoreStatus) {
        state.withLock { state in
            guard status != state.status else { return }
            let news = Self.news(from: state.status.issue, to: status.issue)
            state.status = status
            for watcher in state.watchers.values { watcher.yield(status) }
            for watcher in state.issueWatchers.values {
                for item in news { watcher.yield(item) }
            }
        }
    }

    private static func news(from old: SyncIssue?, to new: SyncIssue?) -> [SyncIssueNews] {
        if let new { return new.isSame(as: old) ? [] : [.occurred(new)] }
        return old.map { [.resolved($0)] } ?? []
    }

    /// The status, at once and each time that it changes; only the newest one for slow observers.
    func updates() -> AsyncStream<StoreStatus> {
        let (stream, continuation) = AsyncStream<StoreStatus>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let number: Int? = state.withLock { state in
            continuation.yield(state.status)
            guard !state.hasEnded else { return nil }
            let number = state.nextNumber()
            state.watchers[number] = continuation
            return number
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            Task { self?.state.withLock { $0.watchers[number] = nil } }
        }
        return stream
    }

    /// The current issue, if there is one, and all changes of it from now on; only the newest ones for slow observers.
    func issues() -> AsyncStream<SyncIssueNews> {
        let (stream, continuation) = AsyncStream<SyncIssueNews>.makeStream(bufferingPolicy: .bufferingNewest(64))
        let number: Int? = state.withLock { state in
            if let issue = state.status.issue { continuation.yield(.occurred(issue)) }
            guard !state.hasEnded else { return nil }
            let number = state.nextNumber()
            state.issueWatchers[number] = continuation
            return number
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            Task { self?.state.withLock { $0.issueWatchers[number] = nil } }
        }
        return stream
    }

    /// Ends all streams, since the replica is closed.
    func end() {
        let (watchers, issueWatchers) = state.withLock { state in
            state.hasEnded = true
            defer { (state.watchers, state.issueWatchers) = ([:], [:]) }
            return (Array(state.watchers.values), Array(state.issueWatchers.values))
        }
        for watcher in watchers { watcher.finish() }
        for watcher in issueWatchers { watcher.finish() }
    }
}

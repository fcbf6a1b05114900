import AnabranchCore
import Synchronization

/// The part of a store that is observed.
enum Interest: Sendable {
    case object(className: [UInt8], key: PrimaryKey)
    case classes(Set<[UInt8]>)
    case everything
}

/// The changes to objects since the observer's last look, in any number of transactions: each object before and now.
struct PendingChanges: Sendable {
    struct Change: Sendable {
        let object: ObjectReference
        let before: StateObject?
        var after: StateObject?
        /// True if a transaction of this replica has changed it; `isRemote`, if a download has.
        var isLocal: Bool
        var isRemote: Bool
    }

    private(set) var changes: [Change] = []
    private var positions: [ObjectReference: Int] = [:]

    mutating func add(_ noted: NotedChange, isLocal: Bool) {
        if let position = positions[noted.object] {
            changes[position].after = noted.after
            changes[position].isLocal = changes[position].isLocal || isLocal
            changes[position].isRemote = changes[position].isRemote || !isLocal
        } else {
            positions[noted.object] = changes.count
            changes.append(
                Change(
                    object: noted.object, before: noted.before, after: noted.after, isLocal: isLocal, isRemote: !isLocal
                ))
        }
    }
}

/// An observer: the changes that it has not looked at yet, and the task that waits for them.
final class ChangeInbox: Sendable {
    enum News: Sendable {
        case changes(PendingChanges)
        /// The changes were not recorded: the observer has to look at everything.
        case renewal
        /// The store was closed.
        case end
    }

    private let state = Mutex(State())

    private struct State {
        var pending = PendingChanges()
        var isRenewed = false
        var hasEnded = false
        var waiter: CheckedContinuation<Void, Never>?

        var hasChanges: Bool { isRenewed || hasEnded || !pending.changes.isEmpty }

        /// The waiting task, if there are changes to deliver to it.
        mutating func takeWaiter() -> CheckedContinuation<Void, Never>? {
            guard hasChanges, let waiter else { return nil }
            self.waiter = nil
            return waiter
        }
    }

    // MARK: For the replica

    /// Adds the changes of a commit.
    func add(_ noted: [NotedChange], isLocal: Bool) {
        change { state in for noted in noted { state.pending.add(noted, isLocal: isLocal) } }
    }

    func renew() {
        change { state in
            state.isRenewed = true
            state.pending = PendingChanges()
        }
    }

    func end() { change { $0.hasEnded = true } }

    /// Drops what has come so far, since everything is looked at now.
    func clear() {
        state.withLock { state in
            state.isRenewed = false
            state.pending = PendingChanges()
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let waiter = state.withLock { state in
            body(&state)
            return state.takeWaiter()
        }
        waiter?.resume()
    }

    // MARK: For the observer

    /// Waits for changes, and takes them.
    /// - Returns: nil if the task was cancelled.
    func next() async -> News? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let now = state.withLock { state in
                    state.waiter = continuation
                    return Task.isCancelled ? state.waiter.take() : state.takeWaiter()
                }
                now?.resume()
            }
        } onCancel: {
            state.withLock { $0.waiter.take() }?.resume()
        }
        guard !Task.isCancelled else { return nil }
        return state.withLock { state in
            if state.hasEnded { return .end }
            if state.isRenewed { return .renewal }
            defer { state.pending = PendingChanges() }
            return .changes(state.pending)
        }
    }
}

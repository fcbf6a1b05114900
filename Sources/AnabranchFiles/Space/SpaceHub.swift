import AnabranchChunks
import Foundation
import Synchronization

/// Tells observers of a space what has changed.
final class SpaceHub: Sendable {
    /// An observer of changes.
    final class Observer: Sendable {
        private struct Pending {
            var changes: [SpaceChange] = []
            var places: [SpacePath: Int] = [:]
        }

        let bell: AsyncStream<Void>
        private let continuation: AsyncStream<Void>.Continuation
        private let isWanted: @Sendable (SpaceChange) -> Bool
        private let pending = Mutex(Pending())

        init(_ isWanted: @escaping @Sendable (SpaceChange) -> Bool) {
            self.isWanted = isWanted
            (bell, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        }

        /// Adds a change to those that wait. Several of one path are one, of the last kind.
        func add(_ change: SpaceChange) {
            guard isWanted(change) else { return }
            pending.withLock { add(change, to: &$0) }
            continuation.yield()
        }

        private func add(_ change: SpaceChange, to pending: inout Pending) {
            guard let place = pending.places[change.path] else {
                pending.places[change.path] = pending.changes.count
                pending.changes.append(change)
                return
            }
            let known = pending.changes[place]
            pending.changes[place] = known.joined(with: change)
            // It is gone from where it was before, too, unless something else has come there.
            guard case .moved(let former) = known.kind, change.kind == .deleted,
                pending.places[former].map({ $0 < place }) ?? true
            else { return }
            let gone = SpaceChange(path: former, key: change.key, kind: .deleted, origin: known.origin)
            if isWanted(gone) { add(gone, to: &pending) }
        }

        func take() -> [SpaceChange] {
            pending.withLock { pending in
                defer { pending = Pending() }
                // What was created and deleted again was never there.
                return pending.changes.filter { $0.kind != .vanished }
            }
        }

        func end() { continuation.finish() }
    }

    /// An observer of statuses.
    private struct StatusObserver {
        let tell: @Sendable (TransferBoard.Way?) -> Void
        let end: @Sendable () -> Void
    }

    private struct State {
        var observers: [Int: Observer] = [:]
        var statusObservers: [Int: StatusObserver] = [:]
        var followers: [Int: ShownChanges] = [:]
        var lastNumber = 0
        var hasEnded = false
    }

    private let state = Mutex(State())

    func add(_ observer: Observer) -> Int {
        state.withLock { state in
            state.lastNumber += 1
            if state.hasEnded { observer.end() } else { state.observers[state.lastNumber] = observer }
            return state.lastNumber
        }
    }

    /// Has a mirror told what may be shown otherwise.
    func add(_ follower: ShownChanges) -> Int {
        state.withLock { state in
            state.lastNumber += 1
            state.followers[state.lastNumber] = follower
            return state.lastNumber
        }
    }

    /// Has `body` called whenever a status may have changed: nil stands for any. It reads statuses, so it is never
    /// called with a lock of the space.
    /// - Parameter end: is called when the space is closed.
    func addStatusObserver(
        _ body: @escaping @Sendable (TransferBoard.Way?) -> Void, end: @escaping @Sendable () -> Void = {}
    ) -> Int {
        let (number, hasEnded) = state.withLock { state in
            state.lastNumber += 1
            if !state.hasEnded { state.statusObservers[state.lastNumber] = StatusObserver(tell: body, end: end) }
            return (state.lastNumber, state.hasEnded)
        }
        if hasEnded { end() }
        return number
    }

    func remove(_ number: Int) {
        state.withLock { state in
            state.observers[number] = nil
            state.statusObservers[number] = nil
            state.followers[number] = nil
        }
    }

    func end() {
        let (observers, statusObservers) = state.withLock { state in
            state.hasEnded = true
            defer { (state.observers, state.statusObservers) = ([:], [:]) }
            return (Array(state.observers.values), Array(state.statusObservers.values))
        }
        for observer in observers { observer.end() }
        for observer in statusObservers { observer.end() }
    }

    func tell(_ change: SpaceChange) {
        for observer in state.withLock({ Array($0.observers.values) }) { observer.add(change) }
    }

    var isFollowed: Bool { state.withLock { !$0.followers.isEmpty } }

    /// - Parameter keys: what may be shown otherwise; nil if it may be anything.
    func tellFollowers(_ keys: Set<UUID>?) {
        for follower in state.withLock({ Array($0.followers.values) }) { follower.add(keys) }
    }

    /// True if changes are observed.
    var isObserved: Bool { state.withLock { !$0.observers.isEmpty } }

    /// Tells the difference between what was shown before and what is now.
    func tell(
        _ before: [UUID: FileSpace.Place], _ after: [UUID: FileSpace.Place],
        origin: (UUID) -> SpaceChange.Origin
    ) {
        for key in Set(before.keys).union(after.keys) {
            let kind: SpaceChange.Kind, path: SpacePath
            switch (before[key], after[key]) {
            case (nil, let new?): (kind, path) = (.created, new.path)
            case (let old?, nil): (kind, path) = (.deleted, old.path)
            case (let old?, let new?) where old.path != new.path: (kind, path) = (.moved(from: old.path), new.path)
            case (let old?, let new?) where old.content != new.content: (kind, path) = (.updated, new.path)
            default: continue
            }
            tell(SpaceChange(path: path, key: key, kind: kind, origin: origin(key)))
        }
    }

    func transferChanged(_ way: TransferBoard.Way) { statusChanged(way) }

    func statusChanged(_ way: TransferBoard.Way?) {
        for observer in state.withLock({ Array($0.statusObservers.values) }) { observer.tell(way) }
    }
}

public import AnabranchClient
public import Foundation
import Synchronization

/// A change in a space.
public struct SpaceChange: Equatable, Sendable {
    /// The kind of a change.
    public enum Kind: Equatable, Sendable {
        /// It was created, or restored.
        case created
        /// It has another content.
        case updated
        /// It was deleted.
        case deleted
        /// It was moved or renamed. What is below a folder moves with it, and is not reported by itself.
        case moved(from: SpacePath)
        /// It was created and deleted again since the last report. Not reported.
        case vanished
    }

    /// The origin of a change.
    public enum Origin: Sendable {
        /// This device.
        case local
        /// Another one.
        case remote
        /// Both, since the last report.
        case both
    }

    /// Where it is shown now; where it was, if it was deleted.
    public let path: SpacePath
    /// The key, which stays through renaming and moving.
    public let key: UUID
    /// The kind of the change.
    public let kind: Kind
    /// The origin of the change.
    public let origin: Origin

    /// The paths that it is about.
    var paths: [SpacePath] {
        if case .moved(let former) = kind { [former, path] } else { [path] }
    }

    func joined(with next: SpaceChange) -> SpaceChange {
        var kind = next.kind
        switch (self.kind, next.kind) {
        case (.created, .deleted): kind = .vanished
        case (.created, .updated), (.vanished, .created): kind = .created
        case (.moved(let former), .updated): kind = .moved(from: former)
        default: break
        }
        return SpaceChange(
            path: next.path, key: next.key, kind: kind, origin: origin == next.origin ? origin : .both)
    }
}

/// The changes in a space from the first call of `next` on, in the order in which they were committed. Each element has
/// each path once: a slow observer gets fewer and larger ones. The sequence ends when its task is cancelled or the
/// space is closed.
public struct SpaceChanges: AsyncSequence, Sendable {
    fileprivate let hub: SpaceHub
    fileprivate let isWanted: @Sendable (SpaceChange) -> Bool

    /// An observer, from now on and for as long as it exists.
    public func makeAsyncIterator() -> Iterator { Iterator(hub, isWanted) }

    /// Observes the changes for as long as it exists.
    public struct Iterator: AsyncIteratorProtocol {
        private let registration: Registration

        /// Ends the observation when the iterator is released.
        private final class Registration {
            let observer: SpaceHub.Observer
            private let hub: SpaceHub
            private let number: Int

            init(_ hub: SpaceHub, _ observer: SpaceHub.Observer) {
                (self.hub, self.observer, number) = (hub, observer, hub.add(observer))
            }

            deinit { hub.remove(number) }
        }

        fileprivate init(_ hub: SpaceHub, _ isWanted: @escaping @Sendable (SpaceChange) -> Bool) {
            registration = Registration(hub, SpaceHub.Observer(isWanted))
        }

        /// Waits for the next changes; nil at the end.
        public mutating func next() async -> [SpaceChange]? {
            for await _ in registration.observer.bell {
                let changes = registration.observer.take()
                if !changes.isEmpty { return changes }
            }
            return nil
        }
    }
}

extension FileSpace {
    /// The changes at a path and, as the scope says, below it, from now on.
    public func changes(at path: SpacePath = .root, _ scope: PathScope = .pathAndDescendants) -> SpaceChanges {
        SpaceChanges(hub: hub) { change in change.paths.contains { scope.includes($0, at: path) } }
    }

    /// Has `body` called with changes, for as long as the owner exists or until `removeObserver`.
    /// - Parameter body: called in order, one call after another.
    public func addObserver(
        _ owner: any AnyObject & Sendable, at path: SpacePath = .root, _ scope: PathScope = .pathAndDescendants,
        _ body: @escaping @Sendable ([SpaceChange]) -> Void
    ) {
        var iterator = changes(at: path, scope).makeAsyncIterator()
        let isOwned: @Sendable () -> Bool = { [weak owner] in owner != nil }
        owners.add(
            Task { while let changes = await iterator.next(), isOwned() { body(changes) } }, of: ObjectIdentifier(owner)
        )
    }

    /// Ends all observations of an owner. A call that is under way comes to its end.
    public func removeObserver(_ owner: AnyObject) {
        owners.end(of: ObjectIdentifier(owner))
    }
}

/// Tasks that belong to objects.
final class OwnedTasks: Sendable {
    private let tasks = Mutex<[ObjectIdentifier: [Task<Void, Never>]]>([:])

    func add(_ task: Task<Void, Never>, of owner: ObjectIdentifier) {
        tasks.withLock { $0[owner, default: []].append(task) }
    }

    func end(of owner: ObjectIdentifier) {
        for task in tasks.withLock({ $0.removeValue(forKey: owner) }) ?? [] { task.cancel() }
    }

    func end() { for owner in tasks.withLock({ Array($0.keys) }) { end(of: owner) } }
}

extension PathScope {
    fileprivate func includes(_ path: SpacePath, at place: SpacePath) -> Bool {
        guard place.contains(path) else { return false }
        let depth = path.components.count - place.components.count
        return switch self {
        case .path: depth == 0
        case .pathAndChildren: depth <= 1
        case .pathAndDescendants: true
        }
    }
}

public import AnabranchClient
public import Foundation

/// A change of one file or folder of a space, by this device or another one.
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
        /// Its content begins or ceases to be transferred, waits, or is there; only for those who ask for that.
        case statusChanged
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
        case (let kept, .statusChanged): kind = kept
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
    /// The space, if changes of statuses are wanted.
    fileprivate let space: FileSpace?

    /// An observer, from now on and for as long as it exists.
    public func makeAsyncIterator() -> Iterator { Iterator(hub, isWanted, space) }

    /// Observes the changes for as long as it exists.
    public struct Iterator: AsyncIteratorProtocol {
        private let registration: Registration

        /// Ends the observation when the iterator is released.
        private final class Registration {
            let observer: SpaceHub.Observer
            private let hub: SpaceHub
            private let number: Int
            private let statusNumber: Int?

            init(_ hub: SpaceHub, _ observer: SpaceHub.Observer, _ space: FileSpace?) {
                (self.hub, self.observer, number) = (hub, observer, hub.add(observer))
                statusNumber = space.map { hub.addStatusObserver(StatusTurns($0, observer).tell) }
            }

            deinit {
                hub.remove(number)
                if let statusNumber { hub.remove(statusNumber) }
            }
        }

        fileprivate init(
            _ hub: SpaceHub, _ isWanted: @escaping @Sendable (SpaceChange) -> Bool, _ space: FileSpace?
        ) {
            registration = Registration(hub, SpaceHub.Observer(isWanted), space)
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
    /// - Parameter statuses: true for changes of the kind `statusChanged` as well.
    public func changes(
        at path: SpacePath = .root, _ scope: PathScope = .pathAndDescendants, statuses: Bool = false
    ) -> SpaceChanges {
        SpaceChanges(
            hub: hub, isWanted: { change in change.paths.contains { scope.includes($0, at: path) } },
            space: statuses ? self : nil)
    }

    /// Has `body` called with changes, for as long as the owner exists or until `removeObserver`.
    /// - Parameter body: called in order, one call after another.
    public func addObserver(
        _ owner: any AnyObject & Sendable, at path: SpacePath = .root, _ scope: PathScope = .pathAndDescendants,
        _ body: @escaping @Sendable ([SpaceChange]) -> Void
    ) {
        var iterator = changes(at: path, scope).makeAsyncIterator()
        owners.add(owner, { await iterator.next() }, body)
    }

    /// Has `body` called with the status of the space, at once and each time that it changes, for as long as the owner
    /// exists or until `removeObserver`.
    /// - Parameter body: called in order, one call after another; if it is slow, with the newest status only.
    public func addStatusObserver(
        _ owner: any AnyObject & Sendable, _ body: @escaping @Sendable (Status) -> Void
    ) {
        var iterator = statusUpdates.makeAsyncIterator()
        owners.add(owner, { await iterator.next() }, body)
    }

    /// Ends all observations of an owner. A call that is under way still completes.
    public func removeObserver(_ owner: AnyObject) {
        owners.end(of: owner)
    }
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

import AnabranchCore

/// The changes to something in a store, from a first reading on (`Spec/Objects.md`, section 6):
///
///     for try await change in store.changes(of: Chore.where { !$0.isDone }) { show(change.results) }
///
/// The first element has what exists; each further one has what has changed since the one before, in any number of
/// transactions. So nothing is missed, nothing comes twice, and a slow observer gets fewer and larger changes. The
/// sequence ends when its task is cancelled or the store is closed. Each iteration observes independently.
public struct ObjectChanges<Change: Sendable>: AsyncSequence, Sendable {
    private let make: @Sendable () -> any ChangeReading<Change>

    init(of source: some ChangeSource<Change>, in replica: SyncedReplica, _ cache: ClassCache) {
        make = { ChangeReader(source, replica, cache) }
    }

    /// An iterator that begins to observe when its first element is requested.
    public func makeAsyncIterator() -> Iterator { Iterator(reader: make()) }

    /// Observes the changes for as long as it exists.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let reader: any ChangeReading<Change>

        /// Waits for the next change.
        /// - Throws: `ObjectError` if a value cannot be read as its type.
        public mutating func next() async throws -> Change? { try await reader.next() }
    }
}

/// Something that is observed, as it was when it was looked at last.
protocol ChangeSource<Change>: Sendable {
    associatedtype Change: Sendable
    /// The part of the store that concerns it, as far as it is known once it has looked at everything.
    var interest: Interest { get }

    /// Looks at everything.
    /// - Returns: the changes since the last look; everything at the first one. Nil if nothing has changed.
    mutating func look(at state: StoredState, _ classes: _BoundClasses) throws -> Change?

    /// Takes the changes since the last look.
    /// - Returns: nil if it has to look at everything.
    mutating func take(_ pending: PendingChanges) throws -> SourceUpdate<Change>
}

enum SourceUpdate<Change: Sendable>: Sendable {
    case change(Change)
    /// Nothing visible has changed.
    case nothing
    /// It has to look at everything.
    case unknown
}

protocol ChangeReading<Change>: AnyObject {
    associatedtype Change: Sendable
    func next() async throws -> Change?
}

private final class ChangeReader<Source: ChangeSource>: ChangeReading {
    private var source: Source
    private let replica: SyncedReplica
    private let cache: ClassCache
    private let observation: ChangeInbox
    private var registration: Registration?

    /// Ends the observation when the iterator is released.
    private final class Registration {
        let number: Int
        let replica: SyncedReplica

        init(_ number: Int, _ replica: SyncedReplica) { (self.number, self.replica) = (number, replica) }

        deinit { replica.removeObservation(number) }
    }

    init(_ source: Source, _ replica: SyncedReplica, _ cache: ClassCache) {
        self.source = source
        self.replica = replica
        self.cache = cache
        observation = ChangeInbox()
    }

    func next() async throws -> Source.Change? {
        if registration == nil {
            guard !Task.isCancelled else { return nil }
            registration = Registration(await replica.addObservation(observation), replica)
            if let first = try await look() { return first }
        }
        while let news = await observation.next() {
            switch news {
            case .end: return nil
            case .renewal: if let change = try await look() { return change }
            case .changes(let pending):
                switch try source.take(pending) {
                case .change(let change): return change
                case .nothing: continue
                case .unknown: if let change = try await look() { return change }
                }
            }
        }
        return nil
    }

    private func look() async throws -> Source.Change? {
        guard let number = registration?.number else { return nil }
        // Until it has looked, its interest is not known.
        replica.hub.change(number, to: .everything)
        await replica.updateObserved()
        let (source, change) = try await replica.look(source, observation, cache)
        self.source = source
        replica.hub.change(number, to: source.interest)
        return change
    }
}

extension SyncedReplica {
    func addObservation(_ observation: ChangeInbox) -> Int {
        let number = hub.add(observation)
        updateObserved()
        return number
    }

    nonisolated func removeObservation(_ number: Int) {
        hub.remove(number)
        Task { await updateObserved() }
    }

    /// Has a source look, on a reader, at everything that is committed now; later commits come as changes.
    func look<Source: ChangeSource>(
        _ source: Source, _ observation: ChangeInbox, _ cache: ClassCache
    ) async throws -> (Source, Source.Change?) {
        try await withCheckedThrowingContinuation { continuation in
            observation.clear()
            readers.readNow { stored in
                continuation.resume(
                    with: Result {
                        var source = source
                        let stored = try stored.get()
                        let change = try source.look(at: stored, cache.classes(of: stored.graph))
                        return (source, change)
                    })
            }
        }
    }
}

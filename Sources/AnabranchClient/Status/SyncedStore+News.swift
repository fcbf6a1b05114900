public import AnabranchCore
import AnabranchProtocol
public import AnabranchReplica

// Streams that report what a server does to a store.

extension SyncedStore {
    /// The writes of this store that the server undoes from now on: to objects that the user may not write, or that no
    /// subscription has. When one is reported, the object is as the server has it.
    public var undoneWrites: AsyncStream<UndoneWrite> {
        get async {
            await news { event in
                guard case .writesUndone(let message) = event else { return [] }
                return UndoneWrite.all(of: message)
            }
        }
    }

    /// The local changes that merges discard from now on, in favour of concurrent changes by others. When one is
    /// reported, the object is already as the merge has left it. A download that meets very many changes is not
    /// reported.
    public var mergedAway: AsyncStream<OverruledChange> {
        get async {
            await news { event in
                guard case .mergedAway(let changes) = event else { return [] }
                return changes
            }
        }
    }

    /// The client resets from now on: the server has lost its history, or the store was offline for too long, and a
    /// fresh file takes the place of the store's.
    public var resets: AsyncStream<StoreReset> {
        get async {
            await news { event in
                switch event {
                case .resetBegins: [.begins]
                case .resetEnded(let report): [.ended(report)]
                case .changed, .status, .writesUndone, .mergedAway: []
                }
            }
        }
    }

    private func news<Element: Sendable>(
        _ elements: @escaping @Sendable (ReplicaEvent) -> [Element]
    ) async -> AsyncStream<Element> {
        let events = await replica.events()
        let (stream, continuation) = AsyncStream<Element>.makeStream()
        let task = Task {
            for await event in events { for element in elements(event) { continuation.yield(element) } }
            continuation.finish()
        }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }
}

/// A step of a client reset, in which a store is replaced by a fresh one (`Spec/Replica.md`, section 4).
public enum StoreReset: Equatable, Sendable {
    /// The fresh file is being downloaded; until it is complete, the store stays as it is.
    case begins
    /// The store has what the server has, and those local changes that could be made again.
    case ended(ResetReport)
}

/// A write that the server has undone.
public struct UndoneWrite: Equatable, Sendable {
    /// The class of the object.
    public let className: String
    /// The primary key of the object.
    public let key: PrimaryKey
    /// The reason, in the words of the server.
    public let reason: String

    static func all(of message: ErrorMessage) -> [UndoneWrite] {
        (message.rejection?.updates ?? []).compactMap { update in
            update.key.map { UndoneWrite(className: update.table, key: $0, reason: update.reason) }
        }
    }

    /// True if it is about an object.
    public func concerns<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) -> Bool {
        className == type.className && (try? id.primaryKey) == key
    }
}

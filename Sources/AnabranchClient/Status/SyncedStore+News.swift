public import AnabranchCore
import AnabranchProtocol

// What a server does to a store.

extension SyncedStore {
    /// Writes of this store that the server has undone, from now on: objects that the user may not write, or that no
    /// subscription has. When one is told, the objects are as the server has them.
    public var undoneWrites: AsyncStream<UndoneWrite> {
        get async {
            await news { event in
                guard case .writesUndone(let message) = event else { return [] }
                return UndoneWrite.all(of: message)
            }
        }
    }

    /// Client resets, from now on: the server has lost its history, or the store was away for too long, and a fresh
    /// file takes the place of the store's.
    public var resets: AsyncStream<StoreReset> {
        get async {
            await news { event in
                switch event {
                case .resetBegins: [.begins]
                case .resetEnded(let report): [.ended(report)]
                case .changed, .status, .writesUndone: []
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

/// What happens when a store is replaced by a fresh one (`Spec/Replica.md`, section 4).
public enum StoreReset: Equatable, Sendable {
    /// The fresh file is being downloaded; the store stays as it is until it is there.
    case begins
    /// The store has what the server has, and what was made again of the local changes.
    case ended(ResetReport)
}

/// A write that the server has undone.
public struct UndoneWrite: Equatable, Sendable {
    /// The class of the object.
    public let className: String
    /// The primary key of the object.
    public let key: PrimaryKey
    /// Why, in the words of the server.
    public let reason: String

    static func all(of message: ErrorMessage) -> [UndoneWrite] {
        (message.rejection?.updates ?? []).compactMap { update in
            update.key.map { UndoneWrite(className: update.table, key: $0, reason: update.reason) }
        }
    }

    /// Whether it is about an object.
    public func concerns<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) -> Bool {
        className == type.className && (try? id.primaryKey) == key
    }
}

import AnabranchReplica
import Synchronization

/// The readers of a replica's file while it is written, each on a thread of its own.
final class ReplicaReaders: Sendable {
    private let gate = ReaderLock()
    /// Nil once it is closed.
    private let store: Mutex<SQLiteReplicaStore?>

    init(_ store: SQLiteReplicaStore) { self.store = Mutex(store) }

    /// Calls `body` with the latest committed state.
    func read<Value>(_ body: (StoredState) throws -> Value) throws -> Value {
        try gate.read {
            guard let store = store.withLock({ $0 }) else { throw ReplicaError(.notAllowed, "the replica was closed") }
            return try store.read(body)
        }
    }

    /// Calls `body` on another thread with the state committed at the moment of the call. Only the committing thread
    /// may call it.
    func readNow(_ body: @escaping @Sendable (Result<StoredState, any Error>) -> Void) {
        gate.enter()
        guard let store = store.withLock({ $0 }) else {
            gate.leave()
            return body(.failure(ReplicaError(.notAllowed, "the replica was closed")))
        }
        store.readNow { [gate] state in
            body(state)
            gate.leave()
        }
    }

    /// Replaces the store by another one while nobody reads.
    /// - Parameter make: closes the old store, and returns the new one; nil if there is none.
    func replaceStore(_ make: () throws -> SQLiteReplicaStore?) throws {
        try gate.whileClosed {
            let new = try make()
            store.withLock { $0 = new }
        }
    }
}

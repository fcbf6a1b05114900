import AnabranchReplica
import Synchronization

/// Those who read a replica's file while it is written, each on a thread of its own.
final class ReplicaReaders: Sendable {
    private let gate = ReadGate()
    /// Nil once it is closed.
    private let store: Mutex<SQLiteReplicaStore?>

    init(_ store: SQLiteReplicaStore) { self.store = Mutex(store) }

    /// Calls `body` with what was committed last.
    func read<Value>(_ body: (StoredState) throws -> Value) throws -> Value {
        try gate.read {
            guard let store = store.withLock({ $0 }) else { throw ReplicaError(.notAllowed, "the replica was closed") }
            return try store.read(body)
        }
    }

    /// Calls `body` elsewhere with what is committed at the moment of the call. Whoever calls is the one who commits.
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

    /// Puts another store in the place of the one that is there, while nobody reads.
    /// - Parameter make: closes that one, and gives the other one; nil if there is none.
    func replaceStore(_ make: () throws -> SQLiteReplicaStore?) throws {
        try gate.whileClosed {
            let new = try make()
            store.withLock { $0 = new }
        }
    }
}

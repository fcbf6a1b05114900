#if canImport(CLibPQ)
import AnabranchCore
import AnabranchPostgresWire
import Synchronization

/// The objects that others have changed, from the replica's turns. There can be very many.
final class DirtyObjects: Sendable {
    struct Taken {
        var isEverything = false
        /// The keys of objects, by class.
        var keys: [ClassID: Set<PrimaryKey>] = [:]

        var isEmpty: Bool { !isEverything && keys.isEmpty }
    }

    private let state = Mutex(Taken())

    /// - Parameter objects: nil for all.
    func add(_ objects: [ObjectReference]?) {
        state.withLock { state in
            guard let objects else { return state.isEverything = true }
            for object in objects { state.keys[object.classID, default: []].insert(object.key) }
        }
    }

    var isEmpty: Bool { state.withLock { $0.isEmpty } }

    func take() -> Taken {
        state.withLock { state in
            defer { state = Taken() }
            return state
        }
    }
}

extension BridgeDatabase {
    /// The objects whose rows the database has not taken.
    func waitingObjects(in state: ObjectGraph) throws -> [ObjectReference] {
        let rows = try db.query("SELECT class, key FROM anabranch.pending")
        return (0..<rows.count).compactMap { row in
            guard let name = rows[row, 0], let key = rows[row, 1],
                let schema = state.schema(ofClass: Array(name.utf8)),
                let objectKey = BridgedTable.objectKey(key, schema.key?.type ?? .null)
            else { return nil }
            return ObjectReference(classID: schema.number, key: objectKey)
        }
    }
}
#endif

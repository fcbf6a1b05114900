import AnabranchCore
import Synchronization

/// The objects that may differ from their rows: those that others have changed, from the replica's turns, and those
/// whose rows are to be set back. There can be very many.
final class ChangedObjects: Sendable {
    struct Taken {
        var isEverything = false
        /// The keys of objects, by class.
        var objects: [ClassID: Set<UUIDBytes>] = [:]
        /// The keys of the objects of rows, by table.
        var rows: [Int64: Set<UUIDBytes>] = [:]

        var isEmpty: Bool { !isEverything && objects.isEmpty && rows.isEmpty }
    }

    private let state = Mutex(Taken())

    /// - Parameter objects: nil for all.
    func add(_ objects: [ObjectReference]?) {
        state.withLock { state in
            guard let objects else { return state.isEverything = true }
            for object in objects {
                guard case .uuid(let guid) = object.key else { continue }
                state.objects[object.classID, default: []].insert(guid)
            }
        }
    }

    func insert(_ objects: [DirtyObject]) {
        state.withLock { state in for object in objects { state.rows[object.table, default: []].insert(object.guid) } }
    }

    var isEmpty: Bool { state.withLock { $0.isEmpty } }

    func take() -> Taken {
        state.withLock { state in
            defer { state = Taken() }
            return state
        }
    }
}

#if canImport(CLibPQ)
import AnabranchCore
import Synchronization

/// The objects that others have changed, from the replica's turns.
final class DirtyObjects: Sendable {
    private struct State {
        var isEverything = false
        var references: Set<ObjectReference> = []
    }

    private let state = Mutex(State())

    /// - Parameter objects: nil for all.
    func add(_ objects: [ObjectReference]?) {
        state.withLock { state in
            if let objects { state.references.formUnion(objects) } else { state.isEverything = true }
        }
    }

    var isEmpty: Bool { state.withLock { !$0.isEverything && $0.references.isEmpty } }

    func take() -> (isEverything: Bool, references: Set<ObjectReference>) {
        state.withLock { state in
            defer { state = State() }
            return (state.isEverything, state.references)
        }
    }
}
#endif

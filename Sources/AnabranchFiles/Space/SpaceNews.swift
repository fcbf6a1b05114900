import AnabranchClient
import AnabranchCore
import Foundation
import Synchronization

/// The files and folders that the store has changed, and that the space has not looked at yet.
final class SpaceNews: Sendable {
    private struct State {
        var noted: [UUID: SpaceChange.Origin] = [:]
        var isAll = false
    }

    /// Rings when there is something.
    let bell = Bell()
    private let state = Mutex(State())

    /// - Parameter objects: nil if everything may have changed.
    func add(_ objects: [ObjectReference]?, isLocal: Bool) {
        state.withLock { state in
            guard let objects else {
                state.isAll = true
                return
            }
            let origin: SpaceChange.Origin = isLocal ? .local : .remote
            for object in objects {
                guard case .uuid(let bytes) = object.key else { continue }
                let key = UUID(bytes)
                state.noted[key] = state.noted[key].map { $0 == origin ? origin : .both } ?? origin
            }
        }
        bell.ring()
    }

    func take() -> (noted: [UUID: SpaceChange.Origin], isAll: Bool) {
        state.withLock { state in
            defer { state = State() }
            return (state.noted, state.isAll)
        }
    }

    func putBack(_ noted: [UUID: SpaceChange.Origin], isAll: Bool) {
        state.withLock { state in
            state.isAll = state.isAll || isAll
            state.noted.merge(noted) { $0 == $1 ? $0 : .both }
        }
    }
}

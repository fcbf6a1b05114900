import AnabranchChunks
import Foundation
import Synchronization

/// Tells an observer where a transfer begins, ends, or is kept from going on; progress alone does not count as a
/// change.
final class StatusTurns: Sendable {
    private struct Turn: Equatable {
        let isMoving: Bool
        let issue: FileIssue.Kind?
    }

    private let last = Mutex<[TransferBoard.Way: Turn]>([:])
    private let observer: SpaceHub.Observer
    /// The observer may outlive its space.
    private let space: @Sendable () -> FileSpace?

    init(_ space: FileSpace, _ observer: SpaceHub.Observer) {
        self.observer = observer
        self.space = { [weak space] in space }
    }

    @Sendable func tell(_ way: TransferBoard.Way?) {
        guard let way, let space = space() else { return }
        let turn = space.board.transfer(way).map { Turn(isMoving: $0.isMoving, issue: $0.issue?.kind) }
        let isNew = last.withLock { last in
            guard last[way] != turn else { return false }
            last[way] = turn
            return true
        }
        guard isNew else { return }
        for (key, path) in space.files(of: way) {
            observer.add(SpaceChange(path: path, key: key, kind: .statusChanged, origin: .local))
        }
    }
}

extension FileSpace {
    /// The files whose content is on its way, and where they are shown.
    fileprivate func files(of way: TransferBoard.Way) -> [(UUID, SpacePath)] {
        state.withLock { state in
            let keys: [UUID] =
                switch way {
                case .upload(let key): [key]
                case .download(let content): state.contents.filter { $0.value.id == content }.map(\.key)
                }
            return keys.compactMap { key in state.tree.path(of: key).map { (key, $0) } }
        }
    }
}

import AnabranchCore
import AnabranchHistory
import Synchronization

/// A store that at times commits and then fails to say so.
final class ForgetfulStore: HistoryStore {
    private let base = InMemoryStore()
    let isForgetful = Mutex(false)

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile { try base.open(path) }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try base.contains(path) }

    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try base.read(file, body)
    }

    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph { try base.state(of: file) }

    func commit(_ commits: [Commit]) throws(HistoryError) {
        try base.commit(commits)
        if isForgetful.withLock({ $0 }) { throw HistoryError(.storeFailed, "the answer was lost") }
    }
}

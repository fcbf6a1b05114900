import AnabranchCore
import AnabranchHistory
import Synchronization

/// A store of one's own: it counts what another one is told to write.
final class CountingStore: HistoryStore {
    private let base: any HistoryStore
    private let count = Mutex(0)

    init(_ base: any HistoryStore) { self.base = base }

    /// The number of log entries that were written.
    var entries: Int { count.withLock { $0 } }

    func commit(_ commits: [Commit]) throws(HistoryError) {
        try base.commit(commits)
        let new = commits.reduce(0) { $0 + $1.entries.count }
        count.withLock { $0 += new }
    }

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile { try base.open(path) }

    func close(_ file: SyncedFileID, _ lease: Lease) { base.close(file, lease) }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try base.contains(path) }

    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try base.read(file, body)
    }

    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph { try base.state(of: file) }

    func frozenState(of file: SyncedFileID) throws(HistoryError) -> FrozenState? { try base.frozenState(of: file) }

    func maintain(at time: UInt64, while shouldContinue: () -> Bool) throws(HistoryError) {
        try base.maintain(at: time, while: shouldContinue)
    }

    func freeDeleted(while shouldContinue: () -> Bool) throws(HistoryError) -> Bool {
        try base.freeDeleted(while: shouldContinue)
    }

    func recordedTime() throws(HistoryError) -> UInt64? { try base.recordedTime() }

    func recordTime(_ time: UInt64) throws(HistoryError) { try base.recordTime(time) }

    var shardCount: Int { base.shardCount }

    var isInMemory: Bool { base.isInMemory }

    var freeBytes: Int? { base.freeBytes }

    var usedBytes: Int? { base.usedBytes }

    var suspects: (any UploadSuspects)? { base.suspects }
}

import AnabranchCore
import Synchronization

@testable import AnabranchHistory

/// The shared store of a node that another one overtakes: before a reading, or before commits of entries, the other one
/// adds an entry without changeset to the log.
final class OvertakenStore: ViewStore {
    private let base = InMemoryStore(isShared: true)
    private let left = Mutex((readings: 0, commits: 0))

    /// The number of the next readings before which that happens.
    var readingsLeft: Int {
        get { left.withLock { $0.readings } }
        set { left.withLock { $0.readings = newValue } }
    }

    /// The same of commits of entries.
    var commitsLeft: Int {
        get { left.withLock { $0.commits } }
        set { left.withLock { $0.commits = newValue } }
    }

    var isShared: Bool { true }

    var isInMemory: Bool { true }

    /// Does what another node does.
    private func write(_ file: SyncedFileID) throws(HistoryError) {
        let lease = try base.open(VirtualPath("app")).lease
        let head = try base.read(file) { view throws(HistoryError) in try view.head() }, version = head.version + 1
        var commit = Commit(file: file, lease: lease, head: head)
        commit.entries = [
            LogEntry(
                version: version, salt: 1, origin: 0, clientVersion: 0, timestamp: 1,
                cumulativeSize: head.cumulativeSize, changeset: [])
        ]
        commit.state = StateUpdate(version: version, after: try base.state(of: file), changes: StateChanges())
        try base.commit([commit])
    }

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile { try base.open(path) }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try base.contains(path) }

    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        if readingsLeft > 0 {
            readingsLeft -= 1
            try write(file)
        }
        return try base.read(file, body)
    }

    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph { try base.state(of: file) }

    func commit(_ commits: [Commit]) throws(HistoryError) {
        for commit in commits where !commit.entries.isEmpty && commitsLeft > 0 {
            commitsLeft -= 1
            try write(commit.file)
        }
        try base.commit(commits)
    }

    func views(of file: SyncedFileID) throws(HistoryError) -> [StoredView] { try base.views(of: file) }

    func view(of file: SyncedFileID, _ ident: ClientFileID) throws(HistoryError) -> StoredView? {
        try base.view(of: file, ident)
    }

    func viewFields(of file: SyncedFileID) throws(HistoryError) -> [ViewField] { try base.viewFields(of: file) }

    func viewEntries(
        of file: SyncedFileID, _ ident: ClientFileID, _ numbers: ClosedRange<UInt64>
    ) throws(HistoryError) -> [ViewEntry] {
        try base.viewEntries(of: file, ident, numbers)
    }

    func ingested(
        of file: SyncedFileID, after number: UInt64, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [IngestedObject] {
        try base.ingested(of: file, after: number, countMax: countMax, byteBudget: byteBudget)
    }

    func ingestedBytes(of file: SyncedFileID) throws(HistoryError) -> [ExactString?: UInt64] {
        try base.ingestedBytes(of: file)
    }
}

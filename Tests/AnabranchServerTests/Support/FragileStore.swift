import AnabranchCore
import AnabranchHistory
import Synchronization

/// A store whose disk can be full.
final class FragileStore: HistoryStore {
    enum Operation { case open, read, commit }

    private let store = InMemoryStore()
    private let failing = Mutex<Set<Operation>>([])
    /// Commits of this file alone fail, and so do those that it is part of.
    private let damaged = Mutex<SyncedFileID?>(nil)

    func fail(_ operations: Operation...) { failing.withLock { $0 = Set(operations) } }

    func damage(_ path: VirtualPath) throws(HistoryError) {
        let id = try store.open(path).id
        damaged.withLock { $0 = id }
    }

    private func check(_ operation: Operation) throws(HistoryError) {
        if failing.withLock({ $0.contains(operation) }) { throw HistoryError(.storeFailed, "the disk is full") }
    }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool {
        try check(.open)
        return try store.contains(path)
    }

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile {
        try check(.open)
        return try store.open(path)
    }

    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try check(.read)
        return try store.read(file, body)
    }

    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        try check(.read)
        return try store.state(of: file)
    }

    func commit(_ commits: [Commit]) throws(HistoryError) {
        try check(.commit)
        if let id = damaged.withLock({ $0 }), commits.contains(where: { $0.file == id }) {
            throw HistoryError(.storeDamaged, "a page does not match its checksum")
        }
        try store.commit(commits)
    }
}

extension FragileStore: HistoryCatalog {
    func checkCommit() throws(HistoryError) { try check(.commit) }

    func files(after path: VirtualPath?, countMax: Int) throws(HistoryError) -> [CatalogFile] {
        try store.files(after: path, countMax: countMax)
    }

    func files(of user: String, after path: VirtualPath?, countMax: Int) throws(HistoryError) -> [UserFile] {
        try store.files(of: user, after: path, countMax: countMax)
    }

    func file(_ path: VirtualPath) throws(HistoryError) -> CatalogFile? { try store.file(path) }

    func id(of path: VirtualPath) -> SyncedFileID? { store.id(of: path) }

    func clientFiles(
        of path: VirtualPath, after ident: ClientFileID, countMax: Int
    ) throws(HistoryError) -> [ClientFile] {
        try store.clientFiles(of: path, after: ident, countMax: countMax)
    }

    func entries(
        of path: VirtualPath, after version: ServerVersion, countMax: Int
    ) throws(HistoryError) -> [CatalogEntry] {
        try store.entries(of: path, after: version, countMax: countMax)
    }

    func recordTotals(of path: VirtualPath?) throws(HistoryError) -> [RecordTotal] {
        try store.recordTotals(of: path)
    }

    func stateBytes(of path: VirtualPath) throws(HistoryError) -> UInt64 { try store.stateBytes(of: path) }

    var writeAheadLogBytes: Int { 0 }
}

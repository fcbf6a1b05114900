import AnabranchCore
import Synchronization

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Everything that a store has of a synced file.
struct StoredHistory: Equatable {
    var head: FileHead
    var log: [LogEntry]
    var clientFiles: [ClientFile]
    var reciprocals: [[ReciprocalChangeset]]
    var generations: [Generation]
    var archive: [LogEntry]
    var views: [StoredView]
    var ingested: [IngestedObject]

    /// Nil if there is no such file.
    init?(_ path: VirtualPath, in store: SQLiteStore) throws(HistoryError) {
        guard try store.file(path) != nil else { return nil }
        let file = try store.open(path)
        defer { store.close(file.id, file.lease) }
        try self.init(file.id, in: store)
    }

    init(_ file: SyncedFileID, in store: SQLiteStore) throws(HistoryError) {
        self = try store.read(file) { view throws(HistoryError) in try StoredHistory(view) }
        views = try store.views(of: file)
        ingested = try store.ingested(of: file, after: 0, countMax: 10_000, byteBudget: .max)
    }

    private init(_ view: any FileView) throws(HistoryError) {
        (views, ingested) = ([], [])
        head = try view.head()
        let all = VersionRange(after: 0, through: .largest)
        log = try view.entries(in: all, excludingOrigin: nil, byteBudget: .max)
        clientFiles = try view.clientFiles(after: 1, countMax: 10_000)
        reciprocals = []
        for row in clientFiles { reciprocals.append(try view.reciprocals(of: row.ident, in: all)) }
        generations = try view.generations()
        archive = []
        while true {
            let older = try view.archivedEntries(upTo: archive.first.map { $0.version - 1 } ?? .largest)
            if older.isEmpty { break }
            archive = older + archive
        }
    }
}

/// The acknowledged states of one synced file: one after each commit that returned.
final class Ledger: Sendable {
    /// The first one is before the first commit.
    private let states = Mutex<[StoredHistory?]>([nil])

    /// How many commits have returned, and one.
    var count: Int { states.withLock(\.count) }

    func record(_ state: StoredHistory) { states.withLock { $0.append(state) } }

    /// The states that a store may have that was left when `count` was what is given: all of the commits that had
    /// returned then, or in addition the one that was being made.
    func mayBe(_ found: StoredHistory?, at count: Int) -> Bool {
        states.withLock { states in states[(count - 1)...min(count, states.count - 1)].contains(found) }
    }
}

/// A SQLite store that keeps a ledger of one synced file.
final class LedgerStore: HistoryStore {
    let base: SQLiteStore
    private let ledger: Ledger
    private let afterCommit: @Sendable (SQLiteStore) throws -> Void

    /// - Parameter afterCommit: is called after each commit that has returned.
    init(_ base: SQLiteStore, _ ledger: Ledger, afterCommit: @escaping @Sendable (SQLiteStore) throws -> Void) {
        (self.base, self.ledger, self.afterCommit) = (base, ledger, afterCommit)
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

    func commit(_ commits: [Commit]) throws(HistoryError) {
        try base.commit(commits)
        guard let file = commits.first?.file else { return }
        ledger.record(try StoredHistory(file, in: base))
        try translatingErrors { try afterCommit(base) }
    }
}

extension LedgerStore: ViewStore {
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

import AnabranchCore
import AnabranchHistory
import Synchronization

/// The server's store, which outlives the server's process, and fails, or ends the process, when it is told to. What is
/// committed is watched.
final class SimulatedStore: ViewStore {
    /// What happens to a call.
    enum Trouble {
        /// It fails, and has done nothing.
        case fails
        /// It has done its work, and fails all the same.
        case failsLate
        /// The process ends before it, or behind it.
        case ends, endsBehind
    }

    private struct Planned {
        var trouble: (callsBefore: Int, Trouble)?
        /// After so many turns there is one in which nothing can be read.
        var turnsBeforeSilence: Int?
        var isFull = false
        /// The process has ended: whatever it still does comes to nothing.
        var hasEnded = false
        var paths: [SyncedFileID: VirtualPath] = [:]
        var happened: [String] = []
        var commits: [(path: VirtualPath, commit: Commit)] = []
    }

    private let inner: InMemoryStore
    private let planned = Mutex(Planned())
    let isInMemory: Bool

    init(_ inner: InMemoryStore, isInMemory: Bool) {
        self.inner = inner
        self.isInMemory = isInMemory
    }

    // MARK: What happens to it

    /// One of the next calls meets trouble.
    func plan(_ trouble: Trouble, behind calls: Int) { planned.withLock { $0.trouble = (calls, trouble) } }

    /// In one of the next turns nothing can be read. Not one call alone: which it is would be a matter of chance.
    func planSilence(behind turns: Int) { planned.withLock { $0.turnsBeforeSilence = turns } }

    func beginTurn() {
        planned.withLock { planned in
            guard let turns = planned.turnsBeforeSilence else { return }
            planned.turnsBeforeSilence = turns < 0 ? nil : turns - 1
        }
    }

    /// Nothing meets trouble any more.
    func heal() {
        planned.withLock { planned in
            planned.trouble = nil
            planned.turnsBeforeSilence = nil
            planned.isFull = false
        }
    }

    func fill(_ isFull: Bool) { planned.withLock { $0.isFull = isFull } }

    var hasEnded: Bool { planned.withLock { $0.hasEnded } }

    /// The trouble that calls have met since this was asked.
    func takeHappened() -> [String] {
        planned.withLock { planned in
            defer { planned.happened = [] }
            return planned.happened
        }
    }

    /// What was committed since this was asked.
    func takeCommits() -> [(path: VirtualPath, commit: Commit)] {
        planned.withLock { planned in
            defer { planned.commits = [] }
            return planned.commits
        }
    }

    /// The same store for the next process.
    func reopened() -> SimulatedStore { SimulatedStore(inner, isInMemory: isInMemory) }

    /// What a backup has, and a store that was made of one.
    func backup() -> InMemoryStore { inner.copy() }

    /// For those who look, and are no part of the simulation.
    var content: InMemoryStore { inner }

    /// - Returns: whether the call takes place; and what is thrown behind it.
    private func begin(isCommit: Bool = false) throws(HistoryError) -> HistoryError? {
        let trouble = planned.withLock { planned -> Trouble? in
            if planned.hasEnded { return .ends }
            if planned.isFull, isCommit {
                planned.happened.append("diskFull")
                return .fails
            }
            if planned.turnsBeforeSilence == -1, !isCommit {
                planned.happened.append("serverStoreError")
                return .fails
            }
            guard let (calls, trouble) = planned.trouble else { return nil }
            // Only a commit can be done and fail, or be what a process ends behind.
            guard calls == 0, isCommit || trouble == .ends else {
                planned.trouble = (max(0, calls - 1), trouble)
                return nil
            }
            planned.trouble = nil
            switch trouble {
            case .fails: planned.happened.append("serverStoreError")
            case .failsLate: planned.happened.append("lateStoreError")
            case .ends, .endsBehind: planned.happened.append("serverCrash")
            }
            planned.hasEnded = trouble == .ends || trouble == .endsBehind
            return trouble
        }
        switch trouble {
        case nil: return nil
        case .fails?, .ends?: throw HistoryError(.storeFailed, "the disk has failed")
        case .failsLate?, .endsBehind?: return HistoryError(.storeFailed, "the disk has failed, perhaps too late")
        }
    }

    // MARK: The store

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile {
        _ = try begin()
        let opened = try inner.open(path)
        planned.withLock { $0.paths[opened.id] = path }
        return opened
    }

    func close(_ file: SyncedFileID, _ lease: Lease) { inner.close(file, lease) }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool {
        _ = try begin()
        return try inner.contains(path)
    }

    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        _ = try begin()
        return try inner.read(file, body)
    }

    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        _ = try begin()
        return try inner.state(of: file)
    }

    func frozenState(of file: SyncedFileID) throws(HistoryError) -> FrozenState? {
        _ = try begin()
        return try inner.frozenState(of: file)
    }

    func commit(_ commits: [Commit]) throws(HistoryError) {
        let failure = try begin(isCommit: true)
        try inner.commit(commits)
        planned.withLock { planned in
            for commit in commits {
                if let path = planned.paths[commit.file] { planned.commits.append((path, commit)) }
            }
        }
        if let failure { throw failure }
    }

    func maintain(at time: UInt64, while goesOn: () -> Bool) throws(HistoryError) {
        try inner.maintain(at: time, while: goesOn)
    }

    func notedTime() throws(HistoryError) -> UInt64? { try inner.notedTime() }

    func noteTime(_ time: UInt64) throws(HistoryError) { try inner.noteTime(time) }

    func views(of file: SyncedFileID) throws(HistoryError) -> [StoredView] {
        _ = try begin()
        return try inner.views(of: file)
    }

    func view(of file: SyncedFileID, _ ident: ClientFileID) throws(HistoryError) -> StoredView? {
        _ = try begin()
        return try inner.view(of: file, ident)
    }

    func viewFields(of file: SyncedFileID) throws(HistoryError) -> [ViewField] {
        _ = try begin()
        return try inner.viewFields(of: file)
    }

    func viewEntries(
        of file: SyncedFileID, _ ident: ClientFileID, _ numbers: ClosedRange<UInt64>
    ) throws(HistoryError) -> [ViewEntry] {
        _ = try begin()
        return try inner.viewEntries(of: file, ident, numbers)
    }

    func ingested(
        of file: SyncedFileID, after number: UInt64, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [IngestedObject] {
        try inner.ingested(of: file, after: number, countMax: countMax, byteBudget: byteBudget)
    }

    func ingestedBytes(of file: SyncedFileID) throws(HistoryError) -> [ExactString?: UInt64] {
        try inner.ingestedBytes(of: file)
    }
}

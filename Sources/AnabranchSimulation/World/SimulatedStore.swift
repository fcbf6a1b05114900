import AnabranchCore
import AnabranchHistory
import Synchronization

/// The server's store, which outlives the server's process, and fails or ends the process as planned. It records the
/// commits.
final class SimulatedStore: ViewStore {
    /// A failure that a call of the store meets.
    enum StoreFault {
        /// It fails, and has done nothing.
        case fails
        /// It has done its work, but fails all the same.
        case failsLate
        /// The process ends before the call, or after it.
        case ends, endsBehind
    }

    private struct Planned {
        var storeFault: (callsBefore: Int, StoreFault)?
        /// The number of turns before one in which nothing can be read.
        var turnsBeforeSilence: Int?
        var isFull = false
        /// True once the process has ended: whatever it still does has no effect.
        var hasEnded = false
        var paths: [SyncedFileID: VirtualPath] = [:]
        var happened: [String] = []
        var commits: [(path: VirtualPath, commit: Commit)] = []
    }

    private let content: Mutex<InMemoryStore>
    private let planned = Mutex(Planned())
    let isInMemory: Bool
    let isShared: Bool

    init(_ inner: InMemoryStore, isInMemory: Bool) {
        content = Mutex(inner)
        self.isInMemory = isInMemory
        isShared = inner.isShared
    }

    private var inner: InMemoryStore { content.withLock { $0 } }

    // MARK: Faults

    /// Plans a fault for the first call that can meet it after `calls` others.
    func plan(_ storeFault: StoreFault, after calls: Int) { planned.withLock { $0.storeFault = (calls, storeFault) } }

    /// Plans a turn in which nothing can be read, after `turns` others. A whole turn, since which call a single failure
    /// met would be a matter of chance.
    func planSilence(after turns: Int) { planned.withLock { $0.turnsBeforeSilence = turns } }

    func beginTurn() {
        planned.withLock { planned in
            guard let turns = planned.turnsBeforeSilence else { return }
            planned.turnsBeforeSilence = turns < 0 ? nil : turns - 1
        }
    }

    /// Ends all faults.
    func heal() {
        planned.withLock { planned in
            planned.storeFault = nil
            planned.turnsBeforeSilence = nil
            planned.isFull = false
        }
    }

    func fill(_ isFull: Bool) { planned.withLock { $0.isFull = isFull } }

    var hasEnded: Bool { planned.withLock { $0.hasEnded } }

    /// Takes the faults that calls have met since the last call of this function.
    func takeHappened() -> [String] {
        planned.withLock { planned in
            defer { planned.happened = [] }
            return planned.happened
        }
    }

    /// Takes the commits that were made since the last call of this function.
    func takeCommits() -> [(path: VirtualPath, commit: Commit)] {
        planned.withLock { planned in
            defer { planned.commits = [] }
            return planned.commits
        }
    }

    /// Returns the same store for the next process.
    func reopened() -> SimulatedStore { SimulatedStore(inner, isInMemory: isInMemory) }

    /// Replaces the content under a process that goes on.
    func restore(_ restored: InMemoryStore) { content.withLock { $0 = restored } }

    /// - Returns: the error to throw once the call has done its work; nil if it succeeds.
    /// - Throws: if the call must not do its work.
    private func begin(isCommit: Bool = false) throws(HistoryError) -> HistoryError? {
        let storeFault = planned.withLock { planned -> StoreFault? in
            if planned.hasEnded { return .ends }
            if planned.isFull, isCommit {
                planned.happened.append("diskFull")
                return .fails
            }
            if planned.turnsBeforeSilence == -1, !isCommit {
                planned.happened.append("serverStoreError")
                return .fails
            }
            guard let (calls, storeFault) = planned.storeFault else { return nil }
            // Only a commit can fail after it is done, or be followed by the end of the process.
            guard calls == 0, isCommit || storeFault == .ends else {
                planned.storeFault = (max(0, calls - 1), storeFault)
                return nil
            }
            planned.storeFault = nil
            switch storeFault {
            case .fails: planned.happened.append("serverStoreError")
            case .failsLate: planned.happened.append("lateStoreError")
            case .ends, .endsBehind: planned.happened.append("serverCrash")
            }
            planned.hasEnded = storeFault == .ends || storeFault == .endsBehind
            return storeFault
        }
        switch storeFault {
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

    func maintain(at time: UInt64, while shouldContinue: () -> Bool) throws(HistoryError) {
        try inner.maintain(at: time, while: shouldContinue)
    }

    func recordedTime() throws(HistoryError) -> UInt64? { try inner.recordedTime() }

    func recordTime(_ time: UInt64) throws(HistoryError) { try inner.recordTime(time) }

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

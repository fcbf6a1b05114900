import AnabranchCore
import AnabranchHistory
import Foundation
import Metrics
import NIOPosix
import Synchronization

/// The queues that store commits, one for each shard, so that several shards can be flushed at the same time, on shared
/// threads. Commits that arrive while a shard waits or is flushed are stored together afterwards, in one transaction.
/// So with few threads there are fewer and larger transactions, each of which costs about as much as one of its
/// commits.
final class Committers: Sendable {
    typealias Finish = @Sendable (HistoryError?) -> Void

    private let committers: [Committer]
    private let threads: NIOThreadPool

    init(_ store: any HistoryStore, threads count: Int, _ metrics: SyncMetrics) {
        let threads = NIOThreadPool(numberOfThreads: min(count, store.shardCount))
        threads.start()
        self.threads = threads
        committers = (0..<store.shardCount).map { _ in Committer(store, threads, metrics) }
    }

    /// - Parameters:
    ///   - commits: the commits, of files of one shard.
    ///   - finish: called on one of the threads when they are stored, or with the reason why none is.
    func store(_ commits: [Commit], then finish: @escaping Finish) {
        guard let shard = commits.first?.file.shard else { return finish(nil) }
        committers[shard].store(commits, then: finish)
    }

    /// Ends the threads. No commit may be waiting any more.
    func shutDown() async throws { try await threads.shutdownGracefully() }
}

private final class Committer: Sendable {
    private typealias Item = (commits: [Commit], finish: Committers.Finish)

    private struct Waiting {
        var items: [Item] = []
        var isScheduled = false
    }

    /// The approximate limit of one transaction, in bytes; it ends with the commit that exceeds it. So small commits do
    /// not wait for all large ones.
    static let groupBytesMax = 4 << 20

    private let store: any HistoryStore
    private let metrics: SyncMetrics
    private let waiting = Mutex(Waiting())
    private let threads: NIOThreadPool

    init(_ store: any HistoryStore, _ threads: NIOThreadPool, _ metrics: SyncMetrics) {
        self.store = store
        self.threads = threads
        self.metrics = metrics
    }

    func store(_ commits: [Commit], then finish: @escaping Committers.Finish) {
        let isFirst = waiting.withLock { waiting in
            waiting.items.append((commits, finish))
            defer { waiting.isScheduled = true }
            return !waiting.isScheduled
        }
        if isFirst { schedule() }
    }

    private func schedule() {
        threads.submit { [self] state in
            let group = takeGroup()
            if case .active = state { store(group[...]) } else { fail(group) }
            if shouldContinue() { schedule() }
        }
    }

    private func takeGroup() -> [Item] {
        waiting.withLock { waiting in
            var bytes = 0
            let group = waiting.items.prefix { item in
                defer { bytes += item.commits.reduce(0) { $0 + $1.byteCount } }
                return bytes < Self.groupBytesMax
            }
            waiting.items.removeFirst(group.count)
            return Array(group)
        }
    }

    /// True if there is more to store; it is scheduled after the other shards that wait.
    private func shouldContinue() -> Bool {
        waiting.withLock { waiting in
            waiting.isScheduled = !waiting.items.isEmpty
            return waiting.isScheduled
        }
    }

    /// Stores all in one transaction. If one does not fit, it is left out; if the transaction fails otherwise, each
    /// half is stored in one of its own, so that a file that fails does not stop the others.
    /// - Parameter failure: why the transaction before has failed, whose commits may have been made all the same: one
    ///   that does not fit now may have met itself, so nobody may make it again.
    private func store(_ group: ArraySlice<Item>, after failure: HistoryError? = nil) {
        metrics.transactions.increment()
        do throws(HistoryError) {
            try store.commit(group.flatMap(\.commits))
            for item in group { item.finish(nil) }
        } catch {
            let (rest, failed) = group.divided { $0.commits.contains(where: error.concerns) }
            if error.code == .conflict, !failed.isEmpty {
                metrics.commitConflicts.increment(by: Int64(failed.count))
                for item in failed { item.finish(failure ?? error) }
                if !rest.isEmpty { store(rest[...], after: failure) }
                return
            }
            guard group.count > 1 else { return group.forEach { $0.finish(error) } }
            let middle = group.startIndex + group.count / 2
            store(group[..<middle], after: error)
            store(group[middle...], after: error)
        }
    }

    private func fail(_ group: [Item]) {
        for item in group { item.finish(HistoryError(.storeFailed, "the server has ended")) }
    }
}

extension ArraySlice {
    fileprivate func divided(_ isSecond: (Element) -> Bool) -> (first: [Element], second: [Element]) {
        (filter { !isSecond($0) }, filter(isSecond))
    }
}

/// A store whose commits are made by committers while the caller waits. So these flush everything, even rare commits
/// that are not worth a turn of their own.
struct CommittedStore: ViewStore, NewsStore {
    let base: any HistoryStore
    let committers: Committers

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile { try base.open(path) }

    func views(of file: SyncedFileID) throws(HistoryError) -> [StoredView] {
        guard let base = base as? any ViewStore else {
            throw HistoryError(.storeUnusable, "the store keeps no views of flexible files")
        }
        return try base.views(of: file)
    }

    func view(of file: SyncedFileID, _ ident: ClientFileID) throws(HistoryError) -> StoredView? {
        try (base as? any ViewStore)?.view(of: file, ident)
    }

    func viewFields(of file: SyncedFileID) throws(HistoryError) -> [ViewField] {
        try (base as? any ViewStore)?.viewFields(of: file) ?? []
    }

    func viewEntries(
        of file: SyncedFileID, _ ident: ClientFileID, _ numbers: ClosedRange<UInt64>
    ) throws(HistoryError) -> [ViewEntry] {
        guard let base = base as? any ViewStore else { return [] }
        return try base.viewEntries(of: file, ident, numbers)
    }

    func ingested(
        of file: SyncedFileID, after number: UInt64, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [IngestedObject] {
        guard let base = base as? any ViewStore else { return [] }
        return try base.ingested(of: file, after: number, countMax: countMax, byteBudget: byteBudget)
    }

    func ingestedBytes(of file: SyncedFileID) throws(HistoryError) -> [ExactString?: UInt64] {
        guard let base = base as? any ViewStore else { return [:] }
        return try base.ingestedBytes(of: file)
    }

    func close(_ file: SyncedFileID, _ lease: Lease) { base.close(file, lease) }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try base.contains(path) }

    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try base.read(file, body)
    }

    func readNews(of file: SyncedFileID, _ request: NewsRequest) throws(HistoryError) -> FileNews {
        try base.news(of: file, request)
    }

    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph { try base.state(of: file) }

    func frozenState(of file: SyncedFileID) throws(HistoryError) -> FrozenState? { try base.frozenState(of: file) }

    func commit(_ commits: [Commit]) throws(HistoryError) {
        let outcome = Mutex<HistoryError?>(nil), isDone = DispatchSemaphore(value: 0)
        committers.store(commits) { failure in
            outcome.withLock { $0 = failure }
            isDone.signal()
        }
        isDone.wait()
        if let failure = outcome.withLock({ $0 }) { throw failure }
    }

    func maintain(at time: UInt64, while shouldContinue: () -> Bool) throws(HistoryError) {
        try base.maintain(at: time, while: shouldContinue)
    }

    func freeDeleted(while shouldContinue: () -> Bool) throws(HistoryError) -> Bool {
        try base.freeDeleted(while: shouldContinue)
    }

    func recordedTime() throws(HistoryError) -> UInt64? { try base.recordedTime() }

    func recordTime(_ time: UInt64) throws(HistoryError) { try base.recordTime(time) }

    var location: String? { base.location }

    var freeBytes: Int? { base.freeBytes }

    var usedBytes: Int? { base.usedBytes }

    var isShared: Bool { base.isShared }

    func changed(since heads: [SyncedFileID: FileHead]) throws(HistoryError) -> [SyncedFileID] {
        try base.changed(since: heads)
    }

    var isInMemory: Bool { base.isInMemory }

    var shardCount: Int { base.shardCount }

    var suspects: (any UploadSuspects)? { base.suspects }
}

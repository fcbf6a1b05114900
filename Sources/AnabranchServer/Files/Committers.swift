import AnabranchCore
import AnabranchHistory
import Foundation
import Metrics
import NIOPosix
import Synchronization

/// The threads that store commits: one for each shard, so that each can be flushed while others are. What comes while a
/// shard is flushed is stored together then, in one transaction.
final class Committers: Sendable {
    typealias Finish = @Sendable (HistoryError?) -> Void

    private let committers: [Committer]

    init(_ store: any HistoryStore, _ metrics: SyncMetrics) {
        committers = (0..<store.shardCount).map { _ in Committer(store, metrics) }
    }

    /// - Parameters:
    ///   - commits: of files of one shard.
    ///   - finish: is called on the thread of the shard when they are stored, or with the reason why none is.
    func store(_ commits: [Commit], then finish: @escaping Finish) {
        guard let shard = commits.first?.file.shard else { return finish(nil) }
        committers[shard].store(commits, then: finish)
    }

    /// Ends the threads when everything is stored.
    func shutDown() async throws {
        for committer in committers { try await committer.shutDown() }
    }
}

private final class Committer: Sendable {
    private typealias Item = (commits: [Commit], finish: Committers.Finish)

    private struct Waiting {
        var items: [Item] = []
        var isScheduled = false
    }

    /// Of changesets in one transaction, in bytes, and the commit with which they are more: who commits little does
    /// not wait for all who commit much.
    static let groupBytesMax = 4 << 20

    private let store: any HistoryStore
    private let metrics: SyncMetrics
    private let waiting = Mutex(Waiting())
    private let thread = NIOThreadPool(numberOfThreads: 1)

    init(_ store: any HistoryStore, _ metrics: SyncMetrics) {
        self.store = store
        self.metrics = metrics
        thread.start()
    }

    func store(_ commits: [Commit], then finish: @escaping Committers.Finish) {
        let isFirst = waiting.withLock { waiting in
            waiting.items.append((commits, finish))
            defer { waiting.isScheduled = true }
            return !waiting.isScheduled
        }
        guard isFirst else { return }
        thread.submit { [self] state in
            while let group = nextGroup() {
                if case .active = state { store(group) } else { fail(group) }
            }
        }
    }

    private func nextGroup() -> [Item]? {
        waiting.withLock { waiting in
            var bytes = 0
            let group = waiting.items.prefix { item in
                defer { bytes += item.commits.reduce(0) { $0 + $1.changesetBytes } }
                return bytes < Self.groupBytesMax
            }
            waiting.items.removeFirst(group.count)
            if group.isEmpty { waiting.isScheduled = false }
            return group.isEmpty ? nil : Array(group)
        }
    }

    /// One transaction for all; if it fails, one for each of them, so that a file in trouble does not stop the others.
    private func store(_ group: [Item]) {
        metrics.transactions.increment()
        do throws(HistoryError) {
            try store.commit(group.flatMap(\.commits))
            for item in group { item.finish(nil) }
        } catch {
            guard group.count > 1 else { return group[0].finish(error) }
            for item in group { store([item]) }
        }
    }

    private func fail(_ group: [Item]) {
        for item in group { item.finish(HistoryError(.storeFailed, "the server has ended")) }
    }

    func shutDown() async throws {
        // The promise is kept behind everything that was submitted, and whether or not the task is cancelled.
        await withCheckedContinuation { continuation in thread.submit { _ in continuation.resume() } }
        try await thread.shutdownGracefully()
    }
}

extension Commit {
    /// What of it is changesets, in bytes.
    fileprivate var changesetBytes: Int {
        entries.reduce(0) { $0 + $1.changeset.count } + received.reduce(0) { $0 + $1.changeset.count }
            + reciprocals.reduce(0) { $0 + $1.reciprocal.changeset.count }
    }
}

/// A store whose commits are made by committers, while the caller waits: so everything that is flushed is flushed by
/// them, also what is rare and not worth a turn of its own.
struct CommittedStore: HistoryStore {
    let base: any HistoryStore
    let committers: Committers

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile { try base.open(path) }

    func close(_ file: SyncedFileID, _ lease: Lease) { base.close(file, lease) }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try base.contains(path) }

    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try base.read(file, body)
    }

    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph { try base.state(of: file) }

    func commit(_ commits: [Commit]) throws(HistoryError) {
        let outcome = Mutex<HistoryError?>(nil), isDone = DispatchSemaphore(value: 0)
        committers.store(commits) { failure in
            outcome.withLock { $0 = failure }
            isDone.signal()
        }
        isDone.wait()
        if let failure = outcome.withLock({ $0 }) { throw failure }
    }

    func maintain(at time: UInt64, while goesOn: () -> Bool) throws(HistoryError) {
        try base.maintain(at: time, while: goesOn)
    }

    var isInMemory: Bool { base.isInMemory }

    var shardCount: Int { base.shardCount }

    var suspects: (any UploadSuspects)? { base.suspects }
}

import AnabranchCore
import AnabranchHistory
import Foundation
import Synchronization

/// A store in memory that lets commits in when the test says so.
final class GatedStore: HistoryStore {
    private let store: InMemoryStore
    private let gate = Mutex<DispatchSemaphore?>(nil)
    /// Yields once for each commit that stands before the gate.
    let inbound: AsyncStream<Void>
    private let onArrival: AsyncStream<Void>.Continuation

    /// The number of readings of each file.
    let readings = Mutex<[SyncedFileID: Int]>([:])
    private let refused: Set<VirtualPath>
    private let isForgetful: Bool
    private let refusedFiles = Mutex<Set<SyncedFileID>>([])

    /// - Parameters:
    ///   - refused: the files whose commits fail.
    ///   - isForgetful: whether a transaction of several files fails after it was made.
    init(refusing refused: Set<VirtualPath> = [], isShared: Bool = false, isForgetful: Bool = false) {
        self.refused = refused
        self.isForgetful = isForgetful
        store = InMemoryStore(isShared: isShared)
        (inbound, onArrival) = AsyncStream.makeStream(of: Void.self)
    }

    var isShared: Bool { store.isShared }

    func closeGate() { gate.withLock { $0 = DispatchSemaphore(value: 0) } }

    func openGate() {
        gate.withLock { gate in
            gate?.signal()
            gate = nil
        }
    }

    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile {
        let opened = try store.open(path)
        if refused.contains(path) { refusedFiles.withLock { _ = $0.insert(opened.id) } }
        return opened
    }

    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try store.contains(path) }

    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        readings.withLock { $0[file, default: 0] += 1 }
        return try store.read(file, body)
    }

    func changed(since heads: [SyncedFileID: FileHead]) throws(HistoryError) -> [SyncedFileID] {
        var changed: [SyncedFileID] = []
        for (file, head) in heads {
            let newest = try store.read(file) { view throws(HistoryError) in try view.head() }
            if newest != head { changed.append(file) }
        }
        return changed
    }

    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph { try store.state(of: file) }

    func commit(_ commits: [Commit]) throws(HistoryError) {
        if let gate = gate.withLock({ $0 }) {
            onArrival.yield()
            gate.wait()
            gate.signal()
        }
        let isRefused = refusedFiles.withLock { refused in commits.contains { refused.contains($0.file) } }
        guard !isRefused else { throw HistoryError(.storeFailed, "refused") }
        try store.commit(commits)
        if isForgetful, commits.count > 1 { throw HistoryError(.storeFailed, "the answer was lost") }
    }
}

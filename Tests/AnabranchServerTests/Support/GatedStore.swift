import AnabranchCore
import AnabranchHistory
import Foundation
import Synchronization

/// A store in memory that lets commits in when the test says so.
final class GatedStore: HistoryStore {
    private let store = InMemoryStore()
    private let gate = Mutex<DispatchSemaphore?>(nil)
    /// Yields once for each commit that stands before the gate.
    let inbound: AsyncStream<Void>
    private let onArrival: AsyncStream<Void>.Continuation

    private let refused: Set<VirtualPath>
    private let refusedFiles = Mutex<Set<SyncedFileID>>([])

    /// - Parameter refused: the files whose commits fail.
    init(refusing refused: Set<VirtualPath> = []) {
        self.refused = refused
        (inbound, onArrival) = AsyncStream.makeStream(of: Void.self)
    }

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
        try store.read(file, body)
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
    }
}

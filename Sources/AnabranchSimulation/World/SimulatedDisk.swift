import AnabranchCore
import AnabranchReplica
import AnabranchTesting

/// A client's disk, which outlives the client's process, and fails or ends the process as planned.
final class SimulatedDisk: ReplicaStore {
    enum StoreFault { case fails, ends, endsBehind }

    private var content: ModelReplicaStore
    private var storeFault: (callsBefore: Int, StoreFault)?
    /// True once the process has ended: whatever it still does has no effect.
    private(set) var hasEnded = false
    /// The fault that a call has met; nil once taken.
    private(set) var happened: StoreFault?
    /// True if a backup was restored since the file was made: what its client knows may be lost.
    var isOlderThanRestoration = false

    struct Failure: Error {}

    init(_ content: ModelReplicaStore = ModelReplicaStore()) { self.content = content }

    /// Plans a fault for the first call that can meet it after `calls` others.
    func plan(_ storeFault: StoreFault, after calls: Int) { self.storeFault = (calls, storeFault) }

    /// Cancels the planned fault.
    func cancelPlan() { storeFault = nil }

    /// Returns the same disk for the next process, or a copy of it for a process that has copied its files.
    func reopened() -> SimulatedDisk { with(content) }
    func copy() -> SimulatedDisk { with(content.copy()) }

    private func with(_ content: ModelReplicaStore) -> SimulatedDisk {
        let disk = SimulatedDisk(content)
        disk.isOlderThanRestoration = isOlderThanRestoration
        return disk
    }

    func takeHappened() -> StoreFault? {
        defer { happened = nil }
        return happened
    }

    private func begin(isCommit: Bool = false) throws {
        if hasEnded { throw Failure() }
        guard let (calls, planned) = storeFault else { return }
        guard calls == 0, isCommit || planned != .endsBehind else {
            storeFault = (max(0, calls - 1), planned)
            return
        }
        storeFault = nil
        happened = planned
        if planned == .endsBehind { return }
        hasEnded = planned == .ends
        throw Failure()
    }

    func load() throws -> StoredReplica { try content.load() }

    func changeset(of version: ClientVersion) throws -> [UInt8] {
        try begin()
        return try content.changeset(of: version)
    }

    func reciprocal(of version: ClientVersion) throws -> [UInt8]? {
        try begin()
        return content.reciprocal(of: version)
    }

    func bootstrapParts() throws -> [DownloadedChangeset] {
        try begin()
        return content.bootstrapParts()
    }

    func commit(_ commit: ReplicaCommit) throws {
        try begin(isCommit: true)
        content.commit(commit)
        guard happened == .endsBehind else { return }
        hasEnded = true
        throw Failure()
    }
}

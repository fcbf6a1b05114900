import AnabranchCore
import AnabranchHistory
import AnabranchTesting

@testable import AnabranchReplica

/// A server in memory, and replicas of its file.
struct RecoveryServer {
    let file: SyncedFile

    init() throws { file = try SyncedFile(path: VirtualPath("file"), store: InMemoryStore()) }

    func replica() throws -> Replica<MemoryReplicaStore> {
        var replica = try Replica(MemoryReplicaStore())
        try replica.identify(as: try file.allocateIdents(for: [nil], at: 1)[0])
        return replica
    }

    /// Uploads everything, and downloads everything.
    func exchange(_ replica: inout Replica<MemoryReplicaStore>) throws {
        while let upload = try replica.nextUpload() {
            if let refusal = try file.integrateAtOnce(upload, from: replica.ident)?.refusal { throw refusal }
        }
        try download(&replica)
    }

    func download(_ replica: inout Replica<MemoryReplicaStore>) throws {
        let scan = file.downloads(for: replica.ident, .all)
        try replica.integrate(try scan.download(after: replica.progress.cursor, byteBudget: .max))
    }

    /// A fresh replica that has everything takes the place of another one.
    func reset(_ old: Replica<MemoryReplicaStore>) throws -> (Replica<MemoryReplicaStore>, ReplicaRecovery) {
        var fresh = try replica()
        try download(&fresh)
        let recovery = try fresh.takePlace(of: old, recovers: true, at: 1_000)
        return (fresh, recovery)
    }
}

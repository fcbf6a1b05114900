import AnabranchClient
import AnabranchCore
import AnabranchReplica
import AnabranchTesting
import Foundation

/// A fault in a run.
struct ReplicaFailure: Error, CustomStringConvertible {
    let description: String

    static func require(_ holds: Bool, _ what: @autoclosure () -> String) throws {
        if !holds { throw ReplicaFailure(description: what()) }
    }
}

/// A replica in a file, and one in memory to which the same happens.
final class ReplicaTwins {
    private let path: String
    private(set) var stored: Replica<SQLiteReplicaStore>
    private(set) var memory: Replica<MemoryReplicaStore>

    init(path: String) throws {
        self.path = path
        stored = try Replica(try SQLiteReplicaStore(path: path))
        memory = try Replica(MemoryReplicaStore())
    }

    // MARK: Operations

    /// Carries out an operation on both.
    /// - Returns: its result, which is the same for both.
    @discardableResult
    func both<Value: Equatable>(
        _ name: String, _ onStored: (inout Replica<SQLiteReplicaStore>) throws -> Value,
        _ onMemory: (inout Replica<MemoryReplicaStore>) throws -> Value
    ) throws -> Value {
        let value = try onStored(&stored), twin = try onMemory(&memory)
        try ReplicaFailure.require(value == twin, "\(name): the file gives \(value), memory \(twin)")
        return value
    }

    /// Carries out an operation on both that returns nothing.
    func change(
        _ onStored: (inout Replica<SQLiteReplicaStore>) throws -> Void,
        _ onMemory: (inout Replica<MemoryReplicaStore>) throws -> Void
    ) throws {
        try onStored(&stored)
        try onMemory(&memory)
    }

    /// Makes a local transaction.
    /// - Returns: the changeset; empty if nothing was written or it was not accepted.
    func write(
        at time: ChangesetTime, if isAccepted: ([UInt8]) throws -> Bool, _ body: (WriteTransaction) throws -> Void
    ) throws -> [UInt8] {
        var accepted = false
        let changeset = try both(
            "write",
            { replica in
                try replica.write(
                    at: time,
                    if: { changeset in
                        accepted = try isAccepted(changeset)
                        return accepted
                    }, body
                ).changeset
            }, { try $0.write(at: time, if: { _ in accepted }, body).changeset })
        return accepted ? changeset : []
    }

    func identify(as file: SaltedFileID) throws {
        try change({ try $0.identify(as: file) }, { try $0.identify(as: file) })
    }

    func nextUpload() throws -> Upload? { try both("upload", { try $0.nextUpload() }, { try $0.nextUpload() }) }

    /// Integrates a download. The state in the file may name an object that has its old value again: its row is written
    /// as well.
    func integrate(_ download: Download, as kind: DownloadKind) throws {
        let written = Set(try stored.integrate(download, as: kind).objects)
        let changed = Set(try memory.integrate(download, as: kind).objects)
        try ReplicaFailure.require(
            changed.isSubset(of: written), "download: \(changed.subtracting(written)) are not said to be changed")
    }

    func subscribe(_ subscriptions: [Subscription]) throws -> QueryVersion {
        try both("subscribe", { try $0.subscribe(subscriptions) }, { try $0.subscribe(subscriptions) })
    }

    /// Begins a connection.
    func connect() throws {
        try change(
            { replica in
                try replica.dropBootstrapParts()
                replica.startUploading()
            },
            { replica in
                try replica.dropBootstrapParts()
                replica.startUploading()
            })
    }

    /// Ends the process and begins another one; the stored parts of a bootstrap are there until it connects.
    func reopen() throws {
        try stored.store.close()
        stored = try Replica(try SQLiteReplicaStore(path: path))
        try both("parts", { try $0.store.bootstrapParts() }, { $0.store.bootstrapParts() })
        try connect()
    }

    /// Takes the place of other twins, as in a client reset.
    func takePlace(of other: ReplicaTwins, recovers: Bool, at now: ChangesetTime) throws -> ReplicaRecovery {
        try both(
            "client reset", { try $0.takePlace(of: other.stored, recovers: recovers, at: now) },
            { try $0.takePlace(of: other.memory, recovers: recovers, at: now) })
    }

    func close() throws { try stored.store.close() }

    // MARK: Comparison

    /// Checks that both are in the same state, and that another process reads the same from the file.
    func compare() throws {
        try both("the numbers", { $0.record }, { $0.record })
        try both("the newest change", { $0.newestChange }, { $0.newestChange })
        try both("what waits", { [$0.unacknowledged.changesets, $0.unacknowledged.bytes] }) {
            [$0.unacknowledged.changesets, $0.unacknowledged.bytes]
        }
        let digest = try both("the state", { try StateDigest(of: $0.state) }, { try StateDigest(of: $0.state) })
        let snapshot = try ReplicaReader(path: path).snapshot()
        try ReplicaFailure.require(
            snapshot.record == stored.record && StateDigest(of: snapshot.state) == digest,
            "whoever reads the file sees something else")
    }
}

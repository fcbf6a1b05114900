import AnabranchReplica
import AnabranchTesting
import Synchronization

@testable import AnabranchCore

/// A store of which one call can be made to fail: also of those that read objects of the state.
final class FailingStore<Inner: ReplicaStore>: ReplicaStore {
    private(set) var inner: Inner
    private let failure = PlannedFailure()

    init(_ inner: Inner) { self.inner = inner }

    /// How many calls succeed before one fails; nil if all do, or one has failed.
    var callsUntilFailure: Int? {
        get { failure.callsBefore.withLock { $0 } }
        set { failure.callsBefore.withLock { $0 = newValue } }
    }

    func load() throws -> StoredReplica {
        var stored = try failure.pass { try inner.load() }
        if let rows = stored.state.rows {
            stored.state = try ObjectGraph(rows: FailingRows(inner: rows, failure: failure))
        }
        return stored
    }

    func changeset(of version: ClientVersion) throws -> [UInt8] {
        try failure.pass { try inner.changeset(of: version) }
    }

    func reciprocal(of version: ClientVersion) throws -> [UInt8]? {
        try failure.pass { try inner.reciprocal(of: version) }
    }

    func bootstrapParts() throws -> [DownloadedChangeset] { try failure.pass { try inner.bootstrapParts() } }

    func commit(_ commit: ReplicaCommit) throws { try failure.pass { try inner.commit(commit) } }

    func recordedSlots(of object: ObjectReference) -> Set<Int> { inner.recordedSlots(of: object) }
}

/// Which call fails.
private final class PlannedFailure: Sendable {
    let callsBefore = Mutex<Int?>(nil)

    struct Failure: Error {}

    func pass<Value>(_ body: () throws -> Value) throws -> Value {
        let fails = callsBefore.withLock { left in
            let isNow = left == 0
            left = isNow ? nil : left.map { $0 - 1 }
            return isNow
        }
        if fails { throw Failure() }
        return try body()
    }
}

private struct FailingRows: ObjectRows {
    let inner: any ObjectRows
    let failure: PlannedFailure

    func row(at address: RowAddress) throws -> [UInt8]? { try failure.pass { try inner.row(at: address) } }

    func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int
    ) throws -> [(key: [UInt8], row: [UInt8])] {
        try failure.pass { try inner.objects(of: classID, after: key, limit: limit) }
    }

    func readTogether(_ body: () throws -> Void) throws { try inner.readTogether(body) }
}

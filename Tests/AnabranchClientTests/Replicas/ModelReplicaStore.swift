import AnabranchReplica
import AnabranchTesting
import Synchronization

@testable import AnabranchCore

/// What a store of replicas has to do, said as plainly as possible: it carries out commits on dictionaries, and can be
/// opened again. What another store has stored is compared with it.
struct ModelReplicaStore: ReplicaStore {
    /// A state reads rows as they are now, and not as they were when it was loaded.
    private final class Rows: ObjectRows {
        private let rows = Mutex(MemoryRows())

        func write(_ writes: RowWrites, erasesAll: Bool) {
            rows.withLock { rows in
                if erasesAll { rows = MemoryRows() }
                rows.write(writes)
            }
        }

        func row(at address: RowAddress) throws -> [UInt8]? { try rows.withLock { try $0.row(at: address) } }

        func objects(
            of classID: ClassID, after key: [UInt8]?, limit: Int
        ) throws -> [(key: [UInt8], row: [UInt8])] {
            try rows.withLock { try $0.objects(of: classID, after: key, limit: limit) }
        }
    }

    private var record = ReplicaRecord()
    private let rows = Rows()
    private var log: [ClientVersion: (version: LocalVersion, changeset: [UInt8], reciprocal: [UInt8]?)] = [:]
    private var parts: [DownloadedChangeset] = []

    init() {}

    func load() throws -> StoredReplica {
        StoredReplica(
            record: record, log: log.values.map(\.version).sorted { $0.number < $1.number },
            state: try ObjectGraph(rows: rows))
    }

    func changeset(of version: ClientVersion) throws -> [UInt8] {
        guard let entry = log[version] else { throw ReplicaError(.damaged, "no version \(version)") }
        return entry.changeset
    }

    func reciprocal(of version: ClientVersion) -> [UInt8]? { log[version]?.reciprocal }

    func bootstrapParts() -> [DownloadedChangeset] { parts }

    mutating func commit(_ commit: ReplicaCommit) {
        rows.write(commit.state, erasesAll: commit.erasesState)
        log = log.filter { $0.key > commit.trimmedVersion && !commit.removed.contains($0.key) }
        for (version, changeset) in commit.written where version.number > commit.trimmedVersion {
            log[version.number] = (version, changeset, nil)
        }
        for (version, changeset) in commit.reciprocals { log[version]?.reciprocal = changeset }
        switch commit.bootstrap {
        case .stay: break
        case .go: parts = []
        case .begin(let first): parts = first
        case .come(let more): parts += more
        }
        record = commit.record
    }
}

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

    func needsNote(of object: ObjectReference) -> Bool { inner.needsNote(of: object) }
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

import AnabranchCore
import AnabranchReplica
import AnabranchTesting
import Synchronization

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

/// A store whose next commit can be made to fail.
final class FailingStore<Inner: ReplicaStore>: ReplicaStore {
    private(set) var inner: Inner
    /// How many commits succeed before one fails; nil if all do.
    var commitsUntilFailure: Int?

    init(_ inner: Inner) { self.inner = inner }

    struct Failure: Error {}

    func load() throws -> StoredReplica { try inner.load() }
    func changeset(of version: ClientVersion) throws -> [UInt8] { try inner.changeset(of: version) }
    func reciprocal(of version: ClientVersion) throws -> [UInt8]? { try inner.reciprocal(of: version) }
    func bootstrapParts() throws -> [DownloadedChangeset] { try inner.bootstrapParts() }

    func commit(_ commit: ReplicaCommit) throws {
        if let left = commitsUntilFailure {
            commitsUntilFailure = left > 0 ? left - 1 : nil
            if left == 0 { throw Failure() }
        }
        try inner.commit(commit)
    }
}

package import AnabranchCore
package import AnabranchReplica
import Synchronization

/// The simplest store of replicas: it carries out commits on dictionaries, and can be opened again. The contents of
/// other stores are compared with it.
package struct ModelReplicaStore: ReplicaStore {
    /// Shared rows: a state reads them as they are now, not as they were when it was loaded.
    private final class Rows: ObjectRows {
        private let rows: Mutex<MemoryRows>

        init() { rows = Mutex(MemoryRows()) }

        init(_ other: Rows) { rows = Mutex(other.rows.withLock { $0 }) }

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
    private var rows = Rows()
    private var log: [ClientVersion: (version: LocalVersion, changeset: [UInt8], reciprocal: [UInt8]?)] = [:]
    private var parts: [DownloadedChangeset] = []

    package init() {}

    /// Another store with the present contents of this one.
    package func copy() -> ModelReplicaStore {
        var copy = self
        copy.rows = Rows(rows)
        return copy
    }

    package func load() throws -> StoredReplica {
        StoredReplica(
            record: record, log: log.values.map(\.version).sorted { $0.number < $1.number },
            state: try ObjectGraph(rows: rows))
    }

    package func changeset(of version: ClientVersion) throws -> [UInt8] {
        guard let entry = log[version] else { throw ReplicaError(.damaged, "no version \(version)") }
        return entry.changeset
    }

    package func reciprocal(of version: ClientVersion) -> [UInt8]? { log[version]?.reciprocal }

    package func bootstrapParts() -> [DownloadedChangeset] { parts }

    package mutating func commit(_ commit: ReplicaCommit) {
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

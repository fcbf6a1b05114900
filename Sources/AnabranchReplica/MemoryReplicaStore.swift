public import AnabranchCore

/// Keeps a replica in memory: for tests, for tools, and for data that need not outlive the process. A value, so that a
/// copy of a replica on it is another replica.
public struct MemoryReplicaStore: ReplicaStore, Sendable {
    private var changesets: [ClientVersion: [UInt8]] = [:]
    private var reciprocals: [ClientVersion: [UInt8]] = [:]
    private var changed: [ClientVersion: [UInt64]] = [:]
    private var parts: [DownloadedChangeset] = []

    /// An empty store.
    public init() {}

    /// A new replica, since this store keeps no state and no numbers.
    public func load() -> StoredReplica { StoredReplica() }

    /// See `ReplicaStore`.
    public func changeset(of version: ClientVersion) -> [UInt8] { changesets[version] ?? [] }

    /// See `ReplicaStore`.
    public func reciprocal(of version: ClientVersion) -> [UInt8]? { reciprocals[version] }

    /// See `ReplicaStore`.
    public func changedElements(of version: ClientVersion) -> [UInt64] { changed[version] ?? [] }

    /// See `ReplicaStore`.
    public func bootstrapParts() -> [DownloadedChangeset] { parts }

    /// See `ReplicaStore`. It never fails.
    public mutating func commit(_ commit: ReplicaCommit) {
        if commit.trimmedVersion > 0, !changesets.isEmpty {
            for version in changesets.keys where version <= commit.trimmedVersion { changesets[version] = nil }
            for version in changed.keys where version <= commit.trimmedVersion { changed[version] = nil }
            for version in reciprocals.keys where version <= commit.trimmedVersion { reciprocals[version] = nil }
        }
        for (version, changeset) in commit.written where !changeset.isEmpty { changesets[version.number] = changeset }
        for (version, digests) in commit.changedElements { changed[version] = digests }
        for (version, changeset) in commit.reciprocals { reciprocals[version] = changeset }
        switch commit.bootstrap {
        case .stay: break
        case .go: parts = []
        case .begin(let first): parts = first
        case .come(let more): parts += more
        }
    }
}

import AnabranchCore

/// Finds the log entries that can conflict with an upload, in memory: for each conflict key the versions that write it,
/// newest first, as chains through one array.
struct ConflictKeyIndex {
    private struct Node {
        var key: UInt64
        var version: ServerVersion
        var origin: ClientFileID
        /// The next older node of the same key; −1: none.
        var older: Int
        /// The next older node of the same key with another origin than this one; −1: none. So a reader passes over a
        /// run of its own entries in one step.
        var olderOfOthers: Int
    }

    private var nodes: [Node] = []
    /// The newest node of each key.
    private var newest: [UInt64: Int] = [:]

    /// Inserts an entry. Versions have to arrive in ascending order.
    mutating func insert(_ entry: ConflictKeyEntry) {
        let older = newest.updateValue(nodes.count, forKey: entry.key) ?? -1
        var olderOfOthers = older
        if older >= 0, nodes[older].origin == entry.origin { olderOfOthers = nodes[older].olderOfOthers }
        nodes.append(
            Node(
                key: entry.key, version: entry.version, origin: entry.origin, older: older,
                olderOfOthers: olderOfOthers))
    }

    /// The number of conflict keys, counted once for each entry.
    var count: Int { nodes.count }

    /// The approximate memory that the index occupies, in bytes.
    var byteCount: Int { nodes.count * MemoryLayout<Node>.stride + newest.capacity * 24 }

    /// Forgets the keys that entries up to `version` write. Costs as much as inserting the others.
    mutating func removeAll(through version: ServerVersion) {
        let kept = nodes.drop { $0.version <= version }
        self = ConflictKeyIndex()
        for node in kept {
            insert(ConflictKeyEntry(key: node.key, version: node.version, origin: node.origin))
        }
    }

    /// The versions in `range`, ascending and each once, that write one of `keys` and have another origin.
    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) -> [ServerVersion] {
        var versions: [ServerVersion] = []
        collect(keys, in: range, excludingOrigin: origin, into: &versions)
        return versions.sortedUnique()
    }

    /// Appends the versions in `range` that write one of `keys` and have another origin, unordered, perhaps several
    /// times.
    func collect(
        _ keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID,
        into versions: inout [ServerVersion]
    ) {
        for key in keys {
            var next = newest[key] ?? -1
            while next >= 0, nodes[next].version > range.base {
                if nodes[next].origin == origin {
                    next = nodes[next].olderOfOthers
                } else {
                    if nodes[next].version <= range.last { versions.append(nodes[next].version) }
                    next = nodes[next].older
                }
            }
        }
    }
}

import AnabranchCore

/// Finds the log entries that can meet an upload, in memory: for each hash the versions posted under it, newest first,
/// as chains through one array.
struct TouchIndex {
    private struct Node {
        var version: ServerVersion
        var origin: ClientFileID
        /// The next older node of the same hash, and the next older one with another origin than this one; −1: none.
        /// The latter lets a reader pass over a run of its own entries in one step.
        var older: Int
        var olderOfOthers: Int
    }

    private var nodes: [Node] = []
    private var newest: [UInt64: Int] = [:]

    /// Versions have to arrive in ascending order.
    mutating func insert(_ posting: Posting) {
        let older = newest.updateValue(nodes.count, forKey: posting.hash) ?? -1
        var olderOfOthers = older
        if older >= 0, nodes[older].origin == posting.origin { olderOfOthers = nodes[older].olderOfOthers }
        nodes.append(
            Node(version: posting.version, origin: posting.origin, older: older, olderOfOthers: olderOfOthers))
    }

    /// Appends the versions in `range` that are posted under one of `hashes` and not by `ident`, in no order, perhaps
    /// several times.
    func collect(
        _ hashes: [UInt64], in range: VersionRange, excludingOrigin ident: ClientFileID,
        into versions: inout [ServerVersion]
    ) {
        for hash in hashes {
            var next = newest[hash] ?? -1
            while next >= 0, nodes[next].version > range.base {
                if nodes[next].origin == ident {
                    next = nodes[next].olderOfOthers
                } else {
                    if nodes[next].version <= range.last { versions.append(nodes[next].version) }
                    next = nodes[next].older
                }
            }
        }
    }
}

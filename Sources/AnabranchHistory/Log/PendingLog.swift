import AnabranchCore

/// A log as it will be: what the store has, continued by what a commit in the making adds.
struct PendingLog {
    let view: any FileView
    let head: FileHead
    /// What the commit adds.
    private(set) var entries: [LogEntry] = []
    /// The conflict keys that `entries` write, in their order.
    private(set) var conflictKeys: [ConflictKeyEntry] = []
    /// Has the first `indexedCount` of `conflictKeys`.
    private var index = ConflictKeyIndex()
    private var indexedCount = 0

    init(continuing view: any FileView, head: FileHead) {
        self.view = view
        self.head = head
    }

    var version: ServerVersion { entries.last?.version ?? head.version }

    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry {
        if version > head.version, version <= self.version {
            return entries[Int(version.rawValue - head.version.rawValue) - 1]
        }
        guard let entry = try view.entry(version) else {
            throw HistoryError(.storeDamaged, "log entry \(version) is missing")
        }
        return entry
    }

    /// The versions above `base` that write one of `keys` and have another origin, in no order.
    func versions(
        writing keys: [UInt64], after base: ServerVersion, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        var versions: [ServerVersion] = []
        if base < head.version {
            let range = VersionRange(after: base, through: head.version)
            versions = try view.versions(writing: keys, in: range, excludingOrigin: origin)
        }
        if indexedCount > 0 {
            let range = VersionRange(after: base, through: version)
            index.collect(keys, in: range, excludingOrigin: origin, into: &versions)
        }
        return versions
    }

    /// The versions above `base` of all entries that are not empty and have another origin.
    func versions(
        after base: ServerVersion, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        let range = VersionRange(after: base, through: head.version)
        let added = entries.filter { $0.version > base && $0.origin != origin && !$0.changeset.isEmpty }
        return try view.versions(in: range, excludingOrigin: origin) + added.map(\.version)
    }

    /// Makes the entries that were appended so far findable: needed only before another client's changesets are merged.
    mutating func indexEntries() {
        for entry in conflictKeys[indexedCount...] { index.insert(entry) }
        indexedCount = conflictKeys.count
    }

    /// Appends the entries that one client's changesets became, giving them their versions.
    mutating func append(_ changesets: [MergedChangeset], from origin: ClientFileID, versionSalt: Salt) {
        var cumulativeSize = entries.last?.cumulativeSize ?? head.cumulativeSize
        var version = version
        for merged in changesets {
            version += 1
            cumulativeSize += UInt64(merged.changeset.count)
            entries.append(
                LogEntry(
                    version: version, salt: versionSalt, origin: origin, clientVersion: merged.clientVersion,
                    timestamp: merged.timestamp, cumulativeSize: cumulativeSize, changeset: merged.changeset))
            for key in merged.writes {
                conflictKeys.append(ConflictKeyEntry(key: key, version: version, origin: origin))
            }
        }
    }
}

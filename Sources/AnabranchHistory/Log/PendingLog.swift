import AnabranchCore

/// The entries that a commit in the making adds to a log.
struct AddedEntries {
    private(set) var entries: [LogEntry] = []
    /// The conflict keys that `entries` write, in their order.
    private(set) var conflictKeys: [ConflictKeyEntry] = []
    /// The received changesets of those `entries` that merging has changed.
    private(set) var received: [ReceivedChangeset] = []
    /// Holds the first `indexedCount` of `conflictKeys`.
    private var index = ConflictKeyIndex()
    private var indexedCount = 0

    /// Appends the entries that one client's changesets became, giving them their versions.
    /// - Parameters:
    ///   - uploads: the uploads that had the changesets.
    ///   - time: seconds since 1970.
    mutating func append(
        _ changesets: [MergedChangeset], of uploads: JoinedUploads, after head: FileHead, versionSalt: Salt,
        at time: UInt64
    ) {
        var cumulativeSize = entries.last?.cumulativeSize ?? head.cumulativeSize
        var version = entries.last?.version ?? head.version
        for merged in changesets {
            version += 1
            cumulativeSize += UInt64(merged.changeset.count)
            entries.append(
                LogEntry(
                    version: version, salt: versionSalt, origin: merged.origin, clientVersion: merged.clientVersion,
                    timestamp: merged.timestamp, cumulativeSize: cumulativeSize, changeset: merged.changeset,
                    base: merged.base,
                    uploader: merged.origin == 0 ? .unknown : uploads.uploader(of: merged.clientVersion)))
            if let changeset = merged.received {
                received.append(ReceivedChangeset(version: version, time: time, changeset: changeset))
            }
            for key in merged.writes {
                conflictKeys.append(ConflictKeyEntry(key: key, version: version, origin: merged.origin))
            }
        }
    }

    /// Makes the entries appended so far findable: needed only before another client's changesets are merged.
    mutating func indexEntries() {
        for entry in conflictKeys[indexedCount...] { index.insert(entry) }
        indexedCount = conflictKeys.count
    }

    /// Appends the versions of entries that were made findable.
    func collect(
        _ keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID,
        into versions: inout [ServerVersion]
    ) {
        if indexedCount > 0 { index.collect(keys, in: range, excludingOrigin: origin, into: &versions) }
    }
}

/// A log as it will be: the stored log, continued by the entries that a commit in the making adds. It is valid as long
/// as the view.
struct PendingLog {
    /// The file as it is stored.
    let stored: any FileView
    /// The file as the client whose changesets are merged has to see it.
    var view: any FileView
    let head: FileHead
    /// The entries that the commit adds.
    var added = AddedEntries()

    init(continuing view: any FileView, head: FileHead) {
        (stored, self.view) = (view, view)
        self.head = head
    }

    var version: ServerVersion { added.entries.last?.version ?? head.version }

    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry {
        if version > head.version, version <= self.version {
            return added.entries[Int(version.rawValue - head.version.rawValue) - 1]
        }
        return try view.requiredEntry(version)
    }

    /// The versions above `base` that write one of `keys` and have another origin, unordered.
    func versions(
        writing keys: [UInt64], after base: ServerVersion, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        var versions: [ServerVersion] = []
        if base < head.version {
            let range = VersionRange(after: base, through: head.version)
            versions = try view.versions(writing: keys, in: range, excludingOrigin: origin)
        }
        added.collect(
            keys, in: VersionRange(after: base, through: version), excludingOrigin: origin, into: &versions)
        return versions
    }

    /// The versions in `range`, ascending, of all entries that are not empty and have another origin.
    func versions(
        in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        let stored = VersionRange(after: range.base, through: min(range.last, head.version))
        let versions = stored.isEmpty ? [] : try view.versions(in: stored, excludingOrigin: origin)
        guard range.last > head.version else { return versions }
        let first = max(range.base, head.version).rawValue - head.version.rawValue
        let addedEntries = added.entries[Int(first)..<Int(range.last.rawValue - head.version.rawValue)]
        return versions + addedEntries.filter { $0.origin != origin && !$0.changeset.isEmpty }.map(\.version)
    }
}

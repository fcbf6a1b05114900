import AnabranchCore

/// A log as it will be: what the store has, continued by what a commit in the making adds.
struct PendingLog {
    let view: any FileView
    let head: FileHead
    private(set) var entries: [LogEntry] = []
    private(set) var postings: [Posting] = []
    /// The index of the first `indexedCount` postings.
    private var touches = TouchIndex()
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

    /// The versions above `base`, in no order, that are posted under one of `hashes` and not by `ident`.
    func versions(
        postedUnder hashes: [UInt64], after base: ServerVersion, excludingOrigin ident: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        var versions: [ServerVersion] = []
        if base < head.version {
            let range = VersionRange(after: base, through: head.version)
            versions = try view.versions(postedUnder: hashes, in: range, excludingOrigin: ident)
        }
        if indexedCount > 0 {
            touches.collect(
                hashes, in: VersionRange(after: base, through: version), excludingOrigin: ident, into: &versions)
        }
        return versions
    }

    /// The versions above `base` of all entries that are not empty and not from `ident`.
    func versions(after base: ServerVersion, excludingOrigin ident: ClientFileID) throws(HistoryError)
        -> [ServerVersion]
    {
        let range = VersionRange(after: base, through: head.version)
        let added = entries.filter { $0.version > base && $0.origin != ident && !$0.changeset.isEmpty }
        return try view.versions(in: range, excludingOrigin: ident) + added.map(\.version)
    }

    /// Makes what was appended so far findable: needed only before another client's changesets are merged.
    mutating func index() {
        for posting in postings[indexedCount...] { touches.insert(posting) }
        indexedCount = postings.count
    }

    /// Appends the entries that one client's changesets became, giving them their versions.
    mutating func append(_ changesets: [MergedChangeset], from ident: ClientFileID, versionSalt: Salt) {
        var cumulativeSize = entries.last?.cumulativeSize ?? head.cumulativeSize
        var version = version
        for merged in changesets {
            version += 1
            cumulativeSize += UInt64(merged.changeset.count)
            entries.append(
                LogEntry(
                    version: version, salt: versionSalt, origin: ident, clientVersion: merged.clientVersion,
                    timestamp: merged.timestamp, cumulativeSize: cumulativeSize, changeset: merged.changeset))
            for hash in merged.writes {
                postings.append(Posting(hash: hash, version: version, origin: ident))
            }
        }
    }
}

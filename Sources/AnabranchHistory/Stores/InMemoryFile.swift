import AnabranchCore

/// One synced file in memory.
struct InMemoryFile: Sendable {
    var lease = Lease(0)
    private var entries: [LogEntry] = []
    private var conflictKeys = ConflictKeyIndex()
    /// By ident, as the next two.
    private var clientFiles = ClientFile.reserved
    private var receipts: [[Receipt]] = [[], []]
    private var reciprocals: [[ReciprocalChangeset]] = [[], []]
    private var received: [ServerVersion: ReceivedChangeset] = [:]
    /// All objects are in memory.
    private(set) var state = ObjectGraph()
    private var stateVersion: ServerVersion = 0
    /// The versions of the server's own writes, by their idempotency keys.
    private var writes: [[UInt8]: ServerVersion] = [:]
    /// The keys of `writes`, the oldest first.
    private var writeKeys: [[UInt8]] = []

    private var latest: ServerVersion { ServerVersion(entries.count) }
    private var nextIdent: ClientFileID { ClientFileID(clientFiles.count) }

    var newestHead: FileHead {
        FileHead(
            version: latest, versionSalt: entries.last?.salt ?? 0,
            cumulativeSize: entries.last?.cumulativeSize ?? 0, nextIdent: nextIdent,
            stateVersion: stateVersion)
    }

    // MARK: Writing

    func check(_ commit: Commit) throws(HistoryError) {
        guard commit.lease == lease, commit.head.version == latest,
            commit.head.stateVersion == stateVersion
        else {
            throw HistoryError(.leaseLost, "the file has another writer")
        }
    }

    mutating func apply(_ commit: Commit) {
        for file in commit.clientFiles { store(file) }
        for (ident, newer) in commit.reciprocalsByFile { reciprocals[Int(ident.rawValue)].merge(newer) }
        for entry in commit.entries where entry.origin > 0 {
            receipts[Int(entry.origin.rawValue)].append(
                Receipt(version: entry.version, clientVersion: entry.clientVersion))
        }
        for entry in commit.conflictKeys { conflictKeys.insert(entry) }
        for changeset in commit.received { received[changeset.version] = changeset }
        entries += commit.entries
        if let update = commit.state { (state, stateVersion) = (update.after, update.version) }
        if let write = commit.idempotencyKey { store(write) }
    }

    mutating func forgetReceived(before time: UInt64) { received = received.filter { $0.value.time >= time } }

    private mutating func store(_ write: IdempotencyKey) {
        if writes.updateValue(write.version, forKey: write.key) == nil { writeKeys.append(write.key) }
        if writeKeys.count > IdempotencyKey.countMax { writes[writeKeys.removeFirst()] = nil }
    }

    private mutating func store(_ file: ClientFile) {
        let index = Int(file.ident.rawValue)
        if index == clientFiles.count {
            clientFiles.append(file)
            receipts.append([])
            reciprocals.append([])
        } else {
            clientFiles[index] = file
            let base = file.uploadCursor.serverVersion
            let stale = file.isExpired ? reciprocals[index].count : reciprocals[index].count(upTo: base)
            reciprocals[index].removeFirst(stale)
        }
    }

    // MARK: Listing

    func clientFiles(after ident: ClientFileID, countMax: Int) -> [ClientFile] {
        let count = min(ident.rawValue, UInt64(clientFiles.count) - 1) + 1
        return Array(clientFiles[max(Int(count), ClientFile.reserved.count)...].prefix(max(0, countMax)))
    }

    func catalogEntries(after version: ServerVersion, countMax: Int) -> [CatalogEntry] {
        entries[Int(min(version, latest).rawValue)...].prefix(max(0, countMax)).map { entry in
            CatalogEntry(
                version: entry.version, origin: entry.origin, clientVersion: entry.clientVersion,
                timestamp: entry.timestamp, changesetBytes: entry.changeset.count)
        }
    }

}

extension InMemoryFile: FileView {
    func head() -> FileHead { newestHead }

    func clientFile(_ ident: ClientFileID) -> ClientFile? {
        ident < nextIdent ? clientFiles[Int(ident.rawValue)] : nil
    }

    func entry(_ version: ServerVersion) -> LogEntry? {
        version > 0 && version <= latest ? entries[Int(version.rawValue) - 1] : nil
    }

    func salt(of version: ServerVersion) -> Salt? { entry(version)?.salt }

    func received(_ version: ServerVersion) -> ReceivedChangeset? { received[version] }

    func entries(in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int) -> [LogEntry] {
        var found: [LogEntry] = []
        var bytes = 0
        var index = Int(min(range.base, latest).rawValue)
        let end = Int(min(range.last, latest).rawValue)
        while index < end, bytes <= byteBudget {
            if entries[index].origin != origin, !entries[index].changeset.isEmpty {
                found.append(entries[index])
                bytes += entries[index].changeset.count
            }
            index += 1
        }
        return found
    }

    func versions(in range: VersionRange, excludingOrigin origin: ClientFileID) -> [ServerVersion] {
        entries(in: range, excludingOrigin: origin, byteBudget: .max).map(\.version)
    }

    func receipts(from ident: ClientFileID, in range: VersionRange) -> [Receipt] {
        guard ident < nextIdent else { return [] }
        let own = receipts[Int(ident.rawValue)]
        let start = own.count(upTo: range.base)
        return Array(own[start..<max(start, own.count(upTo: range.last))])
    }

    func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) -> Receipt? {
        guard ident < nextIdent else { return nil }
        let own = receipts[Int(ident.rawValue)]
        let count = own.count(upTo: version)
        return count > 0 ? own[count - 1] : nil
    }

    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) -> [ServerVersion] {
        var versions: [ServerVersion] = []
        conflictKeys.collect(keys, in: range, excludingOrigin: origin, into: &versions)
        return versions.sortedUnique()
    }

    func version(ofWrite key: [UInt8]) -> ServerVersion? { writes[key] }

    func reciprocals(of ident: ClientFileID, in range: VersionRange) -> [ReciprocalChangeset] {
        guard ident < nextIdent else { return [] }
        let all = reciprocals[Int(ident.rawValue)]
        let start = all.count(upTo: range.base)
        return Array(all[start..<max(start, all.count(upTo: range.last))])
    }
}

/// Something of which a sorted array holds at most one for each server version.
protocol Versioned {
    var version: ServerVersion { get }
}

extension Receipt: Versioned {}
extension ReciprocalChangeset: Versioned {}

extension Array where Element: Versioned {
    /// How many elements have a version of at most `version`.
    func count(upTo version: ServerVersion) -> Int { countOfFirst { $0.version <= version } }

    /// How many elements satisfy a condition that none does behind one that does not.
    private func countOfFirst(_ condition: (Element) -> Bool) -> Int {
        var low = 0, high = count
        while low < high {
            let middle = low + (high - low) / 2
            if condition(self[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Puts sorted elements in their places, instead of those that had their versions.
    mutating func merge(_ newer: [Element]) {
        guard let first = newer.first else { return }
        let start = countOfFirst { $0.version < first.version }
        let older = self[start...]
        var merged: [Element] = []
        var next = older.startIndex
        for element in newer {
            while next < older.endIndex, older[next].version < element.version {
                merged.append(older[next])
                next += 1
            }
            if next < older.endIndex, older[next].version == element.version { next += 1 }
            merged.append(element)
        }
        merged += older[next...]
        replaceSubrange(start..., with: merged)
    }
}

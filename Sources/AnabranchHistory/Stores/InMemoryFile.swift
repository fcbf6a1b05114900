import AnabranchCore

/// One synced file in memory.
struct InMemoryFile: Sendable {
    var lease: Lease
    /// In a shared store from 1 on, otherwise 0.
    private var bounds: UInt64
    /// The beginning of the log.
    private var base = Trim(version: 0, salt: 0, cumulativeSize: 0)
    /// The start of the file's chain of checksums.
    let start: Checksum
    /// The blocks of sealed entries, and the last version of each.
    private var segments: [(last: ServerVersion, block: [UInt8])] = []
    /// The segments that went from the log and are kept.
    private var archive: [(last: ServerVersion, block: [UInt8])] = []
    /// The place before the first of `entries`.
    private var entriesBase: LogPlace
    private var entries: [LogEntry] = []
    private var conflictKeys = ConflictKeyIndex()
    /// By ident, like the next two.
    private var clientFiles = ClientFile.reserved
    private var receipts: [[Receipt]] = [[], []]
    private var reciprocals: [[ReciprocalChangeset]] = [[], []]
    private var received: [ServerVersion: ReceivedChangeset] = [:]
    private var withheldSchemas: [ClientFileID: [UInt8]] = [:]
    private var records = SortedRecords()
    private(set) var views: [ClientFileID: StoredView] = [:]
    private(set) var viewFields: [ViewField] = []
    private(set) var ingested = IngestedObjects()
    /// The state, with all its objects in memory.
    private(set) var state = ObjectGraph()
    private var stateVersion: ServerVersion = 0
    /// The versions of the server's own writes, by their idempotency keys.
    private var writes: [[UInt8]: ServerVersion] = [:]
    private var builtGenerations: [InMemoryGeneration] = []
    /// The keys of `writes`, the oldest first.
    private var writeKeys: [[UInt8]] = []

    init(_ path: VirtualPath, _ lease: Lease = Lease(0), isShared: Bool) {
        self.lease = lease
        bounds = isShared ? 1 : 0
        start = Checksum(startOf: path)
        entriesBase = LogPlace(version: 0, cumulativeSize: 0, chain: start)
    }

    private var latest: ServerVersion { entriesBase.version + UInt64(entries.count) }
    private var nextIdent: ClientFileID { ClientFileID(clientFiles.count) }

    var newestHead: FileHead {
        FileHead(
            version: latest, versionSalt: entries.last?.salt ?? base.salt,
            cumulativeSize: entries.last?.cumulativeSize ?? entriesBase.cumulativeSize, baseVersion: base.version,
            baseSalt: base.salt, baseCumulativeSize: base.cumulativeSize, nextIdent: nextIdent,
            stateVersion: stateVersion, bounds: bounds)
    }

    // MARK: Writing

    func check(_ commit: Commit) throws(HistoryError) {
        if bounds > 0 { return try checkShared(commit) }
        guard commit.lease == lease, commit.head.version == latest,
            commit.head.stateVersion == stateVersion
        else {
            throw HistoryError(.leaseLost, "the file has another writer")
        }
        try checkBounds(commit)
    }

    func checkBounds(_ commit: Commit) throws(HistoryError) {
        if let sealed = commit.sealed { try sealed.check(from: entriesBase, to: end(of: sealed), of: start) }
        if let trim = commit.trim { try check(trim, of: commit) }
        if let change = commit.generation { try check(change, after: commit) }
    }

    private func check(_ change: GenerationChange, after commit: Commit) throws(HistoryError) {
        var after = self
        for file in commit.clientFiles { after.store(file) }
        try after.check(change) { after.segmentCount(ofGeneration: $0) }
    }

    private func check(_ trim: Trim, of commit: Commit) throws(HistoryError) {
        var after = self
        for file in commit.clientFiles { after.store(file) }
        guard let sealed = after.sealedLog(commit.file, keptBy: SegmentCache()) else {
            return try after.check(trim, of: newestHead)
        }
        try SealedView(after, after: sealed).check(trim, of: newestHead)
    }

    /// The place after the entries to seal; nil if there are not that many entries before the newest one.
    private func end(of sealed: SealedEntries) -> LogPlace? {
        guard sealed.count < entries.count else { return nil }
        return end(of: sealed.count)
    }

    /// The place after the first entries.
    private func end(of count: Int) -> LogPlace {
        guard count > 0 else { return entriesBase }
        let last = entries[count - 1]
        return LogPlace(
            version: last.version, cumulativeSize: last.cumulativeSize,
            chain: entries.prefix(count).reduce(entriesBase.chain) { $0.following($1) })
    }

    private mutating func seal(_ sealed: SealedEntries) {
        guard let end = end(of: sealed) else { return }
        segments.append((end.version, sealed.block))
        removeEntries(upTo: end)
    }

    private mutating func removeEntries(upTo end: LogPlace) {
        entries.removeFirst(place(after: end.version))
        entriesBase = end
        conflictKeys.removeAll(through: end.version)
        for index in receipts.indices { receipts[index].removeFirst(receipts[index].count(upTo: end.version)) }
    }

    mutating func apply(_ commit: Commit) {
        for file in commit.clientFiles { store(file) }
        for (ident, schema) in commit.withheldSchemas { withheldSchemas[ident] = schema.isEmpty ? nil : schema }
        if let trim = commit.trim { self.trim(trim) }
        for (ident, newer) in commit.reciprocalsByFile { reciprocals[Int(ident.rawValue)].merge(newer) }
        for entry in commit.entries where entry.origin > 0 {
            receipts[Int(entry.origin.rawValue)].append(
                Receipt(version: entry.version, clientVersion: entry.clientVersion))
        }
        for entry in commit.conflictKeys { conflictKeys.insert(entry) }
        for changeset in commit.received { received[changeset.version] = changeset }
        entries += commit.entries
        records.apply(commit.records)
        for change in commit.views {
            let ident = change.record.ident
            views[ident, default: StoredView(record: change.record, rows: [])].apply(change)
        }
        viewFields += commit.viewFields
        ingested.free(through: commit.freedIngested)
        ingested.append(commit.ingested)
        if let sealed = commit.sealed { seal(sealed) }
        if let change = commit.generation { builtGenerations.apply(change) }
        if let update = commit.state { (state, stateVersion) = (update.after, update.version) }
        if bounds > 0, commit.changesBounds { bounds += 1 }
        if let write = commit.idempotencyKey { store(write) }
    }

    private mutating func trim(_ trim: Trim) {
        if trim.keep == .archive { archive += segments.prefix { $0.last <= trim.version } }
        segments.removeAll { $0.last <= trim.version }
        if trim.version > entriesBase.version { removeEntries(upTo: end(of: place(after: trim.version))) }
        received = received.filter { $0.key > trim.version }
        base = trim
    }

    /// Gives the newest version another salt. If the log never had one, all client files expire.
    mutating func renewSalt(_ salt: Salt) {
        if latest == 0 {
            for index in ClientFile.reserved.count..<clientFiles.count { clientFiles[index].isExpired = true }
        } else if entries.isEmpty {
            base.salt = salt
        } else {
            entries[entries.count - 1].salt = salt
        }
    }

    mutating func forgetReceived(before time: UInt64) { received = received.filter { $0.value.time >= time } }

    var recordTotals: [RecordTotal] { records.totals }

    mutating func forgetRecords(expiredAt time: UInt64) { records.removeAll { 1...time ~= $0.expiresAt } }

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
            guard file.isExpired else { return }
            views[file.ident] = nil
            withheldSchemas[file.ident] = nil
        }
    }

    // MARK: Listing

    func catalogEntries(after version: ServerVersion, countMax: Int) -> [CatalogEntry] {
        entries[place(after: version)...].prefix(max(0, countMax)).map { entry in
            CatalogEntry(
                version: entry.version, origin: entry.origin, clientVersion: entry.clientVersion,
                timestamp: entry.timestamp, changesetBytes: entry.changeset.count)
        }
    }

    /// The index of the first entry above `version`.
    private func place(after version: ServerVersion) -> Int {
        Int(min(max(version, entriesBase.version), latest).rawValue - entriesBase.version.rawValue)
    }

    /// The part of the log that is in segments; nil if nothing is.
    func sealedLog(_ id: SyncedFileID, keptBy cache: SegmentCache) -> SealedLog? {
        guard !segments.isEmpty else { return nil }
        let range = VersionRange(after: base.version, through: entriesBase.version)
        return SealedLog(of: id, start, range: range, in: self, keptBy: cache)
    }
}

extension InMemoryFile: SegmentSource {
    func segmentEnds(in range: VersionRange) -> [ServerVersion] {
        let ends = segments.map(\.last).filter { $0 > range.base }
        return Array(ends.prefix(ends.count { $0 < range.last } + 1))
    }

    func segmentBlock(endingAt last: ServerVersion) throws(HistoryError) -> [UInt8] {
        if let segment = segments.first(where: { $0.last == last }) { return segment.block }
        throw HistoryError(.storeDamaged, "there is none")
    }
}

/// The view of everything that is not in segments.
extension InMemoryFile: FileView {
    func head() -> FileHead { newestHead }

    func clientFile(_ ident: ClientFileID) -> ClientFile? {
        ident < nextIdent ? clientFiles[Int(ident.rawValue)] : nil
    }

    func clientFiles(after ident: ClientFileID, countMax: Int) -> [ClientFile] {
        let first = min(ident.rawValue, UInt64(clientFiles.count) - 1) + 1
        return Array(clientFiles[Int(first)...].prefix(max(0, countMax)))
    }

    func clientFile(pinnedBelow version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        for file in clientFiles {
            if let pin = try pin(of: file), pin < version { return file.ident }
        }
        return nil
    }

    func entry(_ version: ServerVersion) -> LogEntry? {
        version > entriesBase.version && version <= latest ? entries[place(after: version) - 1] : nil
    }

    func salt(of version: ServerVersion) -> Salt? { entry(version)?.salt }

    func received(_ version: ServerVersion) -> ReceivedChangeset? { received[version] }

    func entries(in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int) -> [LogEntry] {
        var found: [LogEntry] = []
        var bytes = 0
        var index = place(after: range.base)
        let end = place(after: range.last)
        while index < end, bytes <= byteBudget {
            if entries[index].origin != origin, !entries[index].changeset.isEmpty {
                found.append(entries[index])
                bytes += entries[index].byteCount
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

    func newestReceipts(in range: VersionRange) -> [ClientFileID: Receipt] {
        var newest: [ClientFileID: Receipt] = [:]
        let end = place(after: range.last), start = min(place(after: range.base), end)
        for entry in entries[start..<end] where entry.origin > 0 {
            newest[entry.origin] = Receipt(version: entry.version, clientVersion: entry.clientVersion)
        }
        return newest
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

    func record(at place: RecordPlace) -> DoorRecord? { records[place] }

    func records(in range: RecordRange, countMax: Int, isReversed: Bool) -> [DoorRecord] {
        records.records(in: range, countMax: countMax, isReversed: isReversed)
    }

    func withheldSchema(of ident: ClientFileID) -> [UInt8] { withheldSchemas[ident] ?? [] }

    func sealedEnd() -> LogPlace? { entriesBase }

    func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry] {
        for (_, block) in archive.reversed() {
            let segment = try LogSegment(block, of: start)
            if segment.range.base < version { return try segment.content().entries.filter { $0.version <= version } }
        }
        return []
    }

    func archivedBytes() -> UInt64 { archive.reduce(0) { $0 + UInt64($1.block.count) } }

    func version(ofWrite key: [UInt8]) -> ServerVersion? { writes[key] }

    func generations() -> [Generation] { builtGenerations.compactMap(\.generation) }

    func readGeneration<Result: Sendable>(
        _ version: ServerVersion, _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        guard let found = builtGenerations.first(where: { $0.version == version }), let generation = found.generation
        else { throw HistoryError.noGeneration(version) }
        // Entries in memory need no cache.
        return try body(
            GenerationEntries(generation, of: SyncedFileID(0), start, in: found, keptBy: SegmentCache()))
    }

    func clientFile(ofGeneration version: ServerVersion) -> ClientFileID? {
        clientFiles.first { !$0.isExpired && $0.lineage == .generation(version) }?.ident
    }

    func leftoverGeneration() -> ServerVersion? { builtGenerations.first { $0.generation == nil }?.version }

    func segmentCount(ofGeneration version: ServerVersion) -> UInt64 {
        UInt64(builtGenerations.first { $0.version == version }?.segments.count ?? 0)
    }

    func reciprocals(of ident: ClientFileID, in range: VersionRange) -> [ReciprocalChangeset] {
        guard ident < nextIdent else { return [] }
        let all = reciprocals[Int(ident.rawValue)]
        let start = all.count(upTo: range.base)
        return Array(all[start..<max(start, all.count(upTo: range.last))])
    }
}

/// An element of a sorted array that holds at most one for each server version.
protocol Versioned {
    var version: ServerVersion { get }
}

extension Receipt: Versioned {}
extension ReciprocalChangeset: Versioned {}

extension Array where Element: Versioned {
    /// The number of elements that have a version of at most `version`.
    func count(upTo version: ServerVersion) -> Int { countOfFirst { $0.version <= version } }

    /// The number of first elements that satisfy a condition which no later element satisfies.
    private func countOfFirst(_ condition: (Element) -> Bool) -> Int {
        var low = 0, high = count
        while low < high {
            let middle = low + (high - low) / 2
            if condition(self[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Merges in sorted elements, which replace those with the same versions.
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

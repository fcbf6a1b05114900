import AnabranchCore
import Synchronization

/// A store without a disk: for tests, simulations and files that need not outlive the process.
public final class InMemoryStore: HistoryStore {
    private struct Directory {
        var numbers: [VirtualPath: Int] = [:]
        var files: [MemoryFile] = []
    }

    /// A box, so that files are locked one by one.
    private final class MemoryFile: Sendable {
        let content = Mutex(FileContent())
    }

    private let directory = Mutex(Directory())

    public init() {}

    public func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile {
        let number = directory.withLock { directory in
            if let number = directory.numbers[path] { return number }
            directory.numbers[path] = directory.files.count
            directory.files.append(MemoryFile())
            return directory.files.count - 1
        }
        let id = SyncedFileID(Int64(number))
        let (lease, head) = try file(id).content.withLock { content in
            content.lease.number += 1
            return (content.lease, content.newestHead)
        }
        return OpenedFile(id: id, lease: lease, head: head)
    }

    public func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try self.file(file).content.withLock { content throws(HistoryError) in try body(content) }
    }

    public func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        try self.file(file).content.withLock { $0.state }
    }

    public func commit(_ commits: [Commit]) throws(HistoryError) {
        let files = try commits.map { commit throws(HistoryError) in try file(commit.file) }
        for (file, commit) in zip(files, commits) {
            try file.content.withLock { content throws(HistoryError) in try content.check(commit) }
        }
        for (file, commit) in zip(files, commits) { file.content.withLock { $0.apply(commit) } }
    }

    private func file(_ id: SyncedFileID) throws(HistoryError) -> MemoryFile {
        let file = directory.withLock { directory in
            directory.files.indices.contains(Int(id.number)) ? directory.files[Int(id.number)] : nil
        }
        guard let file else { throw HistoryError(.storeFailed, "there is no file \(id.number)") }
        return file
    }
}

extension InMemoryStore: HistoryCatalog {
    public func files(after path: VirtualPath?, countMax: Int) throws(HistoryError) -> [CatalogFile] {
        let paths = directory.withLock { Array($0.numbers.keys) }
            .filter { other in path.map { $0.bytes.lexicographicallyPrecedes(other.bytes) } ?? true }
            .sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        let files = try paths.prefix(max(0, countMax)).map { path throws(HistoryError) in try file(path) }
        return files.compactMap { $0 }
    }

    public func file(_ path: VirtualPath) throws(HistoryError) -> CatalogFile? {
        try content(of: path) { CatalogFile(path: path, head: $0.newestHead) }
    }

    public func clientFiles(
        of path: VirtualPath, after ident: ClientFileID, countMax: Int
    ) throws(HistoryError) -> [ClientFile] {
        try content(of: path) { $0.clientFiles(after: ident, countMax: countMax) } ?? []
    }

    public func entries(
        of path: VirtualPath, after version: ServerVersion, countMax: Int
    ) throws(HistoryError) -> [CatalogEntry] {
        try content(of: path) { $0.catalogEntries(after: version, countMax: countMax) } ?? []
    }

    private func content<Result: Sendable>(
        of path: VirtualPath, _ body: (FileContent) -> Result
    ) throws(HistoryError) -> Result? {
        guard let number = directory.withLock({ $0.numbers[path] }) else { return nil }
        return try file(SyncedFileID(Int64(number))).content.withLock { body($0) }
    }
}

/// One synced file in memory.
private struct FileContent: FileView, Sendable {
    var lease = Lease(0)
    private var entries: [LogEntry] = []
    private var touches = TouchIndex()
    /// By ident, as the next two.
    private var clientFiles = ClientFile.reserved
    private var receipts: [[Receipt]] = [[], []]
    private var reciprocals: [[ReciprocalChangeset]] = [[], []]
    /// All objects are in memory.
    private(set) var state = ObjectGraph()
    private var stateVersion: ServerVersion = 0
    private var writes: [[UInt8]: ServerVersion] = [:]
    /// The oldest first, none twice.
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
        var changes = commit.reciprocals[...]
        while let ident = changes.first?.ident {
            let ofOneFile = changes.prefix { $0.ident == ident }
            reciprocals[Int(ident.rawValue)].merge(ofOneFile.map(\.reciprocal))
            changes = changes[ofOneFile.endIndex...]
        }
        for entry in commit.entries where entry.origin > 0 {
            receipts[Int(entry.origin.rawValue)].append(
                Receipt(version: entry.version, clientVersion: entry.clientVersion))
        }
        for posting in commit.postings { touches.insert(posting) }
        entries += commit.entries
        if let update = commit.state { (state, stateVersion) = (update.after, update.version) }
        if let write = commit.writeKey { store(write) }
    }

    private mutating func store(_ write: WriteKey) {
        if writes.updateValue(write.version, forKey: write.key) == nil { writeKeys.append(write.key) }
        if writeKeys.count > WriteKey.countMax { writes[writeKeys.removeFirst()] = nil }
    }

    private mutating func store(_ file: ClientFile) {
        let index = Int(file.ident.rawValue)
        if index == clientFiles.count {
            clientFiles.append(file)
            receipts.append([])
            reciprocals.append([])
        } else {
            clientFiles[index] = file
            let all = reciprocals[index]
            let stale = file.isExpired ? all.count : all.count(upTo: file.uploadCursor.serverVersion)
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

    // MARK: Reading

    func head() -> FileHead { newestHead }

    func clientFile(_ ident: ClientFileID) -> ClientFile? {
        ident < nextIdent ? clientFiles[Int(ident.rawValue)] : nil
    }

    func entry(_ version: ServerVersion) -> LogEntry? {
        version > 0 && version <= latest ? entries[Int(version.rawValue) - 1] : nil
    }

    func entries(in range: VersionRange, excludingOrigin ident: ClientFileID?, byteBudget: Int) -> [LogEntry] {
        var found: [LogEntry] = []
        var bytes = 0
        var index = Int(min(range.base, latest).rawValue)
        let end = Int(min(range.last, latest).rawValue)
        while index < end, bytes <= byteBudget {
            if entries[index].origin != ident, !entries[index].changeset.isEmpty {
                found.append(entries[index])
                bytes += entries[index].changeset.count
            }
            index += 1
        }
        return found
    }

    func versions(in range: VersionRange, excludingOrigin ident: ClientFileID) -> [ServerVersion] {
        entries(in: range, excludingOrigin: ident, byteBudget: .max).map(\.version)
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

    func versions(postedUnder hashes: [UInt64], in range: VersionRange, excludingOrigin ident: ClientFileID)
        -> [ServerVersion]
    {
        var versions: [ServerVersion] = []
        touches.collect(hashes, in: range, excludingOrigin: ident, into: &versions)
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
private protocol Versioned {
    var version: ServerVersion { get }
}

extension Receipt: Versioned {}
extension ReciprocalChangeset: Versioned {}

extension Array where Element: Versioned {
    /// How many elements have a version of at most `version`.
    fileprivate func count(upTo version: ServerVersion) -> Int { countOfFirst { $0.version <= version } }

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
    fileprivate mutating func merge(_ newer: [Element]) {
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

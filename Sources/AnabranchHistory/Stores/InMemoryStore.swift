public import AnabranchCore
import Synchronization

/// A store without a disk: for tests, simulations and files that need not outlive the process.
public final class InMemoryStore: Sendable {
    private struct Directory {
        var numbers: [VirtualPath: Int] = [:]
        var files: [LockedFile] = []
        /// In a shared store, the lease of all files; another one after each restoration.
        var epoch: UInt64 = 1
    }

    /// Files are locked one by one.
    private final class LockedFile: Sendable {
        let content: Mutex<InMemoryFile>

        init(_ file: InMemoryFile) { content = Mutex(file) }
    }

    private let directory = Mutex(Directory())
    private let segments = SegmentCache()
    /// True if several nodes write the same files.
    public let isShared: Bool

    /// Creates a store without files.
    /// - Parameter isShared: whether several nodes write the same files (`Spec/Nodes.md`).
    public init(isShared: Bool = false) { self.isShared = isShared }

    /// True.
    public var isInMemory: Bool { true }

    /// Another store with everything that this one has now: a backup.
    package func copy() -> InMemoryStore {
        let copy = InMemoryStore(isShared: isShared)
        let directory = directory.withLock { directory in
            Directory(
                numbers: directory.numbers, files: directory.files.map { LockedFile($0.content.withLock { $0 }) },
                epoch: directory.epoch)
        }
        copy.directory.withLock { $0 = directory }
        return copy
    }

    /// Lets a backup replace the store it was made of: clients that know of later changes do not confuse the two
    /// (`Spec/History.md`, section 11). Nodes that have a file open lose it.
    package func renewSalts(using randomness: inout some RandomNumberGenerator) {
        let (files, epoch) = directory.withLock { directory in
            // Two restorations of one backup differ.
            if isShared { directory.epoch = randomness.next() | 1 << 32 }
            return (directory.files, directory.epoch)
        }
        for file in files {
            file.content.withLock { content in
                content.renewSalt(Salt.random(using: &randomness))
                if isShared { content.lease.number = epoch }
            }
        }
    }

    private func file(_ id: SyncedFileID) throws(HistoryError) -> LockedFile {
        let file = directory.withLock { directory in
            directory.files.indices.contains(Int(id.number)) ? directory.files[Int(id.number)] : nil
        }
        guard let file else { throw HistoryError(.storeFailed, "there is no file \(id.number)") }
        return file
    }
}

extension InMemoryStore: HistoryStore {
    public func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile {
        let number = directory.withLock { directory in
            if let number = directory.numbers[path] { return number }
            directory.numbers[path] = directory.files.count
            let lease = Lease(isShared ? directory.epoch : 0)
            directory.files.append(LockedFile(InMemoryFile(path, lease, isShared: isShared)))
            return directory.files.count - 1
        }
        let id = SyncedFileID(Int64(number))
        let (lease, head) = try file(id).content.withLock { content in
            if !isShared { content.lease.number += 1 }
            return (content.lease, content.newestHead)
        }
        return OpenedFile(id: id, lease: lease, head: head)
    }

    public func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try self.file(file).content.withLock { content throws(HistoryError) in
            guard let sealed = content.sealedLog(file, keptBy: segments) else { return try body(content) }
            return try body(SealedView(content, after: sealed))
        }
    }

    public func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        try self.file(file).content.withLock { $0.state }
    }

    public func frozenState(of file: SyncedFileID) throws(HistoryError) -> FrozenState? {
        try self.file(file).content.withLock { FrozenState(state: $0.state, head: $0.newestHead) }
    }

    public func commit(_ commits: [Commit]) throws(HistoryError) {
        let files = try commits.map { commit throws(HistoryError) in try file(commit.file) }
        for (file, commit) in zip(files, commits) {
            try file.content.withLock { content throws(HistoryError) in try content.check(commit) }
        }
        for (file, commit) in zip(files, commits) {
            file.content.withLock { content in
                if commit.deletesFile {
                    content = InMemoryFile(VirtualPath([]), isShared: isShared)
                } else {
                    content.apply(commit)
                }
            }
            guard commit.deletesFile else { continue }
            directory.withLock { directory in
                directory.numbers = directory.numbers.filter { $0.value != Int(commit.file.number) }
            }
        }
    }

    /// Frees received changesets after 30 days.
    public func maintain(at time: UInt64, while shouldContinue: () -> Bool) throws(HistoryError) {
        let oldest = time - min(time, 30 * 86_400)
        for file in directory.withLock({ $0.files }) {
            file.content.withLock { content in
                content.forgetReceived(before: oldest)
                content.forgetRecords(expiredAt: time)
            }
        }
    }
}

extension InMemoryStore: ViewStore {
    package func views(of file: SyncedFileID) throws(HistoryError) -> [StoredView] {
        try self.file(file).content.withLock { $0.views.values.sorted { $0.record.ident < $1.record.ident } }
    }

    package func view(of file: SyncedFileID, _ ident: ClientFileID) throws(HistoryError) -> StoredView? {
        try self.file(file).content.withLock { $0.views[ident] }
    }

    package func viewFields(of file: SyncedFileID) throws(HistoryError) -> [ViewField] {
        try self.file(file).content.withLock { $0.viewFields }
    }

    package func viewEntries(
        of file: SyncedFileID, _ ident: ClientFileID, _ numbers: ClosedRange<UInt64>
    ) throws(HistoryError) -> [ViewEntry] {
        let log = try self.file(file).content.withLock { $0.views[ident]?.log ?? [] }
        return log.filter { numbers.contains($0.number) }
    }

    package func ingested(
        of file: SyncedFileID, after number: UInt64, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [IngestedObject] {
        try self.file(file).content.withLock {
            $0.ingested.page(after: number, countMax: countMax, byteBudget: byteBudget)
        }
    }

    package func ingestedBytes(of file: SyncedFileID) throws(HistoryError) -> [ExactString?: UInt64] {
        try self.file(file).content.withLock { $0.ingested.list.byteCounts }
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

    public func files(
        of user: String, after path: VirtualPath?, countMax: Int
    ) throws(HistoryError) -> [UserFile] {
        let files = try files(after: path, countMax: .max).map { file throws(HistoryError) in
            let clientFiles = try clientFiles(of: file.path, after: 0, countMax: .max)
            let ownCount = clientFiles.count { $0.user.hasBytes(of: user) }
            return UserFile(path: file.path, ownCount: ownCount, otherCount: clientFiles.count - ownCount)
        }
        return Array(files.filter { $0.ownCount > 0 }.prefix(max(0, countMax)))
    }

    public func file(_ path: VirtualPath) throws(HistoryError) -> CatalogFile? {
        try content(of: path) { CatalogFile(path: path, head: $0.newestHead, archivedBytes: $0.archivedBytes()) }
    }

    public func id(of path: VirtualPath) -> SyncedFileID? {
        directory.withLock { $0.numbers[path] }.map { SyncedFileID(Int64($0)) }
    }

    public func clientFiles(
        of path: VirtualPath, after ident: ClientFileID, countMax: Int
    ) throws(HistoryError) -> [ClientFile] {
        let reserved = ClientFileID(rawValue: UInt64(ClientFile.reserved.count - 1))
        return try content(of: path) { $0.clientFiles(after: max(ident, reserved), countMax: countMax) } ?? []
    }

    public func entries(
        of path: VirtualPath, after version: ServerVersion, countMax: Int
    ) throws(HistoryError) -> [CatalogEntry] {
        guard let number = directory.withLock({ $0.numbers[path] }) else { return [] }
        let id = SyncedFileID(Int64(number))
        return try file(id).content.withLock { content throws(HistoryError) in
            let sealed = content.sealedLog(id, keptBy: segments)
            let found = try sealed?.catalogEntries(after: version, countMax: countMax) ?? []
            return found + content.catalogEntries(after: version, countMax: countMax - found.count)
        }
    }

    public func stateBytes(of path: VirtualPath) throws(HistoryError) -> UInt64 {
        try content(of: path) { UInt64($0.state.loadedBytes) } ?? 0
    }

    public func recordTotals(of path: VirtualPath?) throws(HistoryError) -> [RecordTotal] {
        let paths = path.map { [$0] } ?? directory.withLock { Array($0.numbers.keys) }
        let totals = try paths.map { path throws(HistoryError) in try content(of: path) { $0.recordTotals } ?? [] }
        return RecordTotal.sum(totals.joined())
    }

    public func checkCommit() {}

    public var writeAheadLogBytes: Int { 0 }

    private func content<Result: Sendable>(
        of path: VirtualPath, _ body: (InMemoryFile) -> Result
    ) throws(HistoryError) -> Result? {
        guard let number = directory.withLock({ $0.numbers[path] }) else { return nil }
        return try file(SyncedFileID(Int64(number))).content.withLock { body($0) }
    }
}

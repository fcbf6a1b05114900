public import AnabranchCore
public import AnabranchHistory
import Foundation
import GRDB
import Synchronization

/// The durable store of one machine: SQLite databases in a directory of their own, in write-ahead mode, flushed to the
/// disk with each commit (`Spec/Durability.md`). Readers do not wait for writers.
public final class SQLiteStore: Sendable {
    /// The choices for opening a store.
    public struct Options: Sendable {
        /// The number of databases of a new store, 1 to `shardsMax`. Files in different ones are written at the same
        /// time. An existing store keeps its number.
        public var shards: Int
        /// The number of days for which changesets are kept as they were received, where merging has changed them.
        public var explainDays: Int

        /// The most databases that a store can have.
        public static var shardsMax: Int { StoreManifest.shardsMax }

        /// A thousand years.
        fileprivate static let explainDaysMax = 365_250

        /// The defaults, unless other values are given.
        public init(shards: Int = 8, explainDays: Int = 30) {
            self.shards = shards
            self.explainDays = explainDays
        }
    }

    let directory: DataDirectory
    let manifest: StoreManifest
    let shards: [StoreShard]
    let explainDays: Int
    /// The uploads that are being integrated.
    public let suspects: (any UploadSuspects)?

    /// Opens the store in a directory, which is made if it is missing.
    /// - Throws: `storeUnusable` if another process uses the directory, the store has another format or has lost files,
    ///   or there can be no store with these options.
    public convenience init(directory path: String, options: Options = Options()) throws(HistoryError) {
        try self.init(try DataDirectory(path), options, for: .use)
    }

    /// The reason for which a store is opened.
    enum Purpose {
        /// It is used, by a server or a command.
        case use
        /// It may have been restored in part, and from different times.
        case restoration
        /// It is copied into another store, perhaps once more.
        case copySource
        /// Another store is copied into it.
        case copyTarget
    }

    /// Opens the store in a directory that has one.
    convenience init(existingIn path: String, for purpose: Purpose = .use) throws(HistoryError) {
        try self.init(try DataDirectory(existing: path), Options(), for: purpose)
    }

    init(_ directory: DataDirectory, _ options: Options, for purpose: Purpose) throws(HistoryError) {
        self.directory = directory
        let isRestoring = purpose == .restoration
        if !isRestoring { try BackupRecord.refuseCopy(in: directory.url) }
        explainDays = min(max(0, options.explainDays), Options.explainDaysMax)
        manifest = try Self.manifest(in: directory, options, for: purpose)
        try manifest.checkStage(for: purpose, in: directory.url)
        if manifest.isUnmade {
            for number in 0..<manifest.shards { try StoreShard.make(number, of: manifest, in: directory) }
        }
        let logSizes = WriteAheadLogSizes(count: manifest.shards), segments = SegmentCache()
        shards = try (0..<manifest.shards).map { [manifest] number throws(HistoryError) in
            try StoreShard(number, of: manifest, in: directory, logSizes: logSizes, segments: segments)
        }
        suspects = SuspectFile(path: directory.path(of: "suspects"))
        if manifest.stage == .ready, !isRestoring { try StoreSchema.checkEpochs(shards.map(\.epoch)) }
        // A new epoch hides which shards are of an earlier time: a restored store gets it when the restoration is done.
        if !isRestoring { try StoreShard.beginEpoch(of: shards) }
        if manifest.stage == .making { try setStage(.ready) }
    }

    /// The manifest of the store in a directory; if there is none, that of a new one.
    private static func manifest(
        in directory: DataDirectory, _ options: Options, for purpose: Purpose
    ) throws(HistoryError) -> StoreManifest {
        if let manifest = try directory.manifest() { return manifest }
        guard (1...StoreManifest.shardsMax).contains(options.shards) else {
            throw HistoryError(
                .storeUnusable, "a store has 1 to \(StoreManifest.shardsMax) shards, not \(options.shards)")
        }
        let manifest = StoreManifest(shards: options.shards, stage: purpose == .copyTarget ? .copying : .making)
        try manifest.write(in: directory.url)
        return manifest
    }

    func setStage(_ stage: StoreManifest.Stage) throws(HistoryError) {
        var manifest = manifest
        manifest.stage = stage
        if stage == .ready { manifest.copiedTo = nil }
        try manifest.write(in: directory.url)
    }

    /// Keeps servers from the store, since another one has its place now.
    /// - Parameter place: the place of the other one, for people.
    package func setCopied(to place: String) throws(HistoryError) {
        var manifest = manifest
        manifest.copiedTo = place
        try manifest.write(in: directory.url)
    }

    /// True if a restoration may have begun and is not done: also when the manifest cannot be read.
    var isPartlyRestored: Bool {
        guard let manifest = try? StoreManifest.read(in: directory.url) else { return true }
        return manifest.stage == .restoring
    }

    /// The directory is no longer a backup.
    func removeBackupRecord() { unlink(directory.path(of: BackupRecord.fileName)) }

    /// True if there was no store before it was opened.
    package var isNew: Bool { manifest.isUnmade }

    /// The number of databases of the store.
    public var shardCount: Int { shards.count }

    /// Ends all access and lets others use the directory; files opened before cannot be used any more.
    /// - Throws: `storeFailed`.
    public func close() throws(HistoryError) {
        var failure: HistoryError?
        for shard in shards {
            do throws(HistoryError) { try shard.close() } catch { failure = error }
        }
        if let failure { throw failure }
        directory.release()
    }

    /// The path of the data directory.
    public var location: String? { directory.url.path }

    /// The bytes that the file system gives to a user without privileges.
    public var freeBytes: Int? { directory.freeBytes }

    /// The bytes of all pages of the databases that are not free. Pages that are not moved into them yet count.
    public var usedBytes: Int? { try? shards.reduce(0) { try $0 + $1.usedBytes() } }

    /// Writes a number in each shard again.
    public func checkCommit() throws(HistoryError) {
        for shard in shards { try shard.checkCommit() }
    }

    /// The bytes that are committed and not moved into the databases yet.
    public var writeAheadLogBytes: Int { shards.reduce(0) { $0 + $1.writeAheadLogBytes } }

    func shard(of path: VirtualPath) -> StoreShard { shards[manifest.shard(of: path)] }
}

extension SQLiteStore: HistoryStore {
    public func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile { try shard(of: path).open(path) }

    public func close(_ file: SyncedFileID, _ lease: Lease) { shards[file.shard].close(file.number, lease) }

    public func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try shard(of: path).contains(path) }

    public func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try shards[file.shard].read(file.number, body)
    }

    public func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        try SQLiteRows(file: file, database: shards[file.shard].pool).graph()
    }

    public func frozenState(of file: SyncedFileID) throws(HistoryError) -> FrozenState? {
        try shards[file.shard].frozenState(of: file.number)
    }

    public func commit(_ commits: [Commit]) throws(HistoryError) {
        guard let shard = commits.first?.file.shard else { return }
        guard commits.allSatisfy({ $0.file.shard == shard }) else {
            throw HistoryError(.storeFailed, "the files are in different shards")
        }
        try shards[shard].commit(commits)
    }
}

extension HistoryError {
    static let partlyRestored = HistoryError(
        .storeUnusable, "`anabranch restore` was interrupted here: run it again before a server is started")
    static let partlyCopied = HistoryError(
        .storeUnusable,
        "`anabranch store copy` was interrupted here: run it again, which begins anew, before a server is started")
}

/// Runs `body` and gives its errors the form that the contract asks for.
/// - Parameter name: the name of the database.
func translatingErrors<Result>(
    in name: String = "a database", _ body: () throws -> Result
) throws(HistoryError) -> Result {
    do {
        return try body()
    } catch let error as HistoryError {
        throw error
    } catch let error as DatabaseError where error.resultCode == .SQLITE_NOTADB {
        throw HistoryError(
            .storeDamaged, "\(name) is damaged or no database: restore a backup, or use another directory (\(error))")
    } catch let error as DatabaseError where error.isDamage {
        throw HistoryError(.storeDamaged, "\(name): \(error.description)")
    } catch {
        throw HistoryError(.storeFailed, "\(error)")
    }
}

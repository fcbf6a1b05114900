public import AnabranchCore
public import AnabranchHistory
import Foundation
import GRDB
import Synchronization

/// The durable store of one machine: SQLite databases in a directory of their own, in write-ahead mode, flushed to the
/// disk with each commit (`Spec/Durability.md`). Readers do not wait for writers.
public final class SQLiteStore: Sendable {
    /// What is chosen by who opens a store.
    public struct Options: Sendable {
        /// How many databases a new store has, 1 to 64. Files of different ones are written at the same time. A store
        /// that is there keeps what it has.
        public var shards: Int
        /// For how many days changesets are kept as they were received, where merging has changed them.
        public var explainDays: Int

        /// A thousand years.
        fileprivate static let explainDaysMax = 365_250

        /// The defaults, unless something else is said.
        public init(shards: Int = 8, explainDays: Int = 30) {
            self.shards = shards
            self.explainDays = explainDays
        }
    }

    private let directory: DataDirectory
    let manifest: StoreManifest
    let shards: [StoreShard]
    private let explainDays: Int
    /// The uploads that are being integrated.
    public let suspects: (any UploadSuspects)?

    /// Opens the store in a directory, which is made if it is missing, and brings it to the current format.
    /// - Parameter report: is told how far a migration from an older format is. If it throws, the migration ends there,
    ///   and the next opening goes on with it.
    /// - Throws: `storeUnusable` if another process uses the directory, a newer program has written it, it has lost
    ///   files, or there can be no store with these options; what `report` throws is a `storeFailed`.
    public convenience init(
        directory path: String, options: Options = Options(),
        migrating report: (StoreMigrationProgress) throws -> Void = { _ in }
    ) throws(HistoryError) {
        try self.init(try DataDirectory(path), options, isRestoring: false, report)
    }

    /// Opens the store in a directory that has one.
    /// - Parameter isRestoring: whether it may have been restored in part, and from different times.
    convenience init(
        existingIn path: String, _ options: Options = Options(), isRestoring: Bool = false,
        migrating report: (StoreMigrationProgress) throws -> Void = { _ in }
    ) throws(HistoryError) {
        try self.init(try DataDirectory(existing: path), options, isRestoring: isRestoring, report)
    }

    private init(
        _ directory: DataDirectory, _ options: Options, isRestoring: Bool,
        _ report: (StoreMigrationProgress) throws -> Void
    ) throws(HistoryError) {
        self.directory = directory
        explainDays = min(max(0, options.explainDays), Options.explainDaysMax)
        manifest = try Self.manifest(in: directory, options)
        guard manifest.stage != .restoring || isRestoring else { throw HistoryError.partlyRestored }
        if manifest.stage == .migrating { try StoreMigration(in: directory).retireSource(report) }
        if manifest.stage == .making || manifest.stage == .migrating {
            for number in 0..<manifest.shards { try StoreShard.make(number, of: manifest, in: directory) }
        }
        let logSizes = WriteAheadLogSizes(count: manifest.shards)
        shards = try (0..<manifest.shards).map { [manifest] number throws(HistoryError) in
            try StoreShard(number, of: manifest, in: directory, logSizes: logSizes)
        }
        suspects = SuspectFile(path: directory.path(of: "suspects"))
        if manifest.stage == .ready {
            do throws(HistoryError) {
                try StoreSchema.checkEpochs(shards.map(\.epoch))
            } catch {
                guard isRestoring else { throw error }
                // The count is about to hide it.
                try setStage(.restoring)
            }
        }
        try StoreShard.countOpening(of: shards)
        switch manifest.stage {
        case .migrating:
            try StoreMigration(in: directory).run(into: self, report)
            try setStage(.ready)
        case .making, .ready, .restoring:
            if try directory.lacksMarker() { try directory.putMarker() }
            if manifest.stage == .making { try setStage(.ready) }
        }
    }

    /// The manifest of the store in a directory; if there is none, that of a new one.
    private static func manifest(
        in directory: DataDirectory, _ options: Options
    ) throws(HistoryError) -> StoreManifest {
        let stage: StoreManifest.Stage
        switch try directory.contents() {
        case .store(let manifest): return manifest
        case .nothing: stage = .making
        case .older: stage = .migrating
        }
        guard (1...StoreManifest.shardsMax).contains(options.shards) else {
            throw HistoryError(
                .storeUnusable, "a store has 1 to \(StoreManifest.shardsMax) shards, not \(options.shards)")
        }
        let manifest = StoreManifest(shards: options.shards, stage: stage)
        try manifest.write(in: directory.url)
        return manifest
    }

    func setStage(_ stage: StoreManifest.Stage) throws(HistoryError) {
        var manifest = manifest
        manifest.stage = stage
        try manifest.write(in: directory.url)
    }

    /// Whether a restoration has begun and is not done.
    var isPartlyRestored: Bool { (try? StoreManifest.read(in: directory.url))?.stage == .restoring }

    /// How many databases the store has.
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

    /// What is committed and not moved into the databases yet, in bytes.
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
        try SQLiteRows(file: file, pool: shards[file.shard].pool).graph()
    }

    public func commit(_ commits: [Commit]) throws(HistoryError) {
        guard let shard = commits.first?.file.shard else { return }
        guard commits.allSatisfy({ $0.file.shard == shard }) else {
            throw HistoryError(.storeFailed, "the files are in different shards")
        }
        try shards[shard].commit(commits)
    }

    /// The shards flush at the same time.
    public func commitByShard(_ commits: [Commit]) -> [Int: HistoryError] {
        let groups = Dictionary(grouping: commits, by: \.file.shard)
        var failures: [Int: HistoryError] = [:], requests: [Int: CommitRequest] = [:]
        let underWay = DispatchGroup()
        for (number, commits) in groups {
            do throws(HistoryError) {
                if groups.count == 1 {
                    try shards[number].commit(commits)
                } else {
                    requests[number] = try shards[number].beginCommit(commits, in: underWay)
                }
            } catch {
                failures[number] = error
            }
        }
        underWay.wait()
        for (number, request) in requests {
            shards[number].limitWriteAheadLog()
            if case .failure(let error) = request.outcome.withLock({ $0 }) { failures[number] = error }
        }
        return failures
    }

    /// Goes in pieces, so that no commit waits for long. Trouble of one shard is none of the others.
    public func maintain(at time: UInt64, while goesOn: () -> Bool) throws(HistoryError) {
        let oldest = time - min(time, UInt64(explainDays) * 86_400)
        var failure: HistoryError?
        for shard in shards {
            do throws(HistoryError) {
                try translatingErrors(in: DataDirectory.shardName(shard.number)) {
                    while goesOn(), try shard.pool.write({ try SQLiteFile.forgetReceived(before: oldest, in: $0) }) {}
                }
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }
}

extension SQLiteFile {
    /// Of changesets that are freed in one transaction, in bytes, and the one with which they are more.
    private static let forgottenBytes = 4 << 20

    /// - Returns: whether there may be more.
    fileprivate static func forgetReceived(before time: UInt64, in db: Database) throws -> Bool {
        let sql = "SELECT file, version, length(changeset) FROM received WHERE time < ? LIMIT 1000"
        var bytes = 0
        let rows = try Row.fetchAll(db, sql: sql, arguments: [Int64(clamping: time)]).prefix { row in
            defer { bytes += row[2] ?? 0 }
            return bytes < forgottenBytes
        }
        for row in rows {
            try db.execute(
                sql: "DELETE FROM received WHERE file = ? AND version = ?",
                arguments: [row[0] as DatabaseValue, row[1] as DatabaseValue])
        }
        return !rows.isEmpty
    }
}

extension HistoryError {
    static let partlyRestored = HistoryError(
        .storeUnusable, "`anabranch restore` was interrupted here: run it again before a server is started")
}

/// Runs `body` and gives its errors the form that the contract asks for.
/// - Parameter name: of the database.
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

package import AnabranchCore
package import AnabranchHistory
import Foundation
import GRDB

/// Reads a store and changes nothing in it. If nobody uses it, nobody can write to it in the meantime; if another
/// process uses it, each shard is seen as it was when it was opened, while that process goes on.
package final class StoreReader {
    let directory: DataDirectory
    let manifest: StoreManifest
    /// The databases of the shards.
    let databases: [any DatabaseReader]
    /// The segments that were opened. A command reads a long log once, and keeps few of them.
    let segments = SegmentCache(
        headBytesMax: 16 << 20, columnBytesMax: 2 << 20, contentBytesMax: 4 << 20, conflictKeyBytesMax: 8 << 20)
    /// The empty files that SQLite makes next to databases to read them.
    private let addedFiles: [String]
    /// The reason why no server starts on the store, though it can be read; nil if one does.
    let refusal: HistoryError?

    /// True if another process writes to the store and goes on doing so.
    package var isWrittenByOthers: Bool { directory.isWrittenByOthers }

    /// Opens the store in a directory.
    /// - Throws: `storeUnusable` if there is no store, or it has another format.
    package convenience init(directory path: String) throws(HistoryError) {
        try self.init(directory: path, isVerifying: false)
    }

    /// - Parameter isVerifying: whether a partly restored directory, with files of different times, is accepted;
    ///   `refusal` then describes it.
    convenience init(directory path: String, isVerifying: Bool) throws(HistoryError) {
        try self.init(try DataDirectory(existing: path, isForReading: true), isVerifying: isVerifying)
    }

    /// - Parameter isCopy: whether another store is being copied into it, and it is not finished.
    init(_ directory: DataDirectory, isVerifying: Bool, isCopy: Bool = false) throws(HistoryError) {
        self.directory = directory
        manifest = try Self.manifest(in: directory)
        addedFiles = ((0..<manifest.shards).map { DataDirectory.shardName($0) } + [DataDirectory.accountsName])
            .flatMap { [$0 + "-wal", $0 + "-shm"] }.filter { directory.size(of: $0) == nil }
        var epochs: [Int64?] = []
        databases = try (0..<manifest.shards).map { [directory, manifest] number throws(HistoryError) in
            try translatingErrors(in: DataDirectory.shardName(number)) {
                let database = try Self.database(number, in: directory)
                epochs.append(
                    try database.read { db in
                        try StoreSchema.check(number, of: manifest, in: db)
                        return try StoreSchema.epoch(in: db)
                    })
                return database
            }
        }
        do throws(HistoryError) {
            if manifest.stage == .restoring { throw HistoryError.partlyRestored }
            if manifest.stage == .copying, !isCopy { throw HistoryError.partlyCopied }
            try StoreSchema.checkEpochs(epochs)
            refusal = nil
        } catch {
            guard isVerifying else { throw error }
            refusal = error
        }
    }

    private static func database(_ number: Int, in directory: DataDirectory) throws -> any DatabaseReader {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(DatabaseCopy.busySeconds)
        let pool = try DatabasePool(
            path: directory.readingPath(of: DataDirectory.shardName(number)), configuration: configuration)
        return directory.isWrittenByOthers ? try pool.makeSnapshot() : pool
    }

    deinit {
        for database in databases { try? database.close() }
        // Another process that has the databases open needs them.
        guard directory.lockAlone() else { return }
        for name in addedFiles { unlink(directory.path(of: name)) }
    }

    private static func manifest(in directory: DataDirectory) throws(HistoryError) -> StoreManifest {
        guard let manifest = try directory.manifest() else {
            throw HistoryError(
                .storeUnusable,
                "the store has no tables: no server has used it yet, or it has lost them; then restore a backup")
        }
        guard manifest.stage != .making else {
            throw HistoryError(.storeUnusable, "the store is not finished; a server that opens it goes on with that")
        }
        return manifest
    }

    package func forEachFile(_ body: (StoredFile) throws -> Void) throws {
        var listing = try FileListing(databases)
        while let element = try listing.next() { try body(try file(element)) }
    }

    /// The synced files in the order of their paths, all in memory.
    /// - Throws: `storeFailed` or `storeDamaged`.
    package func files() throws(HistoryError) -> [StoredFile] {
        try translatingErrors {
            var files: [StoredFile] = []
            try forEachFile { files.append($0) }
            return files
        }
    }

    package func partitionNames() throws(HistoryError) -> PartitionNames {
        var names = PartitionNames(), listing = try FileListing(databases)
        while let element = try listing.next() { names.record(element.path) }
        try names.recordValues { path throws(HistoryError) in try file(path) != nil }
        return names
    }

    package func file(_ path: VirtualPath) throws(HistoryError) -> StoredFile? {
        let shard = manifest.shard(of: path)
        return try translatingErrors(in: DataDirectory.shardName(shard)) {
            let record = try databases[shard].read { db in try SQLiteFile.find(path, in: db) }
            return record.map { record in
                StoredFile(
                    path: path, head: record.head, id: SyncedFileID(record.number, shard: shard), in: self)
            }
        }
    }

    private func file(_ element: FileListing.Element) throws(HistoryError) -> StoredFile {
        var head = FileHead()
        do throws(HistoryError) {
            head = try translatingErrors {
                try databases[element.id.shard].unsafeRead { db in
                    try SQLiteFile(id: element.id, db: db, isChecked: false).record().head
                }
            }
        } catch {
            guard error.code == .storeDamaged else { throw error }
        }
        return StoredFile(path: element.path, head: head, id: element.id, in: self)
    }
}

extension StoreReader: StoreSnapshot {
    package func read<Result>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try readFile(file) { file throws(HistoryError) in try body(try file.view()) }
    }

    package func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        try SQLiteRows(file: file, database: databases[file.shard]).graph()
    }

    package func archivedVersions(of file: SyncedFileID) throws(HistoryError) -> ClosedRange<ServerVersion>? {
        try readFile(file) { file throws(HistoryError) in try file.archivedVersions() }
    }

    private func readFile<Result>(
        _ file: SyncedFileID, _ body: (SQLiteFile) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try translatingErrors {
            try databases[file.shard].read { db in try body(SQLiteFile(id: file, db: db, segments: segments)) }
        }
    }
}

extension SQLiteFile {
    /// The result of applying a piece of the log to an empty state, and the number of its instructions that were
    /// skipped.
    func replay(_ range: VersionRange) throws(HistoryError) -> (state: ObjectGraph, skippedCount: Int) {
        var replay = LogReplay(range), state = ObjectGraph(), skippedCount = 0
        let view = try view()
        while !replay.isDone { skippedCount += try state.replay(try replay.next(from: view)).skippedCount }
        return (state, skippedCount)
    }
}

public import AnabranchCore
public import AnabranchHistory
import Foundation
import GRDB

/// Reads a store that no other process uses, and changes nothing in it.
public final class StoreReader {
    private let directory: DataDirectory
    let pool: DatabasePool

    /// Opens the store in a directory.
    /// - Throws: `storeUnusable` if there is no store, it has another format, or a process uses it.
    public init(directory path: String) throws(HistoryError) {
        guard FileManager.default.fileExists(atPath: path) else {
            throw HistoryError(.storeUnusable, "\(path): no such directory")
        }
        // First of all, so that nothing is made where there is no store.
        let name = URL(fileURLWithPath: path).appendingPathComponent(DataDirectory.databaseName).path
        guard FileManager.default.fileExists(atPath: name) else {
            throw HistoryError(.storeUnusable, "\(path): there is no store in it")
        }
        directory = try DataDirectory(path)
        let databasePath = directory.databasePath
        pool = try translatingErrors {
            var configuration = Configuration()
            configuration.readonly = true
            let pool = try DatabasePool(path: databasePath, configuration: configuration)
            try pool.read(StoreSchema.checkIsCurrent)
            return pool
        }
    }

    /// The synced files in the order of their paths.
    /// - Throws: `storeFailed` or `storeDamaged`.
    public func files() throws(HistoryError) -> [StoredFile] {
        try translatingErrors {
            try pool.read { db in
                let sql = "SELECT \(SQLiteFile.headColumns) FROM synced_file ORDER BY path"
                return try SQLiteFile(id: SyncedFileID(0), db: db).rows(sql, []) { row in
                    let id = SyncedFileID(Int64(bitPattern: try row.number(0)))
                    return StoredFile(
                        path: VirtualPath(try row.bytes(8)), head: try SQLiteFile.head(row), id: id, reader: self)
                }
            }
        }
    }
}

/// A synced file of a store that is only read.
public struct StoredFile {
    /// The name of the file.
    public let path: VirtualPath
    /// The end and the beginning of its log.
    public let head: FileHead
    let id: SyncedFileID
    /// Holds the directory.
    let reader: StoreReader

    /// The entry that produced `version`; nil outside the log.
    public func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        try read { file throws(HistoryError) in try file.entry(version) }
    }

    /// Calls `body` with the newest entries of the log, the newest first.
    /// - Parameter limit: how many; all unless it is given.
    /// - Throws: what `body` throws; `storeFailed` or `storeDamaged`.
    public func forEachEntry(newest limit: Int = .max, _ body: (LogEntry) throws -> Void) throws {
        var version = head.version
        for _ in 0..<limit {
            guard version > head.baseVersion, let entry = try entry(version) else { return }
            try body(entry)
            version = version - 1
        }
    }

    /// The state at a version: read from its rows if they are of this version, and made from the log otherwise. The
    /// latter is in memory as a whole.
    /// - Throws: `badServerVersion` if the log has no such version.
    public func state(at version: ServerVersion) throws(HistoryError) -> ObjectGraph {
        if version == head.stateVersion { return try SQLiteRows(file: id, pool: reader.pool).graph() }
        guard version >= head.baseVersion, version <= head.version else {
            throw HistoryError(.badServerVersion, "the log ends at version \(head.version)")
        }
        let range = VersionRange(after: head.baseVersion, through: version)
        return try read { file throws(HistoryError) in try file.replay(range).state }
    }

    private func read<Result>(
        _ body: (SQLiteFile) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try translatingErrors { try reader.pool.read { db in try body(SQLiteFile(id: id, db: db)) } }
    }
}

extension SQLiteFile {
    /// What a piece of the log makes of an empty state, and how many of its instructions were skipped.
    func replay(_ range: VersionRange) throws(HistoryError) -> (state: ObjectGraph, skippedCount: Int) {
        var replay = LogReplay(range), state = ObjectGraph(), skippedCount = 0
        while !replay.isDone { skippedCount += try state.replay(try replay.next(from: self)).skippedCount }
        return (state, skippedCount)
    }
}

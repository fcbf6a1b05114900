import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// How far the migration of a store from an older format is.
public struct StoreMigrationProgress: Equatable, Sendable {
    /// How many synced files are in the new format.
    public var fileCount = 0
    /// How many there are.
    public var fileTotal: Int
    /// How many bytes of changesets were copied.
    public var bytes: UInt64 = 0
    /// How many there are.
    public var byteTotal: UInt64
}

/// Copies a store of an older format into the shards of a new one, file by file (`Spec/Durability.md`, section 3). The
/// old database stays as it is, under another name in the end.
///
/// It can be interrupted everywhere: a synced file has a row in its shard when all else of it is there, and what a file
/// without one has is dropped when the migration goes on. The states are made anew from the logs.
struct StoreMigration {
    private let store: SQLiteStore
    private let directory: DataDirectory

    init(to store: SQLiteStore, in directory: DataDirectory) {
        self.store = store
        self.directory = directory
    }

    func run(_ report: (StoreMigrationProgress) throws -> Void) throws(HistoryError) {
        let old = try OldStore(at: directory.path(of: try source()))
        try translatingErrors {
            for shard in store.shards { try shard.setFlushing(false) }
            let total = try old.total()
            var progress = StoreMigrationProgress(fileTotal: total.files, byteTotal: total.bytes)
            var last = Int64.min
            while let file = try old.file(after: last) {
                last = file.number
                let bytes = progress.bytes
                try report(progress)
                try migrate(file, of: old) { copied in
                    progress.bytes = bytes + min(copied, file.cumulativeSize)
                    try report(progress)
                }
                progress.bytes = bytes + file.cumulativeSize
                progress.fileCount += 1
            }
            // From here on everything is durable.
            for shard in store.shards { try shard.setFlushing(true) }
            try report(progress)
            try old.queue.close()
            try retireSource { try report(progress) }
        }
    }

    // MARK: The old database

    /// Its name: the marker takes its place in the last step.
    private func source() throws(HistoryError) -> String {
        let hasOld = try translatingErrors(in: DataDirectory.markerName) {
            guard directory.size(of: DataDirectory.markerName) ?? 0 > 0 else { return false }
            let queue = try DatabaseQueue(path: directory.path(of: DataDirectory.markerName))
            defer { try? queue.close() }
            return try queue.read { db in
                if case .older = try StoreSchema.format.examine(db) { return true }
                return false
            }
        }
        if hasOld { return DataDirectory.markerName }
        guard directory.size(of: DataDirectory.migratedName) ?? 0 > 0 else {
            throw HistoryError(
                .storeUnusable, "\(DataDirectory.markerName), which was being migrated, is missing: restore a backup")
        }
        return DataDirectory.migratedName
    }

    /// Older programs find the old database or the marker under its name, and never nothing.
    private func retireSource(_ step: () throws -> Void) throws {
        let marker = directory.path(of: DataDirectory.markerName)
        let migrated = directory.path(of: DataDirectory.migratedName)
        if try source() == DataDirectory.markerName {
            unlink(migrated)
            guard link(marker, migrated) == 0 else {
                throw HistoryError(.storeFailed, "\(migrated): \(DataDirectory.lastError)")
            }
            try step()
        }
        try directory.putMarker()
        try step()
    }

    // MARK: A file

    private func migrate(_ file: OldStore.File, of old: OldStore, _ report: (UInt64) throws -> Void) throws {
        let shard = store.shard(of: file.path)
        let isThere = try shard.pool.read { db in try SQLiteFile.find(file.path, in: db) != nil }
        if !isThere { try FileMigration(of: file, from: old, to: shard).run(report) }
        guard file.hasState, file.version > 0 else { return }
        try report(file.cumulativeSize)
        do throws(HistoryError) {
            // Opening it applies what the state lacks.
            _ = try SyncedFile(path: file.path, store: store)
        } catch {
            // Who opens a damaged file later is told so; the others are not to wait for its repair.
            guard error.code == .storeDamaged else { throw error }
        }
    }
}

/// Copies one synced file. What is damaged stays damaged: it gets no checksum that would hide it.
private final class FileMigration {
    private let file: OldStore.File
    private let old: OldStore
    private let shard: StoreShard
    private let id: SyncedFileID
    private let start: Checksum
    /// The checksums of the newest entry that was copied, in the old form and in the new.
    private var links: (old: Checksum?, new: Checksum?)
    private var newest: ServerVersion

    init(of file: OldStore.File, from old: OldStore, to shard: StoreShard) throws {
        self.file = file
        self.old = old
        self.shard = shard
        id = SyncedFileID(file.number, shard: shard.number)
        start = Checksum(startOf: file.path)
        links = (start, start)
        newest = try file.row.number(6)
    }

    func run(_ report: (UInt64) throws -> Void) throws {
        try dropRest()
        try copyLog(report)
        try copyClientFiles()
        try copyReciprocals()
        try copyKeys()
        try report(file.cumulativeSize)
        try shard.pool.write { db in try SQLiteFile(id: id, db: db).store(try record()) }
        shard.didStore(file.number)
    }

    private func record() throws -> FileRecord {
        var record = FileRecord(number: file.number, path: file.path)
        record.head = FileHead(
            version: file.version, versionSalt: try file.row.number(4), cumulativeSize: try file.row.number(5),
            baseVersion: try file.row.number(6), baseSalt: try file.row.number(7), nextIdent: try file.row.number(8))
        record.chain = file.chain == links.old ? links.new : file.chain ?? Checksum(low: 0, high: 0)
        return record
    }

    /// What an interrupted migration has left.
    private func dropRest() throws {
        for table in ["log_entry", "client_file", "reciprocal", "conflict_key", "idempotency_key"] {
            try shard.pool.write { db in
                try db.execute(sql: "DELETE FROM \(table) WHERE file = ?", arguments: [file.number])
            }
        }
    }

    /// Calls `insert` for all rows, each piece in a transaction.
    /// - Parameter next: what follows a row; `first` is what follows nothing.
    private func copy<Key>(
        from first: Key, _ rows: (Key) throws -> [Row], next: (Row) throws -> Key,
        _ insert: (Row, SQLiteFile) throws -> Void
    ) throws {
        var key = first
        while case let piece = try rows(key), let last = piece.last {
            key = try next(last)
            try shard.pool.write { db in
                let file = SQLiteFile(id: id, db: db)
                for row in piece { try insert(row, file) }
            }
        }
    }

    private func copyLog(_ report: (UInt64) throws -> Void) throws {
        var bytes: UInt64 = 0
        try copy(
            from: Int64.min,
            { after in
                try report(bytes)
                return try old.entries(of: file, after: after)
            }, next: { Int64(bitPattern: try $0.number(0)) }
        ) { row, target in
            let stored = Checksum(bytes: try row.bytes(7)), changeset = try row.bytes(6)
            bytes += UInt64(changeset.count)
            let checksum = try newLink(of: row, stored) ?? stored
            try target.execute(
                """
                INSERT INTO log_entry
                (file, version, salt, origin, client_version, timestamp, cumulative_size, changeset, checksum)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                [id.number] + StatementArguments((0..<6).map { row[$0] as DatabaseValue })
                    + [Data(changeset), Data(checksum?.bytes ?? [])])
            links = (stored, checksum)
        }
    }

    /// Nil if the entry is not what was written.
    private func newLink(of row: Row, _ stored: Checksum?) throws -> Checksum? {
        guard
            let entry = try? LogEntry(
                version: row.number(0), salt: row.number(1), origin: row.number(2), clientVersion: row.number(3),
                timestamp: row.number(4), cumulativeSize: row.number(5), changeset: row.bytes(6))
        else { return nil }
        defer { newest = entry.version }
        let words = [
            entry.version.rawValue, entry.salt.rawValue, entry.origin.rawValue, entry.clientVersion.rawValue,
            entry.timestamp.rawValue, entry.cumulativeSize,
        ]
        guard entry.version == newest + 1, let stored, stored == links.old?.keyed(words, entry.changeset) else {
            return nil
        }
        return links.new?.following(entry)
    }

    private func copyClientFiles() throws {
        try copy(
            from: Int64.min, { try old.clientFiles(of: file, after: $0) },
            next: { Int64(bitPattern: try $0.number(0)) }
        ) { row, target in
            let receipt = try row.optionalNumber(8).map { version in
                Receipt(version: ServerVersion(rawValue: version), clientVersion: try row.number(9))
            }
            let lastSeen = try row.number(5) as UInt64
            let clientFile = ClientFile(
                ident: try row.number(0), salt: try row.number(1),
                uploadCursor: UploadCursor(clientVersion: try row.number(2), serverVersion: try row.number(3)),
                lockedVersion: try row.number(4), lastSeen: lastSeen, isExpired: lastSeen == 0,
                user: try row.text(6), newestReceipt: receipt)
            try target.store(clientFile, start: start)
            guard Checksum(bytes: try row.bytes(7)) != oldChecksum(of: clientFile) else { return }
            try target.execute(
                "UPDATE client_file SET checksum = ? WHERE file = ? AND ident = ?",
                [Data(try row.bytes(7)), id.number, target.stored(clientFile.ident)])
        }
    }

    private func oldChecksum(of file: ClientFile) -> Checksum {
        let words = [
            file.ident.rawValue, file.salt.rawValue, file.uploadCursor.clientVersion.rawValue,
            file.uploadCursor.serverVersion.rawValue, file.lockedVersion.rawValue, file.lastSeen,
            file.user == nil ? 0 : 1,
        ]
        return start.keyed(words, Array((file.user ?? "").utf8))
    }

    /// Their checksums are the same in both formats.
    private func copyReciprocals() throws {
        try copy(
            from: (Int64.min, Int64.min), { try old.reciprocals(of: file, after: $0) },
            next: { (Int64(bitPattern: try $0.number(0)), Int64(bitPattern: try $0.number(1))) }
        ) { row, target in
            try target.execute(
                "INSERT INTO reciprocal (file, ident, version, changeset, checksum) VALUES (?, ?, ?, ?, ?)",
                [id.number] + StatementArguments((0..<4).map { row[$0] as DatabaseValue }))
        }
    }

    private func copyKeys() throws {
        try copy(
            from: (Int64.min, Int64.min), { try old.conflictKeys(of: file, after: $0) },
            next: { (Int64(bitPattern: try $0.number(0)), Int64(bitPattern: try $0.number(1))) }
        ) { row, target in
            try target.execute(
                "INSERT INTO conflict_key (file, key, version, origin) VALUES (?, ?, ?, ?)",
                [id.number] + StatementArguments((0..<3).map { row[$0] as DatabaseValue }))
        }
        try copy(
            from: Int64.min, { try old.idempotencyKeys(of: file, after: $0) },
            next: { Int64(bitPattern: try $0.number(0)) }
        ) { row, target in
            try target.execute(
                "INSERT INTO idempotency_key (file, number, key, version) VALUES (?, ?, ?, ?)",
                [id.number] + StatementArguments((0..<3).map { row[$0] as DatabaseValue }))
        }
    }
}

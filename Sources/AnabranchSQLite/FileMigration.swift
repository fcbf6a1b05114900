import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// Copies one synced file. What is damaged stays damaged: it gets no checksum that would hide it. Of what cannot be
/// read there is nothing in the copy, and the record of the copy is damaged then: nobody shall go on without it.
final class FileMigration {
    private typealias Key = (Int64, Int64)

    private let file: OldStore.File
    private let old: OldStore
    private let shard: StoreShard
    private let id: SyncedFileID
    private let start: Checksum
    /// The checksums of the newest entry that was copied, in the old form and in the new.
    private var links: (old: Checksum?, new: Checksum?)
    private var newest: ServerVersion
    /// The newest entry that was copied, by origin.
    private var receipts: [ClientFileID: Receipt] = [:]
    private var isWhole: Bool

    init(of file: OldStore.File, from old: OldStore, to shard: StoreShard) {
        self.file = file
        self.old = old
        self.shard = shard
        id = SyncedFileID(file.number, shard: shard.number)
        start = Checksum(startOf: file.path)
        links = (start, start)
        newest = file.head.baseVersion
        isWhole = file.isReadable
    }

    func run(_ report: (UInt64) throws -> Void) throws {
        try dropRest()
        isWhole = try isReadable { try copyLog(report) } && isWhole
        for part in [copyClientFiles, copyReciprocals] { isWhole = try isReadable(part) && isWhole }
        // A file can go on without: a write of the server that is repeated with a lost key is made again.
        _ = try isReadable(copyIdempotencyKeys)
        try report(file.size)
        try shard.pool.write { db in try SQLiteFile(id: id, db: db).store(record) }
        shard.didStore(file.number)
    }

    /// - Parameter part: copies up to what cannot be read.
    private func isReadable(_ part: () throws -> Void) throws -> Bool {
        do { try part() } catch let error where error.isOldDamage { return false }
        return true
    }

    private var record: FileRecord {
        var record = FileRecord(number: file.number, path: file.path)
        record.head = file.head
        record.chain = (isWhole && file.chain == links.old ? links.new : nil) ?? Checksum(low: 0, high: 0)
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
    /// - Parameter key: of a row; they ascend.
    private func copy(
        _ rows: (Key) throws -> [Row], key: (Row) throws -> Key, _ insert: (Row, SQLiteFile) throws -> Void
    ) throws {
        var last: Key = (.min, .min)
        while case let piece = try rows(last), !piece.isEmpty {
            let damage: (any Error)? = try shard.pool.write { db in
                let target = SQLiteFile(id: id, db: db)
                do {
                    for row in piece {
                        let next = try key(row)
                        guard next > last else { throw HistoryError(.storeDamaged, "rows are out of order") }
                        try insert(row, target)
                        last = next
                    }
                } catch let error where error.isOldDamage {
                    // What comes before stays.
                    return error
                }
                return nil
            }
            if let damage { throw damage }
        }
    }

    /// The conflict keys are made anew, so that damage to the old ones is none of the file.
    private func copyLog(_ report: (UInt64) throws -> Void) throws {
        var bytes: UInt64 = 0
        try copy(
            { after in
                try report(bytes)
                return try old.entries(of: file, after: after.0)
            }, key: { (try Self.key($0, 0), 0) }
        ) { row, target in
            let stored = Checksum(bytes: try row.bytes(7)), changeset = try row.bytes(6)
            bytes += UInt64(changeset.count)
            let entry = try? Self.entry(row), checksum = entry.flatMap { newLink(of: $0, stored) } ?? stored
            let packed = PackedContent.packed(changeset)
            try target.execute(
                """
                INSERT INTO log_entry (file, version, salt, origin, client_version, timestamp, cumulative_size,
                changeset, checksum, content_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                values(of: row, 6) + [
                    packed ?? Data(changeset), Data(checksum?.bytes ?? []), packed.map { _ in changeset.count },
                ])
            links = (stored, checksum)
            guard let entry else { return }
            if entry.origin > 1 {
                receipts[entry.origin] = Receipt(version: entry.version, clientVersion: entry.clientVersion)
            }
            // A changeset that cannot be decoded writes none.
            for key in (try? entry.conflictKeys()) ?? [] { try target.store(key) }
        }
    }

    private static func key(_ row: Row, _ index: Int) throws -> Int64 { Int64(bitPattern: try row.number(index)) }

    private static func entry(_ row: Row) throws -> LogEntry {
        try LogEntry(
            version: row.number(0), salt: row.number(1), origin: row.number(2), clientVersion: row.number(3),
            timestamp: row.number(4), cumulativeSize: row.number(5), changeset: row.bytes(6))
    }

    /// Nil if the entry is not what was written.
    private func newLink(of entry: LogEntry, _ stored: Checksum?) -> Checksum? {
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
        try copy({ try old.clientFiles(of: file, after: $0.0) }, key: { (try Self.key($0, 0), 0) }) { row, target in
            let ident: ClientFileID = try row.number(0), lastSeen: UInt64 = try row.number(5)
            let clientFile = ClientFile(
                ident: ident, salt: try row.number(1),
                uploadCursor: UploadCursor(clientVersion: try row.number(2), serverVersion: try row.number(3)),
                lockedVersion: try row.number(4), lastSeen: lastSeen, isExpired: lastSeen == 0,
                user: try row.text(6), newestReceipt: receipts[ident])
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
        try copy({ try old.reciprocals(of: file, after: $0) }, key: { try (Self.key($0, 0), Self.key($0, 1)) }) {
            try $1.execute(
                "INSERT INTO reciprocal (file, ident, version, changeset, checksum) VALUES (?, ?, ?, ?, ?)",
                self.values(of: $0, 2) + [PackedContent.stored($0.bytes(2)), $0[3] as DatabaseValue])
        }
    }

    private func copyIdempotencyKeys() throws {
        try copy({ try old.idempotencyKeys(of: file, after: $0.0) }, key: { (try Self.key($0, 0), 0) }) {
            try $1.execute(
                "INSERT INTO idempotency_key (file, number, key, version) VALUES (?, ?, ?, ?)", self.values(of: $0, 3))
        }
    }

    private func values(of row: Row, _ count: Int) -> StatementArguments {
        [id.number] + StatementArguments((0..<count).map { row[$0] as DatabaseValue })
    }
}

import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// A store of format 1 or 2: one database, which is only read.
struct OldStore {
    /// A synced file of it.
    struct File {
        let number: Int64
        let path: VirtualPath
        let head: FileHead
        /// Whether its state was kept up to the newest version: a relay's is not.
        let hasState: Bool
        let chain: Checksum?
        /// Whether its record could be read.
        let isReadable: Bool

        var size: UInt64 { head.cumulativeSize }
    }

    let queue: DatabaseQueue
    /// Format 1 had neither states nor idempotency keys.
    private let hasStates: Bool

    init(at path: String) throws(HistoryError) {
        (queue, hasStates) = try translatingErrors(in: DataDirectory.migratedName) {
            var configuration = Configuration()
            configuration.readonly = true
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            return (queue, try queue.read { db in try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0 >= 2 })
        }
    }

    /// Puts what is in the write-ahead log of a store into the database, so that it is one file.
    static func settle(at path: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            guard try String.fetchOne(db, sql: "PRAGMA journal_mode = DELETE") == "delete" else {
                throw HistoryError(.storeUnusable, "another program reads \(DataDirectory.markerName)")
            }
        }
        try queue.close()
    }

    /// How many files it has, and how many bytes of changesets; for the progress alone. What is damaged does not count.
    func total() -> (files: Int, bytes: UInt64) {
        let sql = "SELECT COUNT(*), TOTAL(MAX(cumulative_size, 0)) FROM synced_file"
        let row = try? queue.read { db in try Row.fetchOne(db, sql: sql) }
        let bytes: Double = row?[1] ?? 0
        return (row?[0] ?? 0, UInt64(min(bytes, 0x1p62)))
    }

    // MARK: Files

    /// The numbers and names of the files, some at a time: from the table.
    func names(after number: Int64) throws -> [(number: Int64, path: VirtualPath)] {
        try names("SELECT id, path FROM synced_file NOT INDEXED WHERE id > ? ORDER BY id LIMIT ?", [number])
    }

    /// The same from the index, for a table that is damaged.
    func names(after path: VirtualPath?) throws -> [(number: Int64, path: VirtualPath)] {
        let relation = path == nil ? ">=" : ">"
        return try names(
            "SELECT id, path FROM synced_file WHERE path \(relation) ? ORDER BY path LIMIT ?", [Data(path?.bytes ?? [])]
        )
    }

    private func names(_ sql: String, _ key: StatementArguments) throws -> [(number: Int64, path: VirtualPath)] {
        try rows(sql, key + [Self.pieceCount]).map { row in
            (Int64(bitPattern: try row.number(0)), VirtualPath(try row.bytes(1)))
        }
    }

    /// A file, or what is known of it if its record is damaged.
    func file(_ number: Int64, _ path: VirtualPath) throws -> File {
        let sql = """
            SELECT version, version_salt, cumulative_size, base_version, base_salt, next_ident, chain,
            \(hasStates ? "state_version" : "version") FROM synced_file WHERE id = ?
            """
        do {
            guard let row = try rows(sql, [number]).first else { throw HistoryError(.storeDamaged, "it is gone") }
            let head = FileHead(
                version: try row.number(0), versionSalt: try row.number(1), cumulativeSize: try row.number(2),
                baseVersion: try row.number(3), baseSalt: try row.number(4), nextIdent: try row.number(5))
            return File(
                number: number, path: path, head: head, hasState: try row.number(7) == head.version,
                chain: Checksum(bytes: try row.bytes(6)), isReadable: true)
        } catch let error where error.isOldDamage {
            return File(
                number: number, path: path, head: FileHead(), hasState: false, chain: nil, isReadable: false)
        }
    }

    // MARK: What a file has

    /// The entries above a version, some at a time: whole rows, of which a damaged one may have any values.
    func entries(of file: File, after version: Int64) throws -> [Row] {
        try rows(
            """
            SELECT version, salt, origin, client_version, timestamp, cumulative_size, changeset, checksum
            FROM log_entry WHERE file = ? AND version > ? ORDER BY version LIMIT ?
            """, file, [version, Self.pieceCount])
    }

    /// With the newest entry that was received from each, at the end of the row.
    func clientFiles(of file: File, after ident: Int64) throws -> [Row] {
        let receipt =
            "FROM log_entry e INDEXED BY receipt WHERE e.file = c.file AND e.origin = c.ident AND c.ident > 1"
        return try rows(
            """
            SELECT ident, salt, client_version, reciprocal_base, locked_version, last_seen, user, checksum,
            (SELECT version \(receipt) ORDER BY version DESC LIMIT 1),
            (SELECT client_version \(receipt) ORDER BY version DESC LIMIT 1)
            FROM client_file c WHERE file = ? AND ident > ? ORDER BY ident LIMIT ?
            """, file, [ident, Self.pieceCount])
    }

    func reciprocals(of file: File, after key: (ident: Int64, version: Int64)) throws -> [Row] {
        try rows(
            """
            SELECT ident, version, changeset, checksum FROM reciprocal
            WHERE file = ? AND (ident, version) > (?, ?) ORDER BY ident, version LIMIT ?
            """, file, [key.ident, key.version, Self.pieceCount])
    }

    func conflictKeys(of file: File, after key: (key: Int64, version: Int64)) throws -> [Row] {
        try rows(
            """
            SELECT hash, version, origin FROM touch
            WHERE file = ? AND (hash, version) > (?, ?) ORDER BY hash, version LIMIT ?
            """, file, [key.key, key.version, Self.pieceCount])
    }

    func idempotencyKeys(of file: File, after number: Int64) throws -> [Row] {
        guard hasStates else { return [] }
        return try rows(
            "SELECT number, key, version FROM write_key WHERE file = ? AND number > ? ORDER BY number LIMIT ?", file,
            [number, Self.pieceCount])
    }

    private static let pieceCount = 1_000
    private static let pieceBytes = 4 << 20

    private func rows(_ sql: String, _ file: File, _ arguments: StatementArguments) throws -> [Row] {
        try rows(sql, [file.number] + arguments)
    }

    /// What comes before damage; nothing but damage is an error.
    private func rows(_ sql: String, _ arguments: StatementArguments) throws -> [Row] {
        try queue.read { db in
            var rows: [Row] = [], bytes = 0
            do {
                let cursor = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: arguments)
                while bytes < Self.pieceBytes, let row = try cursor.next() {
                    rows.append(row.copy())
                    for case (_, let value) in row {
                        if case .blob(let data) = value.storage { bytes += data.count }
                    }
                }
            } catch let error where error.isOldDamage && !rows.isEmpty {
                // Asking for what follows finds it again.
            }
            return rows
        }
    }
}

extension Error {
    /// Whether a database of an older format is not what was written. Its tables promise what those of this one ask
    /// for.
    var isOldDamage: Bool {
        if let error = self as? HistoryError { return error.code == .storeDamaged }
        guard let error = self as? DatabaseError else { return false }
        return error.isDamage || error.resultCode == .SQLITE_CONSTRAINT
    }
}

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
        let version: ServerVersion
        let cumulativeSize: UInt64
        /// Whether its state was kept up to the newest version: a relay's is not.
        let hasState: Bool
        /// `version_salt`, `cumulative_size`, `base_version`, `base_salt`, `next_ident`.
        let row: Row
        let chain: Checksum?
    }

    let queue: DatabaseQueue
    /// Format 1 had neither states nor idempotency keys.
    private let hasStates: Bool

    /// Opens the database and puts what is in its write-ahead log into it, so that it is one file.
    init(at path: String) throws(HistoryError) {
        (queue, hasStates) = try translatingErrors(in: DataDirectory.markerName) {
            let queue = try DatabaseQueue(path: path)
            let hasStates = try queue.writeWithoutTransaction { db in
                guard try String.fetchOne(db, sql: "PRAGMA journal_mode = DELETE") == "delete" else {
                    throw HistoryError(.storeUnusable, "another program reads \(DataDirectory.markerName)")
                }
                return try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0 >= 2
            }
            return (queue, hasStates)
        }
    }

    /// How many files it has, and how many bytes of changesets.
    func total() throws -> (files: Int, bytes: UInt64) {
        try queue.read { db in
            let row = try Row.fetchOne(
                db, sql: "SELECT COUNT(*), COALESCE(SUM(cumulative_size), 0) FROM synced_file")
            return (Int(clamping: try row?.number(0) ?? 0), try row?.number(1) ?? 0)
        }
    }

    /// The file with the lowest number above `number`; nil at the end.
    func file(after number: Int64) throws -> File? {
        try queue.read { db in
            let sql = """
                SELECT id, path, version, cumulative_size, version_salt, cumulative_size, base_version, base_salt,
                next_ident, chain, \(hasStates ? "state_version" : "0") FROM synced_file
                WHERE id > ? ORDER BY id LIMIT 1
                """
            guard let row = try Row.fetchOne(db, sql: sql, arguments: [number]) else { return nil }
            let version: ServerVersion = try row.number(2)
            return File(
                number: Int64(bitPattern: try row.number(0)), path: VirtualPath(try row.bytes(1)), version: version,
                cumulativeSize: try row.number(3), hasState: try !hasStates || row.number(10) == version, row: row,
                chain: Checksum(bytes: try row.bytes(9)))
        }
    }

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
        try queue.read { db in
            var rows: [Row] = [], bytes = 0
            let cursor = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [file.number] + arguments)
            while bytes < Self.pieceBytes, let row = try cursor.next() {
                rows.append(row.copy())
                for case (_, let value) in row {
                    if case .blob(let data) = value.storage { bytes += data.count }
                }
            }
            return rows
        }
    }
}

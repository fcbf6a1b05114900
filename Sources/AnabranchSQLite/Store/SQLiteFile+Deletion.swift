import AnabranchHistory
import GRDB

/// Deleted files: the record goes first, and all other rows of the file in pieces.
extension SQLiteFile {
    /// The amount that is deleted in one transaction: at least this many bytes of contents, or this many rows.
    private static let deletedBytes = 4 << 20, deletedRows = 4_096

    /// A table with rows of files.
    struct TableOfFiles {
        var name: String
        /// The columns that tell the rows of a file apart.
        var key = ["rowid"]
        /// The column that makes rows long.
        var content: String?
    }

    static let tablesOfFiles = [
        TableOfFiles(name: "log_segment", content: "block"),
        TableOfFiles(name: "archived_segment", content: "block"),
        TableOfFiles(name: "generation_segment", content: "block"),
        TableOfFiles(name: "log_entry", content: "changeset"), TableOfFiles(name: "received", content: "changeset"),
        TableOfFiles(name: "view_entry", content: "changeset"),
        TableOfFiles(name: "view_content", content: "content"),
        TableOfFiles(name: "view_field", key: ["class", "is_class", "field"]),
        TableOfFiles(name: "client_view", content: "predicates"), TableOfFiles(name: "ingested", content: "object"),
        TableOfFiles(name: "reciprocal", content: "changeset"),
        TableOfFiles(name: "withheld_schema", content: "changeset"),
        TableOfFiles(name: "door_record", content: "value"),
        TableOfFiles(name: "state_row", content: "content"),
        TableOfFiles(name: "idempotency_key", content: "key"), TableOfFiles(name: "generation", key: ["version"]),
        TableOfFiles(name: "conflict_key", key: ["key", "version"]), TableOfFiles(name: "client_file", key: ["ident"]),
    ]

    /// Deletes the file: from now on it does not exist, and `freeDeleted` frees the space it occupies.
    func delete() throws {
        guard newPath == nil else { return }
        try execute("INSERT INTO deleted_file (file) VALUES (?)", [id.number])
        try execute("DELETE FROM synced_file WHERE id = ?", [id.number])
    }

    /// The numbers of the files that were deleted and whose rows may be there.
    static func deleted(in db: Database) throws -> [Int64] {
        try Int64.fetchAll(db, sql: "SELECT file FROM deleted_file")
    }

    /// Deletes rows of files that were deleted.
    /// - Returns: whether there may be more.
    static func deleteRows(of files: [Int64], in db: Database) throws -> Bool {
        for file in files {
            for table in tablesOfFiles where try deleteRows(of: file, in: table, db) { return true }
        }
        return false
    }

    /// To be called when no rows of the files are left.
    static func forgetDeleted(_ files: [Int64], in db: Database) throws {
        for file in files { try db.execute(sql: "DELETE FROM deleted_file WHERE file = ?", arguments: [file]) }
    }

    /// - Returns: whether there were some.
    private static func deleteRows(of file: Int64, in table: TableOfFiles, _ db: Database) throws -> Bool {
        let size = table.content.map { "length(\($0))" } ?? "0", columns = table.key.joined(separator: ", ")
        let rows = try Row.fetchAll(
            db, sql: "SELECT \(size), \(columns) FROM \(table.name) WHERE file = ? LIMIT ?",
            arguments: [file, deletedRows])
        let condition = table.key.map { "AND \($0) = ?" }.joined(separator: " ")
        let deletion = try db.cachedStatement(sql: "DELETE FROM \(table.name) WHERE file = ? \(condition)")
        var bytes = 0
        for row in rows where bytes < deletedBytes {
            try deletion.execute(arguments: [file] + StatementArguments(row.databaseValues.dropFirst()))
            // A damaged row may have no contents.
            bytes += row[0] ?? 0
        }
        return !rows.isEmpty
    }
}

import AnabranchHistory
import GRDB

/// Deleted files: the record goes first, and what else there is of the file in pieces.
extension SQLiteFile {
    /// What is deleted in one transaction: so many bytes of contents at least, or so many rows.
    private static let deletedBytes = 4 << 20, deletedRows = 4_096

    /// A table with rows of files.
    struct TableOfFiles {
        var name: String
        /// What tells the rows of a file apart.
        var key = ["rowid"]
        /// What makes rows long.
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
        TableOfFiles(name: "state_row", content: "content"),
        TableOfFiles(name: "idempotency_key", content: "key"), TableOfFiles(name: "generation", key: ["version"]),
        TableOfFiles(name: "conflict_key", key: ["key", "version"]), TableOfFiles(name: "client_file", key: ["ident"]),
    ]

    /// From now on there is no such file; `freeDeleted` frees what it occupies.
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

    /// To be called when nothing is left of the files.
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

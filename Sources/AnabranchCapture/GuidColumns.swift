import AnabranchCore

// Columns that capture adds to tables on request, with the key of each row's object (`Spec/Capture.md`, section 3). The
// map decides what is in them: an application may write there what it likes.

extension CapturedDatabase {
    private func indexName(_ table: String) -> String { "sync_\(table)_guid" }

    /// Adds the column that the rule of a table asks for, and the index of it, unless they are there.
    ///
    /// - Parameter isNew: false for a table that is captured: a migration may have kept the column.
    /// - Throws: `CaptureError` with the code `notCapturable` if a view of the application fails then, or if another
    ///   table has a column of that name, so that a NATURAL JOIN would find no rows.
    func addGuids(to table: CapturedTable, among all: [CapturedTable], isNew: Bool) throws {
        guard let column = table.rule.guid else { return }
        func refused(_ reason: String) -> CaptureError {
            CaptureError(.notCapturable, reason, table: table.name, column: column)
        }
        func exists(_ source: String, _ values: String...) throws -> Bool {
            try db.value("SELECT 1 FROM \(source) = ? COLLATE NOCASE", values.map { SQLValue($0) }) != nil
        }
        if try !exists("pragma_table_xinfo(?) WHERE name", table.name, column) {
            if let other = all.first(where: { $0.number != table.number && $0.rule.guid == column }) {
                throw refused("\(other.name) has a column of that name: a NATURAL JOIN of both would find no rows")
            }
            let views = try db.rows("SELECT name FROM sqlite_schema WHERE type = 'view'").compactMap { $0[0].string }
                .filter { (try? db.compile("SELECT * FROM main.\($0.quoted)")) != nil }
            try db.execute("ALTER TABLE main.\(table.name.quoted) ADD COLUMN \(column.quoted) BLOB")
            for view in views {
                do { try db.compile("SELECT * FROM main.\(view.quoted)") } catch let error as SQLError {
                    throw refused("with another column the view \(view) fails: \(error)")
                }
            }
        } else if isNew {
            throw refused("the table has a column of that name")
        }
        let index = indexName(table.name)
        if try exists("sqlite_schema WHERE name", index) { return }
        try db.execute("CREATE INDEX main.\(index.quoted) ON \(table.name.quoted) (\(column.quoted))")
        try writeGuids(of: table, "sync_row")
    }

    /// Writes the keys of the objects of rows that are in a side table.
    func writeGuids(of table: CapturedTable, _ side: String) throws {
        guard table.rule.guid != nil else { return }
        for row in try db.rows("SELECT key, guid FROM \(side) WHERE tbl = ?", [.int(table.number)]) {
            try write(row[1].guid, to: RowKey(table: table.number, key: row[0]), of: table)
        }
    }

    func write(_ guid: UUIDBytes?, to row: RowKey, of table: CapturedTable) throws {
        guard let column = table.rule.guid?.quoted, let key = table.keyValues(row.key) else { return }
        let value = guid.map { SQLValue.blob($0.bytes) } ?? .null
        try db.run(
            "UPDATE main.\(table.name.quoted) SET \(column) = ? WHERE \(table.isRow) AND \(column) IS NOT ?",
            [value] + table.rowValues(key) + [value])
    }

    /// Takes the column of a table away again.
    func dropGuids(of number: Int64?) throws {
        let rows = try db.rows("SELECT name, rule FROM sync_table WHERE id = ?", [number.map { .int($0) } ?? .null])
        guard let name = rows.first?[0].string, let rule = rows.first?[1].string,
            let column = try TableRule(try JSONValue(parsing: rule.utf8), table: name).guid,
            try db.value("SELECT 1 FROM sqlite_schema WHERE name = ?", [SQLValue(indexName(name))]) != nil
        else { return }
        try db.execute(
            """
            DROP INDEX main.\(indexName(name).quoted);
            ALTER TABLE main.\(name.quoted) DROP COLUMN \(column.quoted)
            """)
    }
}

import AnabranchCore

/// A row as the side tables name it: its table, and its key as the database has it.
struct RowKey: Hashable {
    let table: Int64
    let key: SQLValue
}

// The map between rows and objects (`Spec/Capture.md`, section 3).

extension CapturedDatabase {
    func guid(of row: RowKey) throws -> UUIDBytes? {
        try db.value("SELECT guid FROM sync_row WHERE tbl = ? AND key = ?", [.int(row.table), row.key])?.guid
    }

    /// The object of a row, and the row as it was when it was last seen.
    func known(_ row: RowKey) throws -> (guid: UUIDBytes, seen: RowDigest?)? {
        var found: (guid: UUIDBytes, seen: RowDigest?)?
        try db.run("SELECT guid, seen FROM sync_row WHERE tbl = ? AND key = ?", [.int(row.table), row.key]) { row in
            found = row[0].guid.map { ($0, row[1].bytes.map { RowDigest(stored: $0) }) }
        }
        return found
    }

    func row(of guid: UUIDBytes) throws -> RowKey? {
        var found: RowKey?
        try db.run("SELECT tbl, key FROM sync_row WHERE guid = ?", [.blob(guid.bytes)]) { row in
            found = row[0].int.map { RowKey(table: $0, key: row[1]) }
        }
        return found
    }

    func map(_ row: RowKey, to guid: UUIDBytes, seen: RowDigest) throws {
        try db.run(
            "INSERT OR REPLACE INTO sync_row (tbl, key, guid, seen) VALUES (?, ?, ?, ?)",
            [.int(row.table), row.key, .blob(guid.bytes), .blob(seen.bytes)])
    }

    /// Records what is in a row that keeps its object.
    func record(_ row: RowKey, seen: RowDigest) throws {
        try db.run(
            "UPDATE sync_row SET seen = ? WHERE tbl = ? AND key = ?", [.blob(seen.bytes), .int(row.table), row.key])
    }

    func unmap(_ guid: UUIDBytes) throws { try db.run("DELETE FROM sync_row WHERE guid = ?", [.blob(guid.bytes)]) }

    /// The key of the row that a value refers to, with the affinity and collation of the key; if the row does not
    /// exist, the key that it would have; nil if no row can have it.
    func key(referredToBy value: SQLValue, in target: CapturedTable) throws -> SQLValue? {
        let key = target.key(forValue: value)
        if value == .null || target.shape.isKeyLocal && key != nil { return key }
        guard let column = target.shape.keyColumns.first, target.shape.keyColumns.count == 1 else { return nil }
        let found = try db.value(
            "SELECT \(target.keyText) FROM main.\(target.name.quoted) WHERE \(column.quoted) = ?", [value])
        return found ?? key
    }

    /// The row that a value refers to, or that may come; nil if no row can have such a key.
    func row(referredToBy value: SQLValue, in target: CapturedTable) throws -> RowKey? {
        try key(referredToBy: value, in: target).map { RowKey(table: target.number, key: $0) }
    }

    /// The references of rows to keys of a table, whether there are such rows or not.
    func references(to keys: [SQLValue], in target: CapturedTable) throws -> [DanglingReference] {
        let values = keys.compactMap { target.keyValues($0)?.first }
        let places = Array(repeating: "?", count: Self.referredValues).joined(separator: ", ")
        var found: [DanglingReference] = []
        for table in tables {
            for (index, column) in table.properties.enumerated() where column.target == target.name {
                let name = column.name.quoted
                for start in stride(from: 0, to: values.count, by: Self.referredValues) {
                    // A place without a value is null, to which nothing refers.
                    let rows = try db.rows(
                        """
                        SELECT \(table.keyText), \(name) FROM main.\(table.name.quoted) WHERE \(name) IN (\(places))
                        """, Array(values[start..<min(start + Self.referredValues, values.count)]))
                    for row in rows {
                        guard let referred = try self.row(referredToBy: row[1], in: target) else { continue }
                        found.append(
                            DanglingReference(
                                target: referred, row: RowKey(table: table.number, key: row[0]), column: index))
                    }
                }
            }
        }
        return found
    }

    /// The number of values that one query looks for: without an index it reads the whole table.
    private static let referredValues = 1_000

    /// The columns of a row whose references lead to rows without objects.
    func danglingColumns(of row: RowKey) throws -> Set<Int> {
        let found = try db.rows(
            "SELECT cid FROM sync_dangling WHERE tbl = ? AND key = ?", [.int(row.table), row.key])
        return Set(found.compactMap { $0[0].int.map { Int($0) } })
    }

    /// The row of a key: the values of its columns, and whether the filter holds; nil if there is none.
    func readRow(_ key: SQLValue, of table: CapturedTable) throws -> (values: [SQLValue], fits: Bool)? {
        guard let keyValues = table.keyValues(key) else { return nil }
        var found: (values: [SQLValue], fits: Bool)?
        try db.run(table.selectRow, table.rowValues(keyValues)) { row in
            var values = row.values
            let fits = values.popLast()
            found = (values, fits?.isTrue ?? true)
        }
        return found
    }
}

extension StateValue {
    /// The object that a link leads to; nil for one to an object that is gone.
    func linked(in state: ObjectGraph) throws -> UUIDBytes? {
        guard case .link(let reference) = self, case .uuid(let guid) = reference.key, try state.contains(reference)
        else { return nil }
        return guid
    }
}

extension SQLValue {
    var guid: UUIDBytes? { bytes.flatMap { UUIDBytes($0) } }

    /// True if a condition with this value holds.
    var isTrue: Bool {
        switch self {
        case .int(let value): value != 0
        case .real(let value): value != 0
        case .null, .text, .blob: false
        }
    }
}

import AnabranchCore

// Changes that no trigger has seen are found by comparing rows with their known content (`Spec/Capture.md`, section 5).

extension CapturedDatabase {
    /// - Throws: `CaptureError` if nothing is installed, or capture is paused.
    func checkUsable() throws {
        try checkInstalled()
        guard try !isPaused else { throw CaptureError(.paused, "capture is paused: resume it first") }
    }

    /// Looks whether the triggers are there and whole, and makes them again where they are not.
    /// - Returns: the tables whose triggers were missing or did not fit any more.
    @discardableResult func check() throws -> [String] {
        try checkUsable()
        if try db.value("SELECT 1 FROM sync_state WHERE name LIKE 'noting:%'") != nil {
            throw CaptureError(.notInstalled, "the installation was interrupted: install again, and it goes on")
        }
        let version = try db.value("PRAGMA schema_version")
        guard version != checkedSchema else { return [] }
        var renewed: [String] = []
        try db.transaction {
            try load()
            if let error = broken.first { throw error }
            for table in tables where try !isAsInstalled(table) {
                renewed.append(table.name)
                try renew(table)
            }
            checkedSchema = try db.value("PRAGMA schema_version")
        }
        if !renewed.isEmpty { db.forgetStatements() }
        return renewed
    }

    /// Throws if the schema is not the one that was checked: what is known of the tables may be wrong.
    func checkSchema() throws {
        guard try db.value("PRAGMA schema_version") == checkedSchema else { throw SchemaChanged() }
    }

    struct SchemaChanged: Error {}

    /// True if the triggers are whole, and the columns those that they were made for: SQLite itself renames columns in
    /// triggers.
    func isAsInstalled(_ table: CapturedTable) throws -> Bool {
        guard try installedColumns(of: table) == SQLValue(columnsText(table)) else { return false }
        let found = try db.rows(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE",
            [SQLValue(table.name)])
        let sql = Dictionary(found.map { ($0[0].string ?? "", $0[1].string) }) { $1 }
        return table.triggers.allSatisfy { sql[$0.name] == $0.sql }
    }

    private func installedColumns(of table: CapturedTable) throws -> SQLValue? {
        try db.value("SELECT columns FROM sync_table WHERE id = ?", [.int(table.number)])
    }

    /// Makes the triggers of a table again, and has its rows compared.
    /// - Throws: `CaptureError` if its primary key has another form.
    func renew(_ table: CapturedTable) throws {
        try checkKeys(of: table)
        try addGuids(to: table, among: tables, isNew: false)
        try makeTriggers(of: table)
        try set("compare:\(table.number)", to: .int(1))
        let columns = SQLValue(columnsText(table))
        guard try installedColumns(of: table) != columns else { return }
        try db.run("UPDATE sync_table SET columns = ? WHERE id = ?", [columns, .int(table.number)])
        // Objects may have had what is a column now.
        try set("repair", to: .int(1))
    }

    /// Refuses a table whose primary key has another form than when its rows were seen, as other columns in number: no
    /// row would have its object.
    private func checkKeys(of table: CapturedTable) throws {
        for order in ["ASC", "DESC"] {
            let first = "SELECT key FROM sync_row WHERE tbl = ? ORDER BY key \(order) LIMIT 1"
            guard let key = try db.value(first, [.int(table.number)]) else { return }
            guard table.shape.isKeyLocal ? key.int != nil : table.keyValues(key) != nil else {
                let reason = "it has another primary key: release it (uninstall --tables), and install it again"
                throw CaptureError(.notCapturable, reason + " with 'match', or its rows are doubled", table: table.name)
            }
        }
    }

    /// Has the next pass send all rows: the database is an older one, and its rows win.
    func sendAllRows() throws {
        try db.transaction {
            for table in tables {
                for name in ["compare", "restored"] { try set("\(name):\(table.number)", to: .int(1)) }
            }
        }
    }

    /// Writes an entry for each row that is not as it was known, as triggers would have done; for each one if all are
    /// sent.
    /// - Returns: the tables that were compared.
    func compareTables() throws -> [CapturedTable] {
        let compared = try tables.filter { try state("compare:\($0.number)") != nil }
        for table in compared {
            var last: SQLValue?
            repeat {
                last = try db.transaction {
                    try checkSchema()
                    return try compareRows(of: table, after: last)
                }
            } while last != nil
            try db.transaction {
                try checkSchema()
                try recordMissingRows(of: table)
            }
        }
        return compared
    }

    /// Records that what was found is collected.
    func endComparison(of tables: [CapturedTable]) throws {
        try db.transaction {
            try checkSchema()
            for table in tables {
                for name in ["compare", "restored"] { try set("\(name):\(table.number)", to: nil) }
            }
        }
    }

    /// - Returns: the key of the last row; nil if there are no more.
    private func compareRows(of table: CapturedTable, after last: SQLValue?) throws -> SQLValue? {
        let rest = table.rows(after: last), isRestored = try state("restored:\(table.number)") != nil
        return try forEach(
            """
            SELECT \(table.keyText), \(table.selectedColumns) FROM main.\(table.name.quoted)
            WHERE \(rest.condition) ORDER BY \(table.keyList)
            """, rest.values
        ) { row in
            let key = row[0]
            let map = try db.rows("SELECT seen FROM sync_row WHERE tbl = ? AND key = ?", [.int(table.number), key])
            guard let stored = map.first?[0] else { return try record(table, key, 5) }
            if isRestored { return try record(table, key, 7) }
            let values = Array(row.dropFirst().prefix(table.properties.count))
            let before = RowDigest(stored: stored.bytes ?? [])
            let changed = RowDigest(values, of: table).changes(since: before, values)
            guard changed.contains(true) else { return }
            try db.run(
                "INSERT INTO sync_history (tbl, key, action, was) VALUES (?, ?, 2, ?)", [.int(table.number), key, key])
        }
    }

    /// Calls `body` with the first rows of a query: as many as one transaction reads, one at a time.
    /// - Returns: the first value of the last row; nil if there are no more.
    func forEach(_ sql: String, _ values: [SQLValue], _ body: ([SQLValue]) throws -> Void) throws -> SQLValue? {
        struct Enough: Error { let last: SQLValue? }
        var count = 0, bytes = 0
        do {
            try db.run("\(sql) LIMIT \(Self.readRows)", values) { row in
                let row = row.values
                try body(row)
                count += 1
                bytes += row.reduce(0) { $0 + $1.size }
                if count == Self.readRows || bytes >= Self.readBytes { throw Enough(last: row.first) }
            }
            return nil
        } catch let enough as Enough { return enough.last }
    }

    private static let readRows = 2_000
    private static let readBytes = 4 << 20

    /// Writes an entry for each row that is known and not there any more.
    func recordMissingRows(of table: CapturedTable) throws {
        try db.run(
            """
            INSERT INTO sync_history (tbl, key, action) SELECT tbl, key, 3 FROM sync_row
            WHERE tbl = ? AND key NOT IN (SELECT \(table.keyText) FROM main.\(table.name.quoted))
            """, [.int(table.number)])
    }

    private func record(_ table: CapturedTable, _ key: SQLValue, _ action: Int64) throws {
        try db.run(
            "INSERT INTO sync_history (tbl, key, action) VALUES (?, ?, ?)", [.int(table.number), key, .int(action)])
    }
}

/// The digests of the values of a row, by which changes are found that no trigger has seen. Each is that of the name
/// of the column and its value, so that they mean the same when there are other columns.
struct RowDigest: Equatable {
    let bytes: [UInt8]

    init(stored bytes: [UInt8]) { self.bytes = bytes }

    init(_ values: [SQLValue], of table: CapturedTable) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(8 * values.count)
        for (mark, value) in zip(table.digestMarks, values) {
            let digest = mark | Self.hash(value) & (1 << Self.valueBits - 1)
            withUnsafeBytes(of: digest.littleEndian) { bytes += $0 }
        }
        self.bytes = bytes
    }

    private var digests: [UInt64] {
        stride(from: 0, to: bytes.count, by: 8).map { start in
            bytes[start..<min(start + 8, bytes.count)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    /// For each column, whether it has not had the value before. A new column without a value has not changed.
    func changes(since before: RowDigest, _ values: [SQLValue]) -> [Bool] {
        let known = Set(before.digests)
        let columns = before.columns
        return zip(digests, values).map { digest, value in
            !known.contains(digest) && (value != .null || columns.contains(digest >> Self.valueBits))
        }
    }

    private var columns: Set<UInt64> { Set(digests.map { $0 >> Self.valueBits }) }

    private static let valueBits: UInt64 = 48

    /// The highest bits of the digests of a column: sixteen of the hash of its name. The others are of the value's.
    static func mark(of column: String) -> UInt64 { hash(SQLValue(column)) << valueBits }

    /// The 64-bit FNV-1a hash of the storage class and the bytes.
    private static func hash(_ value: SQLValue) -> UInt64 {
        var digest: UInt64 = 0xcbf2_9ce4_8422_2325
        func add(_ byte: UInt8) { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01b3 }
        func add(_ word: UInt64) {
            for shift in stride(from: UInt64(0), to: 64, by: 8) { add(UInt8(truncatingIfNeeded: word >> shift)) }
        }
        switch value {
        case .null: add(0 as UInt8)
        case .int(let value):
            add(1 as UInt8)
            add(UInt64(bitPattern: value))
        case .real(let value):
            add(2 as UInt8)
            add(value.bitPattern)
        case .text(let bytes):
            add(3 as UInt8)
            for byte in bytes { add(byte) }
        case .blob(let bytes):
            add(4 as UInt8)
            for byte in bytes { add(byte) }
        }
        return digest
    }
}

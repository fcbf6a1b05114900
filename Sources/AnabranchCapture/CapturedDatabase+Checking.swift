import AnabranchCore

// Changes that no trigger has seen are found by comparing rows with what was known of them (`Spec/Capture.md`,
// section 5).

extension CapturedDatabase {
    /// - Throws: `CaptureError` if nothing is installed, or capture is paused.
    func checkUsable() throws {
        try checkInstalled()
        guard try !isPaused else { throw CaptureError(.paused, "capture is paused: resume it first") }
    }

    /// True if rows may have changed without a trigger.
    var needsComparison: Bool {
        get throws { try db.value("SELECT 1 FROM sync_state WHERE name LIKE 'compare:%'") != nil }
    }

    /// Looks whether the triggers are there and whole, and makes them again where they are not.
    /// - Returns: the tables whose triggers were missing or did not fit any more.
    @discardableResult
    func check() throws -> [String] {
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
            for table in tables where try !hasWholeTriggers(table) {
                renewed.append(table.name)
                try renew(table)
            }
        }
        if !renewed.isEmpty { db.forgetStatements() }
        checkedSchema = try db.value("PRAGMA schema_version")
        return renewed
    }

    private func hasWholeTriggers(_ table: CapturedTable) throws -> Bool {
        let found = try db.rows(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE",
            [SQLValue(table.name)])
        let sql = Dictionary(found.map { ($0[0].string ?? "", $0[1].string) }) { $1 }
        return table.triggers.allSatisfy { sql[$0.name] == $0.sql }
    }

    /// Makes the triggers of a table again, and has its rows compared.
    func renew(_ table: CapturedTable) throws {
        try makeTriggers(of: table)
        let known = try db.value("SELECT columns FROM sync_table WHERE id = ?", [.int(table.number)])
        if try state("compare:\(table.number)") == nil { try set("compare:\(table.number)", to: known) }
        try db.run(
            "UPDATE sync_table SET columns = ? WHERE id = ?", [SQLValue(columnsText(table)), .int(table.number)])
    }

    /// Writes an entry for each row that is not as it was known, as triggers would have done.
    func compareRenewedTables() throws {
        for table in tables {
            guard let columns = try state("compare:\(table.number)")?.string else { continue }
            let old = (try? JSONValue(parsing: columns.utf8))?.array?.compactMap(\.string) ?? []
            let positions = table.properties.map { old.firstIndex(of: $0.name) }
            var last: SQLValue?
            repeat {
                last = try db.transaction { try compareRows(of: table, after: last, positions) }
            } while last != nil
            try db.transaction {
                try noteMissingRows(of: table)
                try set("compare:\(table.number)", to: nil)
            }
        }
    }

    /// - Parameter positions: the places of the columns in the digests that are stored.
    /// - Returns: the key of the last row; nil if there are no more.
    private func compareRows(of table: CapturedTable, after last: SQLValue?, _ positions: [Int?]) throws -> SQLValue? {
        let columns = table.shape.keyColumns.map(\.quoted).joined(separator: ", ")
        let places = table.shape.keyColumns.map { _ in "?" }.joined(separator: ", ")
        let rest = last == nil ? "" : "WHERE (\(columns)) > (\(places))"
        let found = try db.rows(
            """
            SELECT \(table.key()), \(table.selectedColumns) FROM main.\(table.name.quoted) \(rest)
            ORDER BY \(columns) LIMIT \(Self.comparedRows)
            """, last.flatMap { table.keyValues($0) } ?? [])
        for row in found {
            let key = row[0], values = Array(row.dropFirst().prefix(table.properties.count))
            let map = try db.rows(
                "SELECT seen FROM sync_row WHERE tbl = ? AND key = ?", [.int(table.number), key])
            guard let stored = map.first?[0] else {
                try note(table, key, 5)
                continue
            }
            let now = RowDigest(values), before = RowDigest(stored: stored.bytes ?? [])
            let changed = zip(positions.indices, positions).map { index, position in
                position.flatMap { before[$0] }.map { $0 != now[index] } ?? (values[index] != .null)
            }
            if changed.contains(true) {
                let text = changed.map { $0 ? "1" : "0" }.joined()
                try db.run(
                    "INSERT INTO sync_history (tbl, key, action, cols, was) VALUES (?, ?, 2, ?, ?)",
                    [.int(table.number), key, SQLValue(text), key])
            }
            if now.bytes != before.bytes {
                try db.run(
                    "UPDATE sync_row SET seen = ? WHERE tbl = ? AND key = ?",
                    [.blob(now.bytes), .int(table.number), key])
            }
        }
        return found.count < Self.comparedRows ? nil : found.last?[0]
    }

    private static let comparedRows = 2_000

    /// Writes an entry for each row that is known and not there any more.
    func noteMissingRows(of table: CapturedTable) throws {
        try db.run(
            """
            INSERT INTO sync_history (tbl, key, action) SELECT tbl, key, 3 FROM sync_row
            WHERE tbl = ? AND key NOT IN (SELECT \(table.key()) FROM main.\(table.name.quoted))
            """, [.int(table.number)])
    }

    private func note(_ table: CapturedTable, _ key: SQLValue, _ action: Int64) throws {
        try db.run(
            "INSERT INTO sync_history (tbl, key, action) VALUES (?, ?, ?)", [.int(table.number), key, .int(action)])
    }
}

/// The digests of the values of a row, by which changes are found that no trigger has seen.
struct RowDigest: Equatable {
    private(set) var bytes: [UInt8]

    init(stored bytes: [UInt8]) { self.bytes = bytes }

    init(_ values: [SQLValue]) {
        bytes = []
        bytes.reserveCapacity(8 * values.count)
        for value in values {
            let digest = Self.digest(value)
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                bytes.append(UInt8(truncatingIfNeeded: digest >> shift))
            }
        }
    }

    /// The digest of a column; nil if it is not known.
    subscript(index: Int) -> [UInt8]? {
        bytes.count >= 8 * (index + 1) ? Array(bytes[8 * index..<8 * (index + 1)]) : nil
    }

    /// The 64-bit FNV-1a hash of the storage class and the bytes.
    private static func digest(_ value: SQLValue) -> UInt64 {
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

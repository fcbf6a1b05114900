package import AnabranchCore
package import Foundation
package import GRDB
import GRDBSQLite

/// The table with the rows of states (`Spec/State.md`, part D), one state for each file. The owner of the database is
/// responsible for its migrations and transactions.
package struct StateTable: Sendable {
    /// Creates the table in a database that has none. It has row numbers: in a table without them, SQLite reads whole
    /// rows to compare their keys, and a value can have megabytes.
    package static let sql = """
        CREATE TABLE state_row (
            file INTEGER NOT NULL,
            class INTEGER NOT NULL,
            key BLOB NOT NULL,
            part INTEGER NOT NULL,
            content BLOB NOT NULL,
            PRIMARY KEY (file, class, key, part)
        );
        """

    /// Creates the tables of states whose objects are in pages, in a database that has none.
    package static let sqlWithPages = sql + ObjectPages.sql

    /// The file whose state it is.
    package let file: Int64
    private let packing: (any RowPacking)?
    /// Nil if each row is a row of the database.
    private let pages: ObjectPages?

    /// The rows of one file's state.
    /// - Parameters:
    ///   - hasPages: whether the rows of objects are in pages, which need `sqlWithPages`.
    ///   - packing: the form of the rows that are in no page; nil if they are stored as they are.
    package init(file: Int64, hasPages: Bool = false, packing: (any RowPacking)? = nil) {
        self.file = file
        self.packing = packing
        pages = hasPages ? ObjectPages(file: file) : nil
    }

    /// The state as it was stored last, for as long as nothing else is stored.
    ///
    /// Objects are read when they are needed, also within a read or a transaction on the same connection.
    /// - Throws: `ApplyError` with the code `unavailable` if the schema's row cannot be read.
    package func state(in reader: any DatabaseReader) throws(ApplyError) -> ObjectGraph {
        try ObjectGraph(rows: StateRows(self, in: reader))
    }

    /// The state as it was stored last, with a schema that is read only if it has changed.
    /// - Parameter known: The schema that was read last: most often it is still the same.
    package func state(in reader: any DatabaseReader, _ known: inout KnownSchema?) throws(ApplyError) -> ObjectGraph {
        try ObjectGraph(rows: StateRows(self, in: reader), &known)
    }

    /// Stores the result of `ObjectGraph.rowWrites(of:)`; the caller has a transaction.
    package func write(_ writes: RowWrites, in db: Database) throws {
        var changes = PageChanges()
        for number in writes.erasedClasses {
            try execute("DELETE FROM state_row WHERE file = ? AND class = ?", [file, Int64(number.rawValue)], db)
            try pages?.removeAll(of: number, in: db)
        }
        for address in writes.removed {
            if pages != nil, changes.take(address, nil) { continue }
            let sql = "DELETE FROM state_row WHERE file = ? AND class = ? AND key = ? AND part = ?"
            try execute(sql, arguments(address), db)
        }
        for row in writes.rows {
            if pages != nil, changes.take(row.address, row.bytes) { continue }
            // An existing row keeps its number and its place, so that the index does not change.
            let sql = """
                INSERT INTO state_row (file, class, key, part, content) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (file, class, key, part) DO UPDATE SET content = excluded.content
                """
            try execute(sql, arguments(row.address) + [try packing?.packed(row.bytes) ?? Data(row.bytes)], db)
        }
        try pages?.write(changes, in: db)
    }

    /// Forgets the state; the caller has a transaction.
    package func removeAll(in db: Database) throws {
        try execute("DELETE FROM state_row WHERE file = ?", [file], db)
        try pages?.removeAll(in: db)
    }

    /// True if nothing of the state is stored.
    package func isEmpty(in db: Database) throws -> Bool {
        let tables = pages == nil ? ["state_row"] : ["object_page", "state_row"]
        return try tables.allSatisfy { table in
            let sql = "SELECT EXISTS (SELECT 1 FROM \(table) WHERE file = ?)"
            return try Bool.fetchOne(db, sql: sql, arguments: [file]) != true
        }
    }

    // MARK: Reading

    func row(at address: RowAddress, in db: Database) throws -> [UInt8]? {
        if let pages, address.part == 0 { return try pages.row(of: address.classID, address.key, in: db) }
        let sql = "SELECT content FROM state_row WHERE file = ? AND class = ? AND key = ? AND part = ?"
        return try rows(sql, arguments(address), in: db) { try content($0, 0) }.first
    }

    /// The number of keys that are asked for at a time, if there are several.
    private static let keyCount = 64
    private static let sqlOfKeys = """
        SELECT key, content FROM state_row
        WHERE file = ? AND class = ? AND key IN (\(Array(repeating: "?", count: keyCount).joined(separator: ", ")))
        AND part = 0
        """

    func rows(of classID: ClassID, _ keys: [[UInt8]], in db: Database) throws -> [[UInt8]?] {
        if let pages { return try pages.rows(of: classID, keys, in: db) }
        // To ask for as many as there are takes a statement for each number of keys.
        guard keys.count >= Self.keyCount / 8 else {
            return try keys.map { try row(at: RowAddress(classID: classID, key: $0), in: db) }
        }
        var found: [[UInt8]: [UInt8]] = [:]
        for start in stride(from: 0, to: keys.count, by: Self.keyCount) {
            let some = (start..<start + Self.keyCount).map { Data(keys[min($0, keys.count - 1)]) }
            let rows = try BorrowedRow.fetchCursor(
                db.cachedStatement(sql: Self.sqlOfKeys),
                arguments: [file, Int64(classID.rawValue)] + StatementArguments(some))
            while let row = try rows.next() {
                found[Array(row.key)] = try packing?.unpacked(row.content) ?? Array(row.content)
            }
        }
        return keys.map { found[$0] }
    }

    func greatestKey(of classID: ClassID, in db: Database) throws -> [UInt8] {
        if let pages { return try pages.greatestKey(of: classID, in: db) ?? [] }
        let sql = "SELECT key FROM state_row WHERE file = ? AND class = ? ORDER BY key DESC LIMIT 1"
        return try rows(sql, [file, Int64(classID.rawValue)], in: db) { try StateTable.bytes($0, 0) }.first ?? []
    }

    func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int, in db: Database
    ) throws -> [(key: [UInt8], row: [UInt8])] {
        if let pages { return try pages.objects(of: classID, after: key, limit: limit, in: db) }
        // No key is empty, so the first one is above that.
        let sql = """
            SELECT key, content FROM state_row WHERE file = ? AND class = ? AND key > ? AND part = 0
            ORDER BY key LIMIT ?
            """
        return try rows(sql, [file, Int64(classID.rawValue), Data(key ?? []), limit], in: db) { row in
            (try StateTable.bytes(row, 0), try content(row, 1))
        }
    }

    func forEachObject(
        of classID: ClassID, in db: Database, _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Void
    ) throws {
        if let pages { return try pages.forEachObject(of: classID, in: db, body) }
        let sql = "SELECT key, content FROM state_row WHERE file = ? AND class = ? AND part = 0 ORDER BY key"
        let rows = try BorrowedRow.fetchCursor(
            db.cachedStatement(sql: sql), arguments: [file, Int64(classID.rawValue)])
        while let row = try rows.next() {
            if let content = try packing?.unpacked(row.content) {
                try content.withUnsafeBytes { try body(row.key, $0) }
            } else {
                try body(row.key, row.content)
            }
        }
    }

    private func content(_ row: Row, _ column: Int) throws -> [UInt8] {
        let stored = try StateTable.bytes(row, column)
        return try stored.withUnsafeBytes { try packing?.unpacked($0) } ?? stored
    }

    private func execute(_ sql: String, _ arguments: StatementArguments, _ db: Database) throws {
        try db.cachedStatement(sql: sql).execute(arguments: arguments)
    }

    private func rows<Value>(
        _ sql: String, _ arguments: StatementArguments, in db: Database, _ value: (Row) throws -> Value
    ) throws -> [Value] {
        var values: [Value] = []
        let cursor = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: arguments)
        while let row = try cursor.next() { values.append(try value(row)) }
        return values
    }

    /// The bytes of a column; empty if it holds another value, since then its row is not what was written.
    private static func bytes(_ row: Row, _ column: Int) throws -> [UInt8] {
        try row.withUnsafeData(atIndex: column) { data in data.map { Array($0) } ?? [] }
    }

    private func arguments(_ address: RowAddress) -> StatementArguments {
        [file, Int64(address.classID.rawValue), Data(address.key), Int64(bitPattern: address.part)]
    }
}

/// Another form of rows in the database.
package protocol RowPacking: Sendable {
    /// The packed form of a row; nil if it is stored as it is.
    func packed(_ row: [UInt8]) throws -> Data?

    /// The row that has this form; nil if it is stored as it is.
    /// - Throws: if this is not a packed form.
    func unpacked(_ stored: UnsafeRawBufferPointer) throws -> [UInt8]?
}

/// The rows of a state as they are in the database.
///
/// A row may be needed in the middle of a read, in which GRDB allows another one only to `unsafeReentrantRead`. Both
/// see the same commit as long as only the owner of the state commits to it.
package struct StateRows: ObjectRows {
    private let table: StateTable
    private let reader: any DatabaseReader

    /// The rows of a table, read through connections that see each commit.
    package init(_ table: StateTable, in reader: any DatabaseReader) {
        self.table = table
        self.reader = reader
    }

    package func row(at address: RowAddress) throws -> [UInt8]? {
        try read { db in try table.row(at: address, in: db) }
    }

    package func rows(of classID: ClassID, _ keys: [[UInt8]]) throws -> [[UInt8]?] {
        try read { db in try table.rows(of: classID, keys, in: db) }
    }

    package func greatestKey(of classID: ClassID) throws -> [UInt8]? {
        try read { db in try table.greatestKey(of: classID, in: db) }
    }

    package func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int
    ) throws -> [(key: [UInt8], row: [UInt8])] {
        try read { db in try table.objects(of: classID, after: key, limit: limit, in: db) }
    }

    package func forEachObject(
        of classID: ClassID, _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Void
    ) throws {
        try read { db in try table.forEachObject(of: classID, in: db, body) }
    }

    private func read<Value>(_ body: (Database) throws -> Value) throws -> Value {
        do {
            return try reader.unsafeReentrantRead(body)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
            throw ApplyError.damaged(error.message ?? "the database is damaged")
        }
    }

    package func readTogether(_ body: () throws -> Void) throws {
        try reader.unsafeReentrantRead { _ in try body() }
    }
}

/// The columns `key` and `content`, where SQLite has them until the next row is read.
struct BorrowedRow: DatabaseValueConvertible, StatementColumnConvertible {
    let key: UnsafeRawBufferPointer
    let content: UnsafeRawBufferPointer

    init(sqliteStatement: SQLiteStatement, index: CInt) {
        key = BorrowedRow.bytes(sqliteStatement, index)
        content = BorrowedRow.bytes(sqliteStatement, index + 1)
    }

    private static func bytes(_ statement: SQLiteStatement, _ index: CInt) -> UnsafeRawBufferPointer {
        // In this order, since a value that is not a blob becomes one.
        let start = sqlite3_column_blob(statement, index)
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, index)))
    }

    /// Only statements have such rows.
    var databaseValue: DatabaseValue { .null }
    static func fromDatabaseValue(_ value: DatabaseValue) -> BorrowedRow? { nil }
}

import GRDBSQLite

/// A value as SQLite stores it. Texts are bytes: they can hold anything.
enum SQLValue: Hashable, Sendable {
    case null
    case int(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])

    init(_ text: String) { self = .text(Array(text.utf8)) }

    var int: Int64? { if case .int(let value) = self { value } else { nil } }

    /// The text; nil for another value.
    var string: String? { if case .text(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil } }

    /// The bytes of a text or blob, and those of a number.
    var size: Int {
        switch self {
        case .text(let bytes), .blob(let bytes): bytes.count
        case .null, .int, .real: 8
        }
    }

    var bytes: [UInt8]? { if case .blob(let bytes) = self { bytes } else { nil } }
}

/// An error of SQLite: its extended code, and its words.
struct SQLError: Error, CustomStringConvertible {
    let code: Int32
    let description: String
    /// False if the statement has ended the transaction, as RAISE(ROLLBACK) of a trigger does.
    var isInTransaction = true

    var isConstraint: Bool { code & 0xFF == SQLITE_CONSTRAINT }
    /// True for `SQLITE_CONSTRAINT_UNIQUE` and `SQLITE_CONSTRAINT_PRIMARYKEY`.
    var isUnique: Bool { isConstraint && [8, 6].contains(code >> 8) }
    /// True if the disk or the file is at fault, not the row, or if nothing else of the transaction is left.
    var isFatal: Bool {
        let codes = [
            SQLITE_IOERR, SQLITE_FULL, SQLITE_CORRUPT, SQLITE_NOMEM, SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_NOTADB,
        ]
        return !isInTransaction || codes.contains(code & 0xFF)
    }
    var isBusy: Bool { [SQLITE_BUSY, SQLITE_LOCKED].contains(code & 0xFF) }
}

/// A connection to the application's database. It reads and writes texts as bytes, and keeps prepared statements.
final class SQLConnection {
    private static let busyMilliseconds: Int32 = 10_000

    private let handle: OpaquePointer
    private var prepared: [String: OpaquePointer] = [:]
    /// The number of calls of `run` that have not returned.
    private var runningCount = 0
    /// The prepared statements from which on all of them are forgotten: there is one for each set of columns that an
    /// update has had.
    private static let preparedMax = 200

    /// Opens a database that exists; one that cannot be written is opened for reading.
    init(path: String) throws {
        var opened: OpaquePointer?
        let status = sqlite3_open_v2(path, &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nil)
        guard let opened, status == SQLITE_OK else {
            let reason = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            sqlite3_close_v2(opened)
            throw CaptureError(.unreadable, "\(path): \(reason)")
        }
        handle = opened
        sqlite3_extended_result_codes(handle, 1)
        sqlite3_busy_timeout(handle, Self.busyMilliseconds)
        try execute("PRAGMA foreign_keys = ON")
    }

    deinit {
        for statement in prepared.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
    }

    /// True if the file, or its folder, does not let this process write.
    var isReadOnly: Bool { sqlite3_db_readonly(handle, "main") == 1 }

    /// The key of the row that the last INSERT of this connection has made.
    var lastRowID: Int64 { sqlite3_last_insert_rowid(handle) }

    /// The number of rows that the last statement has changed.
    var changes: Int { Int(sqlite3_changes(handle)) }

    /// True if another file has come in the place of the one that is open, or none.
    var isReplaced: Bool {
        var hasMoved: Int32 = 0
        sqlite3_file_control(handle, "main", SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        return hasMoved != 0
    }

    /// True if foreign keys are violated that are checked when the transaction ends.
    var hasDeferredViolations: Bool {
        var current: Int32 = 0, highest: Int32 = 0
        sqlite3_db_status(handle, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }

    private func check(_ status: Int32) throws {
        guard ![SQLITE_OK, SQLITE_ROW, SQLITE_DONE].contains(status) else { return }
        throw SQLError(
            code: status, description: String(cString: sqlite3_errmsg(handle)),
            isInTransaction: sqlite3_get_autocommit(handle) == 0)
    }

    /// Carries out statements without values.
    func execute(_ sql: String) throws { try check(sqlite3_exec(handle, sql, nil, nil, nil)) }

    /// Compiles a statement, and forgets it.
    func compile(_ sql: String) throws {
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v2(handle, sql, -1, &statement, nil))
        sqlite3_finalize(statement)
    }

    /// Carries out a statement.
    /// - Parameter body: Is called with each row.
    func run(_ sql: String, _ values: [SQLValue] = [], _ body: (SQLRow) throws -> Void = { _ in }) throws {
        runningCount += 1
        defer { runningCount -= 1 }
        let statement = try statement(sql)
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        for (index, value) in values.enumerated() { try bind(value, to: Int32(index + 1), of: statement) }
        while true {
            let status = sqlite3_step(statement)
            guard status == SQLITE_ROW else { return try check(status) }
            try body(SQLRow(statement: statement))
        }
    }

    /// The rows of a query.
    func rows(_ sql: String, _ values: [SQLValue] = []) throws -> [[SQLValue]] {
        var rows: [[SQLValue]] = []
        try run(sql, values) { rows.append($0.values) }
        return rows
    }

    /// The first value of a query; nil if it has no rows.
    func value(_ sql: String, _ values: [SQLValue] = []) throws -> SQLValue? {
        var first: SQLValue?
        try run(sql, values) { if first == nil { first = $0[0] } }
        return first
    }

    /// Carries out `body` in a transaction, which is undone if it throws.
    func transaction<Value>(_ kind: String = "IMMEDIATE", _ body: () throws -> Value) throws -> Value {
        try run("BEGIN \(kind)")
        do {
            let value = try body()
            try run("COMMIT")
            return value
        } catch {
            // SQLite has ended it already after some errors.
            if sqlite3_get_autocommit(handle) == 0 { try execute("ROLLBACK") }
            throw error
        }
    }

    /// Carries out `body` in a savepoint, which is undone if it throws.
    func savepoint<Value>(_ body: () throws -> Value) throws -> Value {
        try run("SAVEPOINT sync_step")
        do {
            let value = try body()
            try run("RELEASE sync_step")
            return value
        } catch {
            if sqlite3_get_autocommit(handle) == 0 { try execute("ROLLBACK TO sync_step; RELEASE sync_step") }
            throw error
        }
    }

    /// The number of statements that are kept prepared.
    var preparedCount: Int { prepared.count }

    /// Forgets prepared statements: those of tables that are not captured any more would keep them in memory.
    func forgetStatements() {
        for statement in prepared.values { sqlite3_finalize(statement) }
        prepared = [:]
    }

    private func statement(_ sql: String) throws -> OpaquePointer {
        if let statement = prepared[sql] { return statement }
        if prepared.count >= Self.preparedMax, runningCount == 1 { forgetStatements() }
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v2(handle, sql, -1, &statement, nil))
        guard let statement else { throw SQLError(code: SQLITE_ERROR, description: "an empty statement") }
        prepared[sql] = statement
        return statement
    }

    private func bind(_ value: SQLValue, to index: Int32, of statement: OpaquePointer) throws {
        let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        let status =
            switch value {
            case .null: sqlite3_bind_null(statement, index)
            case .int(let value): sqlite3_bind_int64(statement, index, value)
            case .real(let value): sqlite3_bind_double(statement, index, value)
            case .text(let bytes):
                bytes.withUnsafeBytes {
                    sqlite3_bind_text64(
                        statement, index, $0.baseAddress?.assumingMemoryBound(to: CChar.self) ?? emptyText,
                        UInt64($0.count), copies, UInt8(SQLITE_UTF8))
                }
            case .blob(let bytes):
                bytes.isEmpty
                    ? sqlite3_bind_zeroblob(statement, index, 0)
                    : bytes.withUnsafeBytes {
                        sqlite3_bind_blob64(statement, index, $0.baseAddress, UInt64($0.count), copies)
                    }
            }
        try check(status)
    }
}

/// Stands for a text without bytes, whose address would be null, which is SQL's NULL.
nonisolated(unsafe) private let emptyText = UnsafePointer(UnsafeMutablePointer<CChar>.allocate(capacity: 1))

/// The current row of a statement.
struct SQLRow {
    fileprivate let statement: OpaquePointer

    var values: [SQLValue] { (0..<Int(sqlite3_column_count(statement))).map { self[$0] } }

    subscript(index: Int) -> SQLValue {
        let index = Int32(index)
        switch sqlite3_column_type(statement, index) {
        case SQLITE_INTEGER: return .int(sqlite3_column_int64(statement, index))
        case SQLITE_FLOAT: return .real(sqlite3_column_double(statement, index))
        // A database can have its texts in UTF-16.
        case SQLITE_TEXT: return .text(bytes(sqlite3_column_text(statement, index), index))
        case SQLITE_BLOB: return .blob(bytes(sqlite3_column_blob(statement, index), index))
        default: return .null
        }
    }

    private func bytes(_ start: UnsafeRawPointer?, _ index: Int32) -> [UInt8] {
        guard let start else { return [] }
        let count = Int(sqlite3_column_bytes(statement, index))
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }
}

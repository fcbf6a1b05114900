import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB
import GRDBSQLite

/// The records of doors (`Commit.records`).
extension SQLiteFile {
    static let recordColumns = "space, kind, key, expires, value, checksum"

    func record(at place: RecordPlace) throws(HistoryError) -> DoorRecord? {
        try translatingErrors {
            let sql = """
                SELECT \(SQLiteFile.recordColumns) FROM door_record
                WHERE file = ? AND space = ? AND kind = ? AND key = ?
                """
            return try checkedRecords(sql, [id.number, place.space, place.kind, Data(place.key)]).first
        }
    }

    func records(in range: RecordRange, countMax: Int, isReversed: Bool) throws(HistoryError) -> [DoorRecord] {
        try translatingErrors {
            let end = range.upper == nil ? "" : "AND key < ?6"
            let sql = """
                SELECT \(SQLiteFile.recordColumns) FROM door_record
                WHERE file = ?1 AND space = ?2 AND kind = ?3 AND key >= ?4 \(end)
                ORDER BY key \(isReversed ? "DESC" : "ASC") LIMIT ?5
                """
            let upper = range.upper.map { StatementArguments([Data($0)]) } ?? []
            return try checkedRecords(
                sql, [id.number, range.space, range.kind, Data(range.lower), max(0, countMax)] + upper)
        }
    }

    private func checkedRecords(_ sql: String, _ arguments: StatementArguments) throws -> [DoorRecord] {
        let start = try knownStart.value ?? record().start
        knownStart.value = start
        return try rows(sql, arguments) { row in
            let (record, checksum) = try SQLiteFile.doorRecord(row)
            guard !isChecked || checksum == start.covering(record) else {
                throw damaged("a record of kind \(record.place.kind) of door \(record.place.space)")
            }
            return record
        }
    }

    static func doorRecord(_ row: Row) throws -> (record: DoorRecord, checksum: Checksum?) {
        let space: UInt64 = try row.number(0), kind: UInt64 = try row.number(1)
        guard let space = UInt16(exactly: space), let kind = UInt8(exactly: kind) else {
            throw HistoryError(.storeDamaged, "a record of kind \(kind) of door \(space)")
        }
        let record = DoorRecord(
            place: RecordPlace(space: space, kind: kind, key: try row.bytes(2)), value: try row.bytes(4),
            expiresAt: try row.optionalNumber(3) ?? 0)
        return (record, Checksum(bytes: try row.bytes(5)))
    }

    func store(_ changes: [RecordChange], start: Checksum) throws {
        guard !changes.isEmpty else { return }
        let erasing = try db.cachedStatement(
            sql: "DELETE FROM door_record WHERE file = ? AND space = ? AND kind = ? AND key = ?")
        let setting = try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO door_record (file, \(SQLiteFile.recordColumns)) VALUES (?, ?, ?, ?, ?, ?, ?)
                """)
        for change in changes {
            let place = change.place
            guard let value = change.value else {
                try erasing.execute(arguments: [id.number, place.space, place.kind, Data(place.key)])
                continue
            }
            let record = DoorRecord(place: place, value: value, expiresAt: change.expiresAt)
            try set(record, start.covering(record), with: setting)
        }
    }

    /// Runs the statement that stores a record. A message of a device stores tens of thousands of them, and GRDB needs
    /// longer to take over the values than SQLite to store them.
    private func set(_ record: DoorRecord, _ checksum: Checksum, with statement: Statement) throws {
        let handle = statement.sqliteStatement, place = record.place
        try check(sqlite3_bind_int64(handle, 1, id.number))
        try check(sqlite3_bind_int64(handle, 2, Int64(place.space)))
        try check(sqlite3_bind_int64(handle, 3, Int64(place.kind)))
        try check(bind(place.key, to: 4, of: handle))
        let expiry = Int64(clamping: record.expiresAt)
        try check(expiry == 0 ? sqlite3_bind_null(handle, 5) : sqlite3_bind_int64(handle, 5, expiry))
        try check(bind(record.value, to: 6, of: handle))
        try check(bind(checksum.bytes, to: 7, of: handle))
        sqlite3_step(handle)
        // It says as well if the step has failed.
        try check(sqlite3_reset(handle))
    }

    private func bind(_ bytes: [UInt8], to index: CInt, of handle: SQLiteStatement) -> CInt {
        if bytes.isEmpty { return sqlite3_bind_zeroblob(handle, index, 0) }
        let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        return bytes.withUnsafeBytes {
            sqlite3_bind_blob64(handle, index, $0.baseAddress, UInt64($0.count), copies)
        }
    }

    private func check(_ code: CInt) throws {
        guard code == SQLITE_OK else {
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: db.lastErrorMessage)
        }
    }
}

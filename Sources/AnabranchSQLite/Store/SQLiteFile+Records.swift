import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

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
            try setting.execute(
                arguments: [
                    id.number, place.space, place.kind, Data(place.key),
                    record.expiresAt == 0 ? nil : Int64(clamping: record.expiresAt), Data(value),
                    Data(start.covering(record).bytes),
                ])
        }
    }
}

import AnabranchHistory
import GRDB

extension FileVerification {
    func checkRecords() throws {
        let sql = "SELECT \(SQLiteFile.recordColumns) FROM door_record WHERE file = ? ORDER BY space, kind, key"
        try forEach(sql, named: "record of a door") { row in
            let (record, checksum) = try SQLiteFile.doorRecord(row)
            expect(
                checksum == start.covering(record), .checksum,
                "record of kind \(record.place.kind) of door \(record.place.space)", "it is not what was written")
        }
    }
}

package import AnabranchCore
package import AnabranchHistory
import Foundation
import GRDB

/// The objects of asymmetric classes that wait for a consumer.
extension SQLiteFile {
    func store(_ object: IngestedObject, start: Checksum) throws {
        let key = object.key.stored
        // Of several objects of one class and key the first one counts.
        try execute(
            """
            INSERT OR IGNORE INTO ingested (file, number, class, key_type, key, time, user, object, checksum)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                id.number, stored(object.number), Data(object.className), Int64(key.type.rawValue), Data(key.bytes),
                stored(object.time), object.user, Data(object.json), Data(start.covering(object).bytes),
            ])
    }

    func freeIngested(through number: UInt64) throws {
        try execute("DELETE FROM ingested WHERE file = ? AND number <= ?", [id.number, stored(number)])
    }

    func ingested(after number: UInt64, countMax: Int, byteBudget: Int) throws(HistoryError) -> [IngestedObject] {
        try translatingErrors {
            guard newPath == nil else { return [] }
            let start = try record().start
            let cursor = try Row.fetchCursor(
                db,
                sql: """
                    SELECT \(Self.ingestedColumns) FROM ingested WHERE file = ? AND number > ?
                    ORDER BY number LIMIT ?
                    """,
                arguments: [id.number, Int64(clamping: number), countMax])
            var page: [IngestedObject] = [], bytes = 0
            while bytes < byteBudget, let row = try cursor.next() {
                let object = try ingested(row, start: start)
                page.append(object)
                bytes += object.json.count
            }
            return page
        }
    }

    static let ingestedColumns = "number, class, key_type, key, time, user, object, checksum"

    /// - Throws: `storeDamaged` if it is not what was written.
    func ingested(_ row: Row, start: Checksum) throws -> IngestedObject {
        let type: UInt64 = try row.number(2)
        guard let type = PayloadType(rawValue: Int8(truncatingIfNeeded: type)),
            let key = PrimaryKey(type, stored: try row.bytes(3))
        else { throw damaged("an ingested object has no key") }
        let object = IngestedObject(
            number: try row.number(0), className: try row.bytes(1), key: key, time: try row.number(4),
            user: try row.text(5), json: try row.bytes(6))
        guard try Checksum(bytes: row.bytes(7)) == start.covering(object) else {
            throw damaged("ingested object \(object.number)")
        }
        return object
    }

    func ingestedBytes() throws(HistoryError) -> [ExactString?: UInt64] {
        try translatingErrors {
            guard newPath == nil else { return [:] }
            let sql = "SELECT user, SUM(length(object) + 64) FROM ingested WHERE file = ? GROUP BY user"
            let bytes = try rows(sql, [id.number]) { row in
                (try row.text(0).map { ExactString($0) }, try row.number(1) as UInt64)
            }
            return Dictionary(uniqueKeysWithValues: bytes)
        }
    }
}

extension SQLiteStore {
    package func ingested(
        of file: SyncedFileID, after number: UInt64, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [IngestedObject] {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in
            try file.ingested(after: number, countMax: countMax, byteBudget: byteBudget)
        }
    }

    package func ingestedBytes(of file: SyncedFileID) throws(HistoryError) -> [ExactString?: UInt64] {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in try file.ingestedBytes() }
    }
}

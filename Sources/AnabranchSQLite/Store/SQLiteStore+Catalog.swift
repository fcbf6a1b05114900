public import AnabranchCore
public import AnabranchHistory
import Foundation
import GRDB

extension SQLiteStore: HistoryCatalog {
    public func files(after path: VirtualPath?, countMax: Int) throws(HistoryError) -> [CatalogFile] {
        let sql = """
            SELECT \(FileRecord.columns),
            (SELECT COALESCE(SUM(bytes), 0) FROM archived_segment WHERE file = id) FROM synced_file
            WHERE path \(path == nil ? ">=" : ">") ? ORDER BY path LIMIT ?
            """
        var files: [CatalogFile] = []
        for shard in shards {
            files += try catalog(shard, sql, [Data(path?.bytes ?? []), max(0, countMax)]) { row in
                // A damaged record does not keep other files from being listed, nor do damaged sizes in an archive.
                let record = try? FileRecord(row, isChecked: false)
                return CatalogFile(
                    path: VirtualPath(try row.bytes(1)), head: record?.head ?? FileHead(),
                    archivedBytes: (try? row.number(14)) ?? 0)
            }
        }
        files.sort { $0.path.bytes.lexicographicallyPrecedes($1.path.bytes) }
        return Array(files.prefix(max(0, countMax)))
    }

    public func forEachPath(_ body: (VirtualPath) -> Void) throws(HistoryError) {
        var listing = try FileListing(shards.map(\.pool))
        while let file = try listing.next() { body(file.path) }
    }

    public func files(
        of user: String, after path: VirtualPath?, countMax: Int
    ) throws(HistoryError) -> [UserFile] {
        let sql = """
            SELECT path, own, others FROM synced_file, (
                SELECT file, sum(user IS ?1) AS own, sum(user IS NOT ?1) AS others FROM client_file
                WHERE ident >= ?2 GROUP BY file HAVING own > 0
            ) ON file = id WHERE path \(path == nil ? ">=" : ">") ?3 ORDER BY path LIMIT ?4
            """
        let arguments: StatementArguments = [
            user, ClientFile.reserved.count, Data(path?.bytes ?? []), max(0, countMax),
        ]
        var files: [UserFile] = []
        for shard in shards {
            files += try catalog(shard, sql, arguments) { row in
                UserFile(
                    path: VirtualPath(try row.bytes(0)), ownCount: Int(clamping: try row.number(1)),
                    otherCount: Int(clamping: try row.number(2)))
            }
        }
        files.sort { $0.path.bytes.lexicographicallyPrecedes($1.path.bytes) }
        return Array(files.prefix(max(0, countMax)))
    }

    public func file(_ path: VirtualPath) throws(HistoryError) -> CatalogFile? {
        let shard = shard(of: path)
        return try translatingErrors {
            try shard.pool.read { db in
                try SQLiteFile.find(path, in: db).map { record in
                    CatalogFile(
                        path: path, head: record.head, archivedBytes: try shard.file(record.number, db).archivedBytes())
                }
            }
        }
    }

    public func id(of path: VirtualPath) throws(HistoryError) -> SyncedFileID? {
        let shard = shard(of: path)
        return try translatingErrors {
            try shard.pool.read { db in
                try SQLiteFile.find(path, in: db).map { SyncedFileID($0.number, shard: shard.number) }
            }
        }
    }

    public func clientFiles(
        of path: VirtualPath, after ident: ClientFileID, countMax: Int
    ) throws(HistoryError) -> [ClientFile] {
        let sql = """
            SELECT \(SQLiteFile.clientColumns) FROM client_file
            WHERE file = (SELECT id FROM synced_file WHERE path = ?) AND ident > ? AND ident >= ?
            ORDER BY ident LIMIT ?
            """
        let arguments: StatementArguments = [
            Data(path.bytes), Int64(clamping: ident.rawValue), ClientFile.reserved.count, max(0, countMax),
        ]
        return try catalog(shard(of: path), sql, arguments, SQLiteFile.clientFile)
    }

    public func entries(
        of path: VirtualPath, after version: ServerVersion, countMax: Int
    ) throws(HistoryError) -> [CatalogEntry] {
        let shard = shard(of: path)
        return try translatingErrors {
            try shard.pool.read { db in
                let numbers = "SELECT id FROM synced_file WHERE path = ?"
                let number = try Int64.fetchOne(db, sql: numbers, arguments: [Data(path.bytes)])
                guard let number else { return [] }
                return try shard.file(number, db).catalogEntries(after: version, countMax: max(0, countMax))
            }
        }
    }

    public func stateBytes(of path: VirtualPath) throws(HistoryError) -> UInt64 {
        let sql = """
            SELECT COALESCE(SUM(length(key) + length(content)), 0) FROM state_row
            WHERE file = (SELECT id FROM synced_file WHERE path = ?)
            """
        return try catalog(shard(of: path), sql, [Data(path.bytes)]) { try $0.number(0) as UInt64 }.first ?? 0
    }

    public func recordTotals(of path: VirtualPath?) throws(HistoryError) -> [RecordTotal] {
        let file = path == nil ? "" : "WHERE file = (SELECT id FROM synced_file WHERE path = ?)"
        let sql = """
            SELECT space, kind, count(DISTINCT file), count(*), sum(length(key) + length(value)) FROM door_record
            \(file) GROUP BY space, kind
            """
        let arguments = path.map { StatementArguments([Data($0.bytes)]) } ?? []
        var totals: [RecordTotal] = []
        for shard in path.map({ [shard(of: $0)] }) ?? shards {
            totals += try catalog(shard, sql, arguments) { row in
                RecordTotal(
                    space: UInt16(clamping: try row.number(0) as UInt64),
                    kind: UInt8(clamping: try row.number(1) as UInt64), fileCount: Int(clamping: try row.number(2)),
                    recordCount: Int(clamping: try row.number(3)), byteCount: try row.number(4))
            }
        }
        return RecordTotal.sum(totals)
    }

    private func catalog<Value>(
        _ shard: StoreShard, _ sql: String, _ arguments: StatementArguments, _ value: (Row) throws -> Value
    ) throws(HistoryError) -> [Value] {
        try translatingErrors {
            try shard.pool.read { db in try Row.fetchAll(db, sql: sql, arguments: arguments).map(value) }
        }
    }
}

extension SQLiteFile {
    fileprivate func catalogEntries(after version: ServerVersion, countMax: Int) throws -> [CatalogEntry] {
        let sealed = try sealedLog()?.catalogEntries(after: version, countMax: countMax) ?? []
        let sql = """
            SELECT version, origin, client_version, timestamp, \(SQLiteFile.changesetBytes) FROM log_entry
            WHERE file = ? AND version > ? ORDER BY version LIMIT ?
            """
        let arguments: StatementArguments = [id.number, sought(version), countMax - sealed.count]
        return try sealed
            + rows(sql, arguments) { row in
                CatalogEntry(
                    version: try row.number(0), origin: try row.number(1), clientVersion: try row.number(2),
                    timestamp: try row.number(3), changesetBytes: Int(clamping: try row.number(4)))
            }
    }
}

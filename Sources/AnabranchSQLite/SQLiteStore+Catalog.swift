public import AnabranchCore
public import AnabranchHistory
import Foundation
import GRDB

extension SQLiteStore: HistoryCatalog {
    public func files(after path: VirtualPath?, countMax: Int) throws(HistoryError) -> [CatalogFile] {
        let sql = """
            SELECT \(FileRecord.columns) FROM synced_file
            WHERE path \(path == nil ? ">=" : ">") ? ORDER BY path LIMIT ?
            """
        var files: [CatalogFile] = []
        for shard in shards {
            files += try catalog(shard, sql, [Data(path?.bytes ?? []), max(0, countMax)]) { row in
                let record = try FileRecord(row)
                return CatalogFile(path: record.path, head: record.head)
            }
        }
        files.sort { $0.path.bytes.lexicographicallyPrecedes($1.path.bytes) }
        return Array(files.prefix(max(0, countMax)))
    }

    public func file(_ path: VirtualPath) throws(HistoryError) -> CatalogFile? {
        try translatingErrors {
            try shard(of: path).pool.read { db in
                try SQLiteFile.find(path, in: db).map { CatalogFile(path: path, head: $0.head) }
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
        let sql = """
            SELECT version, origin, client_version, timestamp, length(changeset) FROM log_entry
            WHERE file = (SELECT id FROM synced_file WHERE path = ?) AND version > ? ORDER BY version LIMIT ?
            """
        let arguments: StatementArguments = [
            Data(path.bytes), Int64(clamping: version.rawValue), max(0, countMax),
        ]
        return try catalog(shard(of: path), sql, arguments) { row in
            CatalogEntry(
                version: try row.number(0), origin: try row.number(1), clientVersion: try row.number(2),
                timestamp: try row.number(3), changesetBytes: Int(clamping: try row.number(4)))
        }
    }

    private func catalog<Value>(
        _ shard: StoreShard, _ sql: String, _ arguments: StatementArguments, _ value: (Row) throws -> Value
    ) throws(HistoryError) -> [Value] {
        try translatingErrors {
            try shard.pool.read { db in try Row.fetchAll(db, sql: sql, arguments: arguments).map(value) }
        }
    }
}

#if canImport(CLibPQ)
public import AnabranchCore
public import AnabranchHistory
import AnabranchPostgresWire

extension PostgresStore: HistoryCatalog {
    private func query(_ sql: String, _ parameters: PostgresValue...) throws(HistoryError) -> PostgresRows {
        try StoreTransaction.read(from: readers) { transaction throws(HistoryError) in
            try transaction.query(sql, parameters)
        }
    }

    private static let catalogColumns = """
        \(FileRecord.columns), (SELECT COALESCE(sum(bytes), 0)::bigint FROM archived_segment WHERE file = f.id)
        """

    public func files(after path: VirtualPath?, countMax: Int) throws(HistoryError) -> [CatalogFile] {
        let rows = try query(
            """
            SELECT \(Self.catalogColumns) FROM synced_file f WHERE $1::bytea IS NULL OR path > $1 ORDER BY path LIMIT $2
            """, path.map { .bytes($0.bytes) } ?? .null, .number(Int64(max(0, countMax))))
        return try rows.map { row throws(HistoryError) in
            // A damaged record does not keep other files from being listed.
            let record = try FileRecord(rows, row, isChecked: false)
            return CatalogFile(path: record.path, head: record.head, archivedBytes: try rows.number(row, 16))
        }
    }

    public func files(
        of user: String, after path: VirtualPath?, countMax: Int
    ) throws(HistoryError) -> [UserFile] {
        let rows = try query(
            """
            SELECT path, own, (SELECT count(*) FROM client_file c WHERE c.file = f.id AND ident >= $4) - own
            FROM synced_file f JOIN (
                SELECT file, count(*) AS own FROM client_file WHERE user_ident = $1 AND ident >= $4 GROUP BY file
            ) AS o ON o.file = f.id
            WHERE $2::bytea IS NULL OR path > $2 ORDER BY path LIMIT $3
            """, .bytes(Array(user.utf8)), path.map { .bytes($0.bytes) } ?? .null,
            .number(Int64(max(0, countMax))), .number(Int64(ClientFile.reserved.count)))
        return try rows.map { row throws(HistoryError) in
            UserFile(
                path: VirtualPath(try rows.requiredBytes(row, 0)), ownCount: Int(clamping: try rows.number(row, 1)),
                otherCount: Int(clamping: try rows.number(row, 2)))
        }
    }

    public func file(_ path: VirtualPath) throws(HistoryError) -> CatalogFile? {
        let rows = try query(
            "SELECT \(Self.catalogColumns) FROM synced_file f WHERE path = $1", .bytes(path.bytes))
        guard rows.count > 0 else { return nil }
        return CatalogFile(path: path, head: try FileRecord(rows, 0).head, archivedBytes: try rows.number(0, 16))
    }

    public func id(of path: VirtualPath) throws(HistoryError) -> SyncedFileID? {
        let rows = try query("SELECT id FROM synced_file WHERE path = $1", .bytes(path.bytes))
        return rows.count > 0 ? id(Int64(bitPattern: try rows.number(0, 0))) : nil
    }

    public func clientFiles(
        of path: VirtualPath, after ident: ClientFileID, countMax: Int
    ) throws(HistoryError) -> [ClientFile] {
        let rows = try query(
            """
            SELECT \(PostgresFile.clientColumns) FROM client_file
            WHERE file = (SELECT id FROM synced_file WHERE path = $1) AND ident > $2 AND ident >= $3
            ORDER BY ident LIMIT $4
            """, .bytes(path.bytes), .sought(ident), .number(Int64(ClientFile.reserved.count)),
            .number(Int64(max(0, countMax))))
        return try rows.map { row throws(HistoryError) in try PostgresFile.clientFile(rows, row, start: nil) }
    }

    public func entries(
        of path: VirtualPath, after version: ServerVersion, countMax: Int
    ) throws(HistoryError) -> [CatalogEntry] {
        try StoreTransaction.read(from: readers) { _ throws(HistoryError) in
            guard let id = try id(of: path) else { return [] }
            return try readFile(id) { file throws(HistoryError) in
                let sealed = try file.sealedLog?.catalogEntries(after: version, countMax: max(0, countMax)) ?? []
                let rows = try file.query(
                    """
                    SELECT version, origin, client_version, time, octet_length(changeset)::bigint FROM log_entry
                    WHERE file = $1 AND version > $2 ORDER BY version LIMIT $3
                    """, .sought(version), .number(Int64(max(0, countMax) - sealed.count)))
                return try sealed
                    + rows.map { row throws(HistoryError) in
                        CatalogEntry(
                            version: try rows.number(row, 0), origin: try rows.number(row, 1),
                            clientVersion: try rows.number(row, 2), timestamp: try rows.number(row, 3),
                            changesetBytes: Int(clamping: try rows.number(row, 4)))
                    }
            }
        }
    }

    public func stateBytes(of path: VirtualPath) throws(HistoryError) -> UInt64 {
        try query(
            """
            SELECT COALESCE(sum(octet_length(key) + octet_length(content)), 0)::bigint FROM state_row
            WHERE file = (SELECT id FROM synced_file WHERE path = $1)
            """, .bytes(path.bytes)
        ).number(0, 0)
    }

    public func recordTotals(of path: VirtualPath?) throws(HistoryError) -> [RecordTotal] {
        let rows = try query(
            """
            SELECT space, kind, count(DISTINCT file), count(*), sum(octet_length(key) + octet_length(value))::bigint
            FROM door_record WHERE ($1::bytea IS NULL AND file NOT IN (SELECT file FROM deleted_file))
            OR file = (SELECT id FROM synced_file WHERE path = $1)
            GROUP BY space, kind ORDER BY space, kind
            """, path.map { .bytes($0.bytes) } ?? .null)
        return try rows.map { row throws(HistoryError) in
            RecordTotal(
                space: UInt16(clamping: try rows.number(row, 0)), kind: UInt8(clamping: try rows.number(row, 1)),
                fileCount: Int(clamping: try rows.number(row, 2)),
                recordCount: Int(clamping: try rows.number(row, 3)), byteCount: try rows.number(row, 4))
        }
    }

    /// Writes a value of the whole store again.
    public func checkCommit() throws(HistoryError) { try setMeta("commit-check", to: "1") }

    /// Always 0: PostgreSQL manages its own.
    public var writeAheadLogBytes: Int { 0 }

    // MARK: Values of the whole store

    func setMeta(_ name: String, to value: String) throws(HistoryError) {
        _ = try StoreTransaction.write(in: writers, locking: []) { transaction throws(HistoryError) in
            try transaction.commit([
                PostgresStep(
                    """
                    INSERT INTO meta (name, value) VALUES ($1, $2)
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value
                    """, [.text(name), .text(value)])
            ])
        }
    }

    public func recordedTime() throws(HistoryError) -> UInt64? {
        let rows = try query("SELECT value FROM meta WHERE name = 'time'")
        return rows.text(0, 0).flatMap { UInt64($0) }
    }

    public func recordTime(_ time: UInt64) throws(HistoryError) { try setMeta("time", to: "\(time)") }
}
#endif

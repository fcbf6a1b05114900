#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

/// One synced file in the database, within one transaction. It has the part of the log that is in rows; use `view` to
/// read the whole log.
struct PostgresFile {
    let reading: FileReading
    let segments: SegmentCache

    /// The row of the file.
    var record: FileRecord { reading.record }

    var id: SyncedFileID { reading.id }

    /// The checksum with which those of the file begin.
    var start: Checksum { record.start }

    /// Runs a query whose first parameter is the number of the file.
    func query(_ sql: String, _ parameters: PostgresValue...) throws(HistoryError) -> PostgresRows {
        try reading.run([step(sql, parameters)])[0]
    }

    func step(_ sql: String, _ parameters: [PostgresValue]) -> PostgresStep {
        PostgresStep(sql, [.number(id.number)] + parameters)
    }

    func damaged(_ record: String) -> HistoryError {
        HistoryError(.storeDamaged, "\(record) is not what was written")
    }

    // MARK: Segments

    /// The whole file, with the sealed part of its log.
    var view: any FileView { WholeFile(file: self) }

    /// The part of the log in segments; nil if there is none.
    var sealedLog: SealedLog? {
        let range = VersionRange(after: record.head.baseVersion, through: record.sealedVersion)
        return range.isEmpty ? nil : SealedLog(of: id, start, range: range, in: self, keptBy: segments)
    }

    /// The place before the first entry that has a row.
    func rowsBase() throws(HistoryError) -> LogPlace {
        if let sealedLog { return try sealedLog.end() }
        return LogPlace(
            version: record.head.baseVersion, cumulativeSize: record.head.baseCumulativeSize, chain: record.baseChain)
    }
}

extension PostgresFile: SegmentSource {
    func segmentEnds(in range: VersionRange) throws(HistoryError) -> [ServerVersion] {
        // Up to the first one that is at the end of the range or above.
        let rows = try query(
            """
            SELECT last FROM log_segment WHERE file = $1 AND last > $2 AND last <= COALESCE(
            (SELECT min(last) FROM log_segment WHERE file = $1 AND last > $2 AND last >= $3), $3) ORDER BY last
            """, .sought(range.base), .sought(range.last))
        return try rows.map { row throws(HistoryError) in try rows.number(row, 0) }
    }

    func segmentBlock(endingAt last: ServerVersion) throws(HistoryError) -> [UInt8] {
        let rows = try query("SELECT block FROM log_segment WHERE file = $1 AND last = $2", .sought(last))
        guard let block = rows.bytes(0, 0) else { throw HistoryError(.storeDamaged, "there is none") }
        return block
    }
}

extension PostgresFile: FileView {
    func head() throws(HistoryError) -> FileHead { try reading.checkedHead() }

    // MARK: Client files

    static let clientColumns = """
        ident, salt, client_version, reciprocal_base, locked_version, last_seen, is_expired, user_ident, lineage,
        base_client_version, receipt_version, receipt_client_version, revision, session, found_away, checksum
        """

    /// - Parameter start: nil if the row need not be what was written.
    static func clientFile(
        _ rows: PostgresRows, _ row: Int, start: Checksum?
    ) throws(HistoryError) -> ClientFile {
        let receipt = Receipt(version: try rows.number(row, 10), clientVersion: try rows.number(row, 11))
        var file = ClientFile(
            ident: try rows.number(row, 0), salt: try rows.number(row, 1),
            uploadCursor: UploadCursor(
                clientVersion: try rows.number(row, 2), serverVersion: try rows.number(row, 3)),
            lockedVersion: try rows.number(row, 4), lastSeen: try rows.number(row, 5),
            isExpired: rows.flag(row, 6), user: rows.text(row, 7),
            lineage: Lineage(rawValue: try rows.number(row, 8)), baseClientVersion: try rows.number(row, 9),
            newestReceipt: receipt.version == 0 ? nil : receipt, revision: try rows.number(row, 12),
            session: try rows.number(row, 13))
        file.foundAway = try rows.number(row, 14)
        guard start.map({ rows.checksum(row, 15) == $0.covering(file) }) ?? true else {
            throw HistoryError(.storeDamaged, "client file \(file.ident) is not what was written")
        }
        return file
    }

    /// The row of a client file. Its last upload, its reciprocal changesets and its withheld schema come in the same
    /// round trip, since they are read next.
    func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? {
        guard record.isStored else { return ClientFile.reserved.first { $0.ident == ident } }
        let receipt = receiptStep(ident, upTo: .largest)
        let reciprocals = reciprocalStep(
            ident, VersionRange(after: 0, through: .largest), countMax: ReadAhead.reciprocalCount)
        let found = try reading.run([
            step("SELECT \(Self.clientColumns) FROM client_file WHERE file = $1 AND ident = $2", [.sought(ident)]),
            receipt, reciprocals, withheldStep(ident),
        ])
        guard found[0].count > 0 else {
            guard ident >= record.head.nextIdent else { throw damaged("client file \(ident)") }
            return nil
        }
        reading.ahead[ident] = ReadAhead(receipt: found[1], reciprocals: found[2], withheld: found[3])
        return try Self.clientFile(found[0], 0, start: start)
    }

    func clientFiles(after ident: ClientFileID, countMax: Int) throws(HistoryError) -> [ClientFile] {
        guard record.isStored else {
            return Array(ClientFile.reserved.filter { $0.ident > ident }.prefix(max(0, countMax)))
        }
        let rows = try query(
            """
            SELECT \(Self.clientColumns) FROM client_file WHERE file = $1 AND ident > $2 ORDER BY ident LIMIT $3
            """, .sought(ident), .number(Int64(max(0, countMax))))
        return try rows.map { row throws(HistoryError) in try Self.clientFile(rows, row, start: start) }
    }

    /// The rows of those of some client files that there are.
    func clientFiles(_ idents: [ClientFileID]) throws(HistoryError) -> [ClientFile] {
        let rows = try query(
            """
            SELECT \(Self.clientColumns) FROM client_file
                WHERE file = $1 AND ident = ANY ($2::bigint[]) ORDER BY ident
            """,
            .numbers(idents.map(\.rawValue)))
        return try rows.map { row throws(HistoryError) in try Self.clientFile(rows, row, start: start) }
    }

    /// Reads the rows without checking their checksums: a file can have very many of them, and each trim asks.
    func clientFile(pinnedBelow version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        let generations = try generations().map(\.version.rawValue)
        let rows = try query(
            """
            SELECT ident FROM (
                SELECT ident, least(reciprocal_base, locked_version) AS needed,
                    CASE WHEN lineage BETWEEN 2 AND \(Lineage.copyOffset - 1) THEN lineage - 1 END AS generation,
                    CASE WHEN lineage >= \(Lineage.viewOffset) THEN lineage - \(Lineage.viewOffset)
                    WHEN lineage >= \(Lineage.copyOffset) THEN lineage - \(Lineage.copyOffset) ELSE 0 END AS begun
                FROM client_file WHERE file = $1 AND salt <> 0 AND NOT is_expired AND lineage > 0
            ) AS c
            WHERE CASE WHEN generation IS NULL THEN greatest(begun, needed) < $2
            ELSE NOT (generation = ANY ($3::bigint[]) AND generation >= $2) END LIMIT 1
            """, .sought(version), .numbers(generations))
        return rows.count > 0 ? try rows.number(0, 0) : nil
    }

    func clientFile(ofGeneration version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        let rows = try query(
            "SELECT ident FROM client_file WHERE file = $1 AND NOT is_expired AND lineage = $2 ORDER BY ident LIMIT 1",
            .number(Lineage.generation(version).rawValue))
        return rows.count > 0 ? try rows.number(0, 0) : nil
    }

    private func withheldStep(_ ident: ClientFileID) -> PostgresStep {
        step("SELECT changeset, checksum FROM withheld_schema WHERE file = $1 AND ident = $2", [.sought(ident)])
    }

    func withheldSchema(of ident: ClientFileID) throws(HistoryError) -> [UInt8] {
        var known = reading.ahead[ident]?.withheld
        if known == nil { known = try reading.run([withheldStep(ident)])[0] }
        guard let rows = known else { return [] }
        guard let schema = rows.bytes(0, 0) else { return [] }
        guard rows.checksum(0, 1) == start.covering(schema: schema, of: ident) else {
            throw damaged("the schema withheld of client file \(ident)")
        }
        return schema
    }

    private func reciprocalStep(_ ident: ClientFileID, _ range: VersionRange, countMax: Int) -> PostgresStep {
        step(
            """
            SELECT version, changeset, checksum FROM reciprocal
            WHERE file = $1 AND ident = $2 AND version > $3 AND version <= $4 ORDER BY version LIMIT $5
            """, [.sought(ident), .sought(range.base), .sought(range.last), .number(Int64(countMax))])
    }

    func reciprocals(of ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [ReciprocalChangeset] {
        let rows: PostgresRows
        if let known = reading.ahead[ident]?.reciprocals, known.count < ReadAhead.reciprocalCount {
            rows = known
        } else {
            rows = try reading.run([reciprocalStep(ident, range, countMax: .max)])[0]
        }
        let found = try rows.map { row throws(HistoryError) in
            let found = ReciprocalChangeset(
                version: try rows.number(row, 0), changeset: try rows.requiredBytes(row, 1))
            guard rows.checksum(row, 2) == start.covering(ReciprocalChange(ident: ident, reciprocal: found)) else {
                throw damaged("the reciprocal changeset of client file \(ident), version \(found.version)")
            }
            return found
        }
        return found.filter { $0.version > range.base && $0.version <= range.last }
    }

    /// The newest entry of a client file.
    private func receiptStep(_ ident: ClientFileID, upTo version: ServerVersion) -> PostgresStep {
        step(
            """
            SELECT version, client_version FROM log_entry
            WHERE file = $1 AND origin = $2 AND version <= $3 ORDER BY version DESC LIMIT 1
            """, [.sought(ident), .sought(version)])
    }

    func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) throws(HistoryError) -> Receipt? {
        if let known = reading.ahead[ident]?.receipt {
            guard known.count > 0 else { return nil }
            let newest = try receipt(known, 0)
            if newest.version <= version { return newest }
        }
        let rows = try reading.run([receiptStep(ident, upTo: version)])[0]
        return rows.count > 0 ? try receipt(rows, 0) : nil
    }

    func version(ofWrite key: [UInt8]) throws(HistoryError) -> ServerVersion? {
        let rows = try query("SELECT version FROM idempotency_key WHERE file = $1 AND key = $2", .bytes(key))
        return rows.count > 0 ? try rows.number(0, 0) : nil
    }

    // MARK: Records of doors

    private static let recordColumns = "space, kind, key, expires, value, checksum"

    func record(at place: RecordPlace) throws(HistoryError) -> DoorRecord? {
        let rows = try query(
            """
            SELECT \(Self.recordColumns) FROM door_record WHERE file = $1 AND space = $2 AND kind = $3 AND key = $4
            """, .number(Int64(place.space)), .number(Int64(place.kind)), .bytes(place.key))
        return rows.count > 0 ? try doorRecord(rows, 0) : nil
    }

    func records(in range: RecordRange, countMax: Int, isReversed: Bool) throws(HistoryError) -> [DoorRecord] {
        let rows = try query(
            """
            SELECT \(Self.recordColumns) FROM door_record WHERE file = $1 AND space = $2 AND kind = $3 AND key >= $4
            AND ($5::bytea IS NULL OR key < $5) ORDER BY key \(isReversed ? "DESC" : "ASC") LIMIT $6
            """, .number(Int64(range.space)), .number(Int64(range.kind)), .bytes(range.lower),
            range.upper.map { .bytes($0) } ?? .null, .number(Int64(max(0, countMax))))
        return try rows.map { row throws(HistoryError) in try doorRecord(rows, row) }
    }

    private func doorRecord(_ rows: PostgresRows, _ row: Int) throws(HistoryError) -> DoorRecord {
        let space = try rows.number(row, 0), kind = try rows.number(row, 1)
        guard let space = UInt16(exactly: space), let kind = UInt8(exactly: kind) else {
            throw damaged("a record of kind \(kind) of door \(space)")
        }
        let record = DoorRecord(
            place: RecordPlace(space: space, kind: kind, key: try rows.requiredBytes(row, 2)),
            value: try rows.requiredBytes(row, 4), expiresAt: try rows.optionalNumber(row, 3) ?? 0)
        guard rows.checksum(row, 5) == start.covering(record) else {
            throw damaged("a record of kind \(kind) of door \(space)")
        }
        return record
    }
}
#endif

#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire
import Crypto

/// The columns of an entry of a view for its contents.
struct ViewEntryFields {
    /// The size from which changesets are kept once for all views, in bytes; shorter ones stay in their rows.
    private static let sharedBytesMin = 512

    /// Nil if the changeset is in the log.
    var changeset: [UInt8]?
    /// The digest under which all views have the changeset; nil if it is in the row or in the log.
    var digest: [UInt8]?
    /// The length in the log, in bytes; nil if it is not there.
    var loggedBytes: Int?
    var merged: [UInt8]?
    var compensation: [UInt8]?

    /// The fields of an entry with its contents; nil if it has none.
    init?(_ entry: ViewEntry) {
        guard let contents = entry.contents else { return nil }
        if entry.isInLog {
            loggedBytes = entry.changesetBytes
        } else {
            changeset = contents.changeset
            if contents.changeset.count >= Self.sharedBytesMin { digest = Self.digest(of: contents.changeset) }
        }
        merged = contents.merged
        compensation = contents.compensation?.encoded
    }

    init(
        changeset: [UInt8]?, digest: [UInt8]?, loggedBytes: Int?, merged: [UInt8]?, compensation: [UInt8]?
    ) {
        (self.changeset, self.digest, self.loggedBytes) = (changeset, digest, loggedBytes)
        (self.merged, self.compensation) = (merged, compensation)
    }

    /// The length of the changeset in bytes, wherever it is.
    var changesetBytes: Int { loggedBytes ?? changeset?.count ?? 0 }

    static func digest(of bytes: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: bytes)) }

    /// The checksum of an entry of a client file's view. The digest stands for the changeset itself.
    /// - Parameter start: where the chain of the file begins.
    func checksum(of entry: ViewEntry, _ ident: ClientFileID, start: Checksum) -> Checksum {
        var checksum = start.keyed(
            [
                ident.rawValue, entry.number, entry.version.rawValue, entry.clientVersion.rawValue,
                entry.timestamp.rawValue, entry.origin.rawValue, entry.bootstrap.map { $0 + 1 } ?? 0,
                loggedBytes.map { UInt64($0) + 1 } ?? 0,
            ], digest ?? changeset ?? [])
        if let merged { checksum = checksum.keyed([1], merged) }
        if let compensation { checksum = checksum.keyed([2], compensation) }
        return checksum
    }
}

/// The views of a flexible file: the objects that each client sees, and the entries that it was sent and has not
/// confirmed.
extension PostgresFile {
    private static let viewColumns = """
        ident, query_version, changed, projected, first_number, last_number, predicates, role, logged, checksum
        """

    /// The views of some client files, or of all. The entries are read as well, since damage to them would make a
    /// client miss something; their contents are not kept.
    /// - Throws: `storeDamaged` for the first view that is not what was written.
    func views(of ident: ClientFileID? = nil) throws(HistoryError) -> [StoredView] {
        guard record.isStored else { return [] }
        let rows = try query(
            """
            SELECT \(Self.viewColumns) FROM client_view WHERE file = $1 AND ($2::bigint IS NULL OR ident = $2)
            ORDER BY ident
            """, ident.map { .number($0) } ?? .null)
        return try rows.map { row throws(HistoryError) in
            let ident: ClientFileID = try rows.number(row, 0)
            let predicates = String(decoding: try rows.requiredBytes(row, 6), as: UTF8.self)
            let record = ViewRecord(
                ident: ident, predicates: try Predicates(stored: predicates),
                role: String(decoding: try rows.requiredBytes(row, 7), as: UTF8.self),
                queryVersion: try rows.number(row, 1), changed: try rows.number(row, 2),
                projected: try rows.number(row, 3), firstNumber: try rows.number(row, 4),
                lastNumber: try rows.number(row, 5),
                logged: try rows.bytes(row, 8).map { bytes throws(HistoryError) in
                    try [LoggedEntry](encoded: bytes)
                } ?? [])
            guard rows.checksum(row, 9) == start.covering(record, predicates) else {
                throw damaged("the view of client file \(ident)")
            }
            let entries = try viewEntries(of: ident, 0...UInt64(Int64.max), keepsContents: false)
            let view = StoredView(record: record, rows: entries)
            guard view.isWhole else { throw damaged("the view of client file \(ident)") }
            return view
        }
    }

    /// - Throws: `storeDamaged` if one is not what was written.
    func viewEntries(
        of ident: ClientFileID, _ numbers: ClosedRange<UInt64>, keepsContents: Bool
    ) throws(HistoryError) -> [ViewEntry] {
        let rows = try query(
            """
            SELECT number, version, client_version, time, origin, bootstrap, logged_bytes, e.digest,
            COALESCE(changeset, content), merged, compensation, checksum FROM view_entry e
            LEFT JOIN view_content c ON c.file = e.file AND c.digest = e.digest
            WHERE e.file = $1 AND ident = $2 AND number BETWEEN $3 AND $4 ORDER BY number
            """, .number(ident), .number(numbers.lowerBound), .number(Int64(clamping: numbers.upperBound)))
        return try rows.map { row throws(HistoryError) in
            let number = try rows.number(row, 0)
            let fields = ViewEntryFields(
                changeset: rows.bytes(row, 8), digest: rows.bytes(row, 7),
                loggedBytes: try rows.optionalNumber(row, 6).map { Int(clamping: $0) }, merged: rows.bytes(row, 9),
                compensation: rows.bytes(row, 10))
            if let digest = fields.digest, fields.changeset.map(ViewEntryFields.digest) != digest {
                throw damaged("contents of a view")
            }
            let compensation = try fields.compensation.map { bytes throws(HistoryError) in
                try CompensatingWrite(encoded: bytes)
            }
            let entry = ViewEntry(
                number: number, version: try rows.number(row, 1), clientVersion: try rows.number(row, 2),
                timestamp: try rows.number(row, 3), origin: try rows.number(row, 4),
                bootstrap: try rows.optionalNumber(row, 5), isInLog: fields.loggedBytes != nil,
                sentBytes: fields.changesetBytes + (compensation?.byteCount ?? 0),
                contents: ViewEntry.Contents(
                    changeset: fields.changeset ?? [], merged: fields.merged, compensation: compensation))
            guard rows.checksum(row, 11) == fields.checksum(of: entry, ident, start: start) else {
                throw damaged("entry \(number) of the view of client file \(ident)")
            }
            return keepsContents ? entry : entry.withoutContents
        }
    }

    func viewFields() throws(HistoryError) -> [ViewField] {
        let rows = try query("SELECT class, is_class, field, since FROM view_field WHERE file = $1")
        return try rows.map { row throws(HistoryError) in
            ViewField(
                className: try rows.requiredBytes(row, 0),
                name: rows.flag(row, 1) ? nil : try rows.requiredBytes(row, 2),
                since: try rows.optionalNumber(row, 3).map(ServerVersion.init(rawValue:)))
        }
    }

    // MARK: Objects of asymmetric classes

    func ingested(after number: UInt64, countMax: Int, byteBudget: Int) throws(HistoryError) -> [IngestedObject] {
        let rows = try query(
            """
            SELECT number, class, key_type, key, time, user_ident, object, checksum FROM (
                SELECT *, sum(octet_length(object)) OVER (ORDER BY number) - octet_length(object) AS read
                FROM ingested WHERE file = $1 AND number > $2 ORDER BY number LIMIT $3
            ) AS page WHERE read < $4 ORDER BY number
            """, .number(Int64(clamping: number)), .number(Int64(max(0, countMax))),
            .number(Int64(clamping: byteBudget)))
        return try rows.map { row throws(HistoryError) in
            guard let type = PayloadType(rawValue: Int8(truncatingIfNeeded: try rows.number(row, 2))),
                let key = PrimaryKey(type, stored: try rows.requiredBytes(row, 3))
            else { throw damaged("an ingested object has no key, so that it") }
            let object = IngestedObject(
                number: try rows.number(row, 0), className: try rows.requiredBytes(row, 1), key: key,
                time: try rows.number(row, 4), user: rows.text(row, 5), json: try rows.requiredBytes(row, 6))
            guard rows.checksum(row, 7) == start.covering(object) else {
                throw damaged("ingested object \(object.number)")
            }
            return object
        }
    }

    func ingestedBytes() throws(HistoryError) -> [ExactString?: UInt64] {
        let rows = try query(
            """
            SELECT user_ident, sum(octet_length(object) + 64)::bigint FROM ingested WHERE file = $1 GROUP BY user_ident
            """)
        var bytes: [ExactString?: UInt64] = [:]
        for row in 0..<rows.count { bytes[rows.text(row, 0).map { ExactString($0) }] = try rows.number(row, 1) }
        return bytes
    }
}
#endif

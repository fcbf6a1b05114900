import AnabranchCore
import AnabranchHistory
import AnabranchRows
import Foundation
import GRDB

/// One synced file in the database, within one transaction.
struct SQLiteFile: FileView {
    let id: SyncedFileID
    let db: Database
    /// The path of a file that has no commit yet; nil for others.
    var newPath: VirtualPath?
    /// True if reading fails on anything that is not what was written. The verification reads whatever is there.
    var isChecked = true
    /// Caches the segments that were opened.
    var segments = SegmentCache()
    /// The checksum with which those of records begin, once it was needed: many of them are read one by one.
    let knownStart = KnownStart()

    final class KnownStart {
        var value: Checksum?
    }

    static let entryColumns = """
        version, salt, origin, client_version, timestamp, cumulative_size, changeset, checksum, base, release, protocol,
        section, content_bytes
        """
    /// The length of a changeset: a compressed one has it in a column of its own.
    static let changesetBytes = "COALESCE(content_bytes, length(changeset))"
    static let clientColumns = """
        ident, salt, client_version, reciprocal_base, locked_version, last_seen, user, checksum, is_expired, lineage,
        base_client_version, receipt_version, receipt_client_version
        """

    /// Runs a query and turns each row into a value.
    func rows<Value>(
        _ sql: String, _ arguments: StatementArguments, _ value: (Row) throws -> Value
    ) throws -> [Value] {
        var values: [Value] = []
        let cursor = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: arguments)
        while let row = try cursor.next() { values.append(try value(row)) }
        return values
    }

    /// The same for a query of each commit, whose first column is never null.
    func frequentRows<Value>(
        _ sql: String, _ arguments: StatementArguments, _ value: (BorrowedColumns) throws -> Value
    ) throws -> [Value] {
        var values: [Value] = []
        let cursor = try BorrowedColumns.fetchCursor(db.cachedStatement(sql: sql), arguments: arguments)
        while let row = try cursor.next() { values.append(try value(row)) }
        return values
    }

    // MARK: Reading

    func head() throws(HistoryError) -> FileHead {
        try translatingErrors {
            let record = try record()
            if isChecked { try check(record) }
            return record.head
        }
    }

    func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? {
        try translatingErrors {
            let sql = "SELECT \(SQLiteFile.clientColumns) FROM client_file WHERE file = ? AND ident = ?"
            let found = try rows(sql, [id.number, sought(ident)]) { row in
                (try SQLiteFile.clientFile(row), checksum: Checksum(bytes: try row.bytes(7)))
            }
            guard let (file, checksum) = found.first else {
                if newPath != nil { return ClientFile.reserved.first { $0.ident == ident } }
                guard try !isChecked || ident >= record().head.nextIdent else {
                    throw damaged("client file \(ident)")
                }
                return nil
            }
            guard try !isChecked || checksum == record().start.covering(file) else {
                throw damaged("client file \(ident)")
            }
            return file
        }
    }

    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        try translatingErrors {
            let sql = "SELECT \(SQLiteFile.entryColumns) FROM log_entry WHERE file = ? AND version = ?"
            var checked = CheckedEntries(of: self)
            let found = try rows(sql, [id.number, sought(version)]) { try checked.entry($0) }
            if let entry = found.first { return entry }
            let head = try record().head
            guard !isChecked || version <= head.baseVersion || version > head.version else {
                throw damaged("log entry \(version)")
            }
            return nil
        }
    }

    func salt(of version: ServerVersion) throws(HistoryError) -> Salt? {
        try translatingErrors {
            let sql = "SELECT salt FROM log_entry WHERE file = ? AND version = ?"
            return try rows(sql, [id.number, sought(version)]) { Salt(rawValue: try $0.number(0)) }.first
        }
    }

    func received(_ version: ServerVersion) throws(HistoryError) -> ReceivedChangeset? {
        try translatingErrors {
            try received("version = ?", [id.number, sought(version)]).first
        }
    }

    /// - Parameter condition: a condition on the rows of the file, whose number is the first argument.
    func received(_ condition: String, _ arguments: StatementArguments) throws -> [ReceivedChangeset] {
        let sql = "SELECT version, time, changeset, checksum FROM received WHERE file = ? AND \(condition)"
        return try rows(sql, arguments) { row in
            let received = ReceivedChangeset(
                version: try row.number(0), time: try row.number(1), changeset: try row.content(2))
            guard try !isChecked || Checksum(bytes: row.bytes(3)) == record().start.covering(received) else {
                throw damaged("what was received as log entry \(received.version)")
            }
            return received
        }
    }

    func entries(in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int) throws(HistoryError)
        -> [LogEntry]
    {
        try translatingErrors {
            let sql = """
                SELECT \(SQLiteFile.entryColumns) FROM log_entry
                WHERE file = ? AND version > ? AND version <= ? AND origin IS NOT ? ORDER BY version
                """
            var checked = CheckedEntries(of: self)
            var entries: [LogEntry] = []
            var bytes = 0, sectionBytes = 0, count = 0
            let cursor = try Row.fetchCursor(
                db.cachedStatement(sql: sql), arguments: arguments(range) + [origin.map(sought)])
            while bytes + sectionBytes <= byteBudget, let row = try cursor.next() {
                let entry = try checked.entry(row)
                count += 1
                bytes += entry.changeset.count
                guard !entry.changeset.isEmpty else { continue }
                sectionBytes += entry.section.count
                entries.append(entry)
            }
            let end = bytes + sectionBytes <= byteBudget ? range.last : entries.last?.version ?? range.last
            try checkPassedOver(
                in: VersionRange(after: range.base, through: end), byOrigin: origin, read: UInt64(bytes + count))
            return entries
        }
    }

    func versions(in range: VersionRange, excludingOrigin origin: ClientFileID) throws(HistoryError) -> [ServerVersion]
    {
        try translatingErrors {
            let sql = """
                SELECT version, \(SQLiteFile.changesetBytes) FROM log_entry
                WHERE file = ? AND version > ? AND version <= ? AND origin <> ? ORDER BY version
                """
            var bytes: UInt64 = 0
            let found = try rows(sql, arguments(range) + [sought(origin)]) { row in
                let size: UInt64 = try row.number(1)
                bytes &+= size
                return (version: try row.number(0) as ServerVersion, isEmpty: size == 0)
            }
            try checkPassedOver(in: range, byOrigin: origin, read: bytes &+ UInt64(found.count))
            return found.filter { !$0.isEmpty }.map(\.version)
        }
    }

    func receipts(from ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [Receipt] {
        try translatingErrors {
            let sql = """
                SELECT \(SQLiteFile.receiptColumns) FROM \(SQLiteFile.receiptTables)
                WHERE r.file = ? AND r.version > ? AND r.version <= ? AND r.origin = ? ORDER BY r.version
                """
            return try rows(sql, arguments(range) + [sought(ident)], SQLiteFile.receipt)
        }
    }

    func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) throws(HistoryError) -> Receipt? {
        try translatingErrors {
            let sql = """
                SELECT \(SQLiteFile.receiptColumns) FROM \(SQLiteFile.receiptTables)
                WHERE r.file = ? AND r.origin = ? AND r.version <= ? ORDER BY r.version DESC LIMIT 1
                """
            let arguments: StatementArguments = [id.number, sought(ident), sought(version)]
            return try rows(sql, arguments, SQLiteFile.receipt).first
        }
    }

    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        try translatingErrors {
            let sql = """
                SELECT version FROM conflict_key
                WHERE file = ? AND version > ? AND version <= ? AND key = ? AND origin <> ?
                """
            var versions: Set<ServerVersion> = []
            for key in keys {
                let arguments = arguments(range) + [Int64(bitPattern: key), sought(origin)]
                versions.formUnion(try rows(sql, arguments) { try $0.number(0) })
            }
            return versions.sorted()
        }
    }

    func reciprocals(of ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [ReciprocalChangeset] {
        try translatingErrors {
            let sql = """
                SELECT version, changeset, checksum FROM reciprocal
                WHERE file = ? AND version > ? AND version <= ? AND ident = ? ORDER BY version
                """
            let start = try record().start
            return try rows(sql, arguments(range) + [sought(ident)]) { row in
                let found = ReciprocalChangeset(version: try row.number(0), changeset: try row.content(1))
                let change = ReciprocalChange(ident: ident, reciprocal: found)
                guard try !isChecked || Checksum(bytes: row.bytes(2)) == start.covering(change) else {
                    throw damaged("the reciprocal changeset of client file \(ident), version \(found.version)")
                }
                return found
            }
        }
    }

    func version(ofWrite key: [UInt8]) throws(HistoryError) -> ServerVersion? {
        try translatingErrors {
            let sql = "SELECT version FROM idempotency_key WHERE file = ? AND key = ?"
            return try rows(sql, [id.number, Data(key)]) { ServerVersion(rawValue: try $0.number(0)) }.first
        }
    }

    func damaged(_ record: String) -> HistoryError {
        HistoryError(.storeDamaged, "\(record) is not what was written")
    }

    /// A number to be looked for: nothing is stored under numbers beyond 2^63−1.
    func sought(_ number: some TypedNumber) -> Int64 { Int64(clamping: number.rawValue) }

    func arguments(_ range: VersionRange) -> StatementArguments {
        [id.number, sought(range.base), sought(range.last)]
    }

    // MARK: Rows

    static func entry(_ row: Row) throws -> LogEntry {
        let stored = try row.bytes(6), unpacked = try PackedContent.unpacked(stored)
        guard try row.optionalNumber(12) == unpacked.map({ UInt64($0.count) }) else {
            throw HistoryError(.storeDamaged, "a log entry is not as long as was written")
        }
        return LogEntry(
            version: try row.number(0), salt: try row.number(1), origin: try row.number(2),
            clientVersion: try row.number(3), timestamp: try row.number(4), cumulativeSize: try row.number(5),
            changeset: unpacked ?? stored, base: try row.optionalNumber(8).map(ServerVersion.init),
            uploader: Uploader(
                release: try row.optionalNumber(9) ?? 0, protocolVersion: try row.optionalNumber(10) ?? 0),
            section: row.hasNull(atIndex: 11) ? [] : try row.bytes(11))
    }

    static func clientFile(_ row: Row) throws -> ClientFile {
        let receipt = Receipt(version: try row.number(11), clientVersion: try row.number(12))
        return ClientFile(
            ident: try row.number(0), salt: try row.number(1),
            uploadCursor: UploadCursor(clientVersion: try row.number(2), serverVersion: try row.number(3)),
            lockedVersion: try row.number(4), lastSeen: try row.number(5), isExpired: try row.number(8) != 0,
            user: try row.text(6), lineage: Lineage(rawValue: try row.number(9)),
            baseClientVersion: try row.number(10), newestReceipt: receipt.version == 0 ? nil : receipt)
    }
}

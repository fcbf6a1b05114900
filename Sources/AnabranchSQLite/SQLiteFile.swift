import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// One synced file in the database, within one transaction.
struct SQLiteFile: FileView {
    let id: SyncedFileID
    let db: Database
    /// Whether reading fails on what is not what was written. The verification looks at what there is.
    var isChecked = true

    static let headColumns = """
        id, version, version_salt, cumulative_size, base_version, base_salt, next_ident, state_version, path
        """
    static let entryColumns = """
        version, salt, origin, client_version, timestamp, cumulative_size, changeset, checksum
        """
    static let clientColumns = """
        ident, salt, client_version, reciprocal_base, locked_version, last_seen, user, checksum
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

    // MARK: Reading

    func head() throws(HistoryError) -> FileHead {
        try translatingErrors {
            let head = try storedHead()
            if isChecked { try check(head) }
            return head
        }
    }

    private func storedHead() throws(HistoryError) -> FileHead {
        try translatingErrors {
            let sql = "SELECT \(SQLiteFile.headColumns) FROM synced_file WHERE id = ?"
            guard let head = try rows(sql, [id.number], SQLiteFile.head).first else {
                throw HistoryError(.storeDamaged, "there is no file \(id.number)")
            }
            return head
        }
    }

    func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? {
        try translatingErrors {
            let sql = "SELECT \(SQLiteFile.clientColumns) FROM client_file WHERE file = ? AND ident = ?"
            let found = try rows(sql, [id.number, sought(ident)]) { row in
                (try SQLiteFile.clientFile(row), checksum: Checksum(bytes: try row.bytes(7)))
            }
            guard let (file, checksum) = found.first else {
                guard try !isChecked || ident >= storedHead().nextIdent else { throw damaged("client file \(ident)") }
                return nil
            }
            guard try !isChecked || checksum == chainStart().covering(file) else {
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
            let head = try storedHead()
            guard !isChecked || version <= head.baseVersion || version > head.version else {
                throw damaged("log entry \(version)")
            }
            return nil
        }
    }

    func entries(in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int) throws(HistoryError)
        -> [LogEntry]
    {
        try translatingErrors {
            let sql = """
                SELECT \(SQLiteFile.entryColumns) FROM log_entry
                WHERE file = ? AND version > ? AND version <= ? AND origin IS NOT ? AND length(changeset) > 0
                ORDER BY version
                """
            var checked = CheckedEntries(of: self)
            var entries: [LogEntry] = []
            var bytes = 0
            let cursor = try Row.fetchCursor(
                db.cachedStatement(sql: sql), arguments: arguments(range) + [origin.map(sought)])
            while bytes <= byteBudget, let row = try cursor.next() {
                let entry = try checked.entry(row)
                bytes += entry.changeset.count
                entries.append(entry)
            }
            let end = bytes <= byteBudget ? range.last : entries.last?.version ?? range.last
            try checkPassedOver(
                in: VersionRange(after: range.base, through: end), byOrigin: origin, bytesRead: UInt64(bytes))
            return entries
        }
    }

    func versions(in range: VersionRange, excludingOrigin origin: ClientFileID) throws(HistoryError) -> [ServerVersion]
    {
        try translatingErrors {
            let sql = """
                SELECT version, length(changeset) FROM log_entry
                WHERE file = ? AND version > ? AND version <= ? AND origin <> ? AND length(changeset) > 0
                ORDER BY version
                """
            var bytes: UInt64 = 0
            let versions = try rows(sql, arguments(range) + [sought(origin)]) { row in
                bytes &+= try row.number(1)
                return try row.number(0) as ServerVersion
            }
            try checkPassedOver(in: range, byOrigin: origin, bytesRead: bytes)
            return versions
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
                SELECT version FROM touch WHERE file = ? AND version > ? AND version <= ? AND hash = ? AND origin <> ?
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
            let start = try chainStart()
            return try rows(sql, arguments(range) + [sought(ident)]) { row in
                let found = ReciprocalChangeset(version: try row.number(0), changeset: try row.bytes(1))
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
            let sql = "SELECT version FROM write_key WHERE file = ? AND key = ?"
            return try rows(sql, [id.number, Data(key)]) { ServerVersion(rawValue: try $0.number(0)) }.first
        }
    }

    private func damaged(_ record: String) -> HistoryError {
        HistoryError(.storeDamaged, "\(record) is not what was written")
    }

    /// A number to be looked for: nothing is stored under those beyond 2^63−1.
    func sought(_ number: some TypedNumber) -> Int64 { Int64(clamping: number.rawValue) }

    func arguments(_ range: VersionRange) -> StatementArguments {
        [id.number, sought(range.base), sought(range.last)]
    }

    // MARK: Rows

    static func head(_ row: Row) throws -> FileHead {
        FileHead(
            version: try row.number(1), versionSalt: try row.number(2), cumulativeSize: try row.number(3),
            baseVersion: try row.number(4), baseSalt: try row.number(5), nextIdent: try row.number(6),
            stateVersion: try row.number(7))
    }

    static func entry(_ row: Row) throws -> LogEntry {
        LogEntry(
            version: try row.number(0), salt: try row.number(1), origin: try row.number(2),
            clientVersion: try row.number(3), timestamp: try row.number(4), cumulativeSize: try row.number(5),
            changeset: try row.bytes(6))
    }

    static func clientFile(_ row: Row) throws -> ClientFile {
        ClientFile(
            ident: try row.number(0), salt: try row.number(1),
            uploadCursor: UploadCursor(clientVersion: try row.number(2), serverVersion: try row.number(3)),
            lockedVersion: try row.number(4), lastSeen: try row.number(5), user: try row.text(6))
    }
}

/// Columns as values; a column of another type is damage.
extension Row {
    func number<Number: TypedNumber>(_ index: Int) throws -> Number { Number(rawValue: try number(index)) }

    func number(_ index: Int) throws -> UInt64 {
        let value: DatabaseValue = self[index]
        guard case .int64(let number) = value.storage else { throw damaged(index) }
        return UInt64(bitPattern: number)
    }

    func bytes(_ index: Int) throws -> [UInt8] {
        try withUnsafeData(atIndex: index) { data in
            guard let data else { throw damaged(index) }
            return Array(data)
        }
    }

    func text(_ index: Int) throws -> String? {
        let value: DatabaseValue = self[index]
        switch value.storage {
        case .null: return nil
        case .string(let text): return text
        default: throw damaged(index)
        }
    }

    private func damaged(_ index: Int) -> HistoryError {
        HistoryError(.storeDamaged, "column \(Array(columnNames)[index]) has another type")
    }
}

import AnabranchCore
import AnabranchHistory
import GRDB

/// Reads log entries and fails unless they are what was written (`Spec/Durability.md`, section 4).
struct CheckedEntries {
    private let file: SQLiteFile
    /// The entry that was read last: reading the next version needs no new search.
    private var newest: (version: ServerVersion, checksum: Checksum)?

    init(of file: SQLiteFile) { self.file = file }

    /// - Parameter row: a row with `SQLiteFile.entryColumns`.
    mutating func entry(_ row: Row) throws -> LogEntry {
        let entry = try SQLiteFile.entry(row)
        guard file.isChecked else { return entry }
        let stored = Checksum(bytes: try row.bytes(7))
        let before =
            if let newest, newest.version + 1 == entry.version { newest.checksum } else {
                try file.checksum(before: entry.version)
            }
        guard let stored, stored == before?.following(entry) else {
            throw HistoryError(
                .storeDamaged, "log entry \(entry.version), or the one before it, is not what was written")
        }
        newest = (entry.version, stored)
        return entry
    }
}

extension SQLiteFile {
    // MARK: Log

    /// The checksum that keys the checksum of an entry; nil if it is damaged.
    func checksum(before version: ServerVersion) throws -> Checksum? {
        let sql = "SELECT checksum FROM log_entry WHERE file = ? AND version = ? - 1"
        let found = try rows(sql, [id.number, sought(version)]) { Checksum(bytes: try $0.bytes(0)) }
        return try found.first ?? sealedEnd()?.chain
    }

    /// Checks the entries that a scan has skipped, the origin's own. Their changesets need not be read for that: their
    /// number and sizes are the difference between the versions and cumulative sizes at both ends, and the index
    /// `receipt` names them a second time.
    /// - Parameter read: the number of entries that were not skipped plus the bytes of their changesets, in one sum.
    func checkPassedOver(in range: VersionRange, byOrigin origin: ClientFileID?, read: UInt64) throws {
        guard isChecked, !range.isEmpty else { return }
        var sum = read
        if let origin {
            let sql = """
                SELECT COALESCE(SUM(\(SQLiteFile.changesetBytes) + 1), 0) FROM log_entry INDEXED BY receipt
                WHERE file = ? AND version > ? AND version <= ? AND origin = ?
                """
            sum &+= try rows(sql, arguments(range) + [sought(origin)]) { try $0.number(0) as UInt64 }.first ?? 0
        }
        guard try entriesAndBytes(through: range.last) &- entriesAndBytes(through: range.base) == sum else {
            throw HistoryError(
                .storeDamaged, "of the log entries \(range.base + 1) to \(range.last) some are not what was written")
        }
    }

    private func entriesAndBytes(through version: ServerVersion) throws -> UInt64 {
        let sql = """
            SELECT version, cumulative_size FROM log_entry WHERE file = ? AND version <= ? ORDER BY version DESC LIMIT 1
            """
        let found = try rows(sql, [id.number, sought(version)]) { try ($0.number(0) as UInt64) &+ $0.number(1) }
        if let found = found.first { return found }
        guard let end = try sealedEnd() else { return 0 }
        return end.version.rawValue &+ end.cumulativeSize
    }

    /// A receipt from the index, which has to say the same as the entry.
    /// - Parameter row: a row with `receiptColumns`.
    static func receipt(_ row: Row) throws -> Receipt {
        let version: ServerVersion = try row.number(0), clientVersion: ClientVersion = try row.number(1)
        guard try row.number(2) == version, try row.number(3) == clientVersion, try row.number(4) == row.number(5)
        else { throw HistoryError(.storeDamaged, "log entry \(version) is indexed as another one") }
        return Receipt(version: version, clientVersion: clientVersion)
    }

    static let receiptColumns = "r.version, r.client_version, e.version, e.client_version, r.origin, e.origin"
    static let receiptTables = "log_entry r INDEXED BY receipt CROSS JOIN log_entry e ON e.rowid = r.rowid"

    // MARK: Head

    /// Checks that the record, which has a checksum of its own, also agrees with the newest entry and the newest client
    /// file, which may be missing.
    func check(_ record: FileRecord) throws {
        guard newPath == nil else { return }
        let head = record.head
        let sql = """
            SELECT version, salt, cumulative_size, checksum FROM log_entry
            WHERE file = ? ORDER BY version DESC LIMIT 1
            """
        let newest = try rows(sql, [id.number]) { row in
            let version: ServerVersion = try row.number(0), salt: Salt = try row.number(1)
            let chain = Checksum(bytes: try row.bytes(3))
            return try head.version == version && head.versionSalt == salt && head.cumulativeSize == row.number(2)
                && record.chain == chain
        }.first
        guard newest ?? (head.version == head.baseVersion && record.chain == record.baseChain) else {
            throw HistoryError(.storeDamaged, "the log does not end at version \(head.version) as it was written")
        }
        let idents = try rows("SELECT MAX(ident) FROM client_file WHERE file = ?", [id.number]) { row in
            try row.number(0) as UInt64
        }
        guard idents.first.map({ $0 &+ 1 }) == head.nextIdent.rawValue else {
            throw HistoryError(.storeDamaged, "the client files do not end before \(head.nextIdent)")
        }
    }
}

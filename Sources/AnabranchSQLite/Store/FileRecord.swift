import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// The row of a synced file: its name, and the end and the beginning of its log.
struct FileRecord {
    static let columns = """
        id, path, lease, version, version_salt, cumulative_size, base_version, base_salt, base_cumulative_size,
        base_chain, next_ident, state_version, chain, checksum
        """

    // Each commit reads the row and writes it: the statements are not put together each time.
    fileprivate static let selection = "SELECT \(columns) FROM synced_file WHERE id = ?"
    fileprivate static let insertion = """
        INSERT INTO synced_file (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET lease = excluded.lease, version = excluded.version,
        version_salt = excluded.version_salt, cumulative_size = excluded.cumulative_size,
        base_version = excluded.base_version, base_salt = excluded.base_salt,
        base_cumulative_size = excluded.base_cumulative_size, base_chain = excluded.base_chain,
        next_ident = excluded.next_ident, state_version = excluded.state_version, chain = excluded.chain,
        checksum = excluded.checksum
        """

    let number: Int64
    let path: VirtualPath
    /// The lease of the newest commit.
    var lease = Lease(0)
    var head = FileHead()
    /// The key of the first entry's checksum. At both ends, nil stands for a value that is not a checksum.
    var baseChain: Checksum?
    /// The checksum of the newest entry.
    var chain: Checksum?

    /// A file that is not stored yet.
    init(number: Int64, path: VirtualPath) {
        (self.number, self.path) = (number, path)
        baseChain = start
        chain = start
    }

    /// - Parameters:
    ///   - row: a row with `columns`.
    ///   - isChecked: whether the row has to be what was written.
    /// - Throws: `storeDamaged`.
    init(_ row: some RowValues, isChecked: Bool = true) throws {
        number = Int64(bitPattern: try row.number(0))
        path = VirtualPath(try row.bytes(1))
        lease = Lease(try row.number(2))
        head = FileHead(
            version: try row.number(3), versionSalt: try row.number(4), cumulativeSize: try row.number(5),
            baseVersion: try row.number(6), baseSalt: try row.number(7), baseCumulativeSize: try row.number(8),
            nextIdent: try row.number(10), stateVersion: try row.number(11))
        baseChain = Checksum(bytes: try row.bytes(9))
        chain = Checksum(bytes: try row.bytes(12))
        guard try !isChecked || Checksum(bytes: row.bytes(13)) == checksum else {
            throw HistoryError(.storeDamaged, "the record of the file is not what was written")
        }
    }

    /// The checksum with which those of the file begin.
    var start: Checksum { Checksum(startOf: path) }

    /// Nil if it would cover a value that is not a checksum.
    var checksum: Checksum? {
        guard let baseChain, let chain else { return nil }
        return start.keyed(
            [
                lease.number, head.version.rawValue, head.versionSalt.rawValue, head.cumulativeSize,
                head.baseVersion.rawValue, head.baseSalt.rawValue, head.baseCumulativeSize, baseChain.low,
                baseChain.high, head.nextIdent.rawValue, head.stateVersion.rawValue, chain.low, chain.high,
            ], [])
    }
}

extension SQLiteFile {
    /// The row as it is stored.
    func record() throws -> FileRecord {
        let found = try frequentRows(FileRecord.selection, [id.number]) { try FileRecord($0, isChecked: isChecked) }
        if let record = found.first { return record }
        guard let newPath else { throw HistoryError(.storeDamaged, "there is no file \(id.number)") }
        return FileRecord(number: id.number, path: newPath)
    }

    /// Writes the row. The caller has a transaction.
    func store(_ record: FileRecord) throws {
        guard let checksum = record.checksum, let baseChain = record.baseChain, let chain = record.chain else {
            throw HistoryError(.storeDamaged, "file \(id.number) has no checksum")
        }
        let head = record.head
        try execute(
            FileRecord.insertion,
            [
                record.number, Data(record.path.bytes), stored(record.lease.number), stored(head.version),
                stored(head.versionSalt), stored(head.cumulativeSize), stored(head.baseVersion), stored(head.baseSalt),
                stored(head.baseCumulativeSize), Data(baseChain.bytes), stored(head.nextIdent),
                stored(head.stateVersion), Data(chain.bytes), Data(checksum.bytes),
            ])
    }

    func stored(_ number: some TypedNumber) -> Int64 { stored(number.rawValue) }

    func stored(_ number: UInt64) -> Int64 { Int64(bitPattern: number) }

    func execute(_ sql: String, _ arguments: StatementArguments) throws {
        try db.cachedStatement(sql: sql).execute(arguments: arguments)
    }
}

#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

/// The row of a synced file: its name, and the end and the beginning of its log.
struct FileRecord: Sendable {
    /// The columns of `synced_file f` that make it.
    static let columns = """
        f.id, f.path, f.lease, f.version, f.version_salt, f.cumulative_size, f.chain, f.base_version, f.base_salt,
        f.base_cumulative_size, f.base_chain, f.sealed_version, f.next_ident, f.state_version, f.bounds, f.checksum
        """
    /// The same, followed by the columns that have to agree with them.
    static let checkedColumns = """
        \(columns), e.salt, e.cumulative_size, e.checksum,
        (SELECT max(version) FROM log_entry WHERE file = f.id),
        (SELECT max(ident) FROM client_file WHERE file = f.id)
        """
    static let checkedTables = "synced_file f LEFT JOIN log_entry e ON e.file = f.id AND e.version = f.version"

    let number: Int64
    let path: VirtualPath
    /// The lease of the newest opening. It is in no checksum: it only tells parties apart.
    var lease = Lease(0)
    /// Its `bounds` are in no checksum either.
    var head = FileHead()
    /// The key of the first entry's checksum.
    var baseChain: Checksum
    /// The checksum of the newest entry.
    var chain: Checksum
    /// The version up to which the log is in segments, or where it begins.
    var sealedVersion: ServerVersion = 0
    /// True once the row is there.
    var isStored = false

    /// A file that is not stored yet.
    init(number: Int64, path: VirtualPath) {
        (self.number, self.path) = (number, path)
        baseChain = Checksum(startOf: path)
        chain = baseChain
    }

    /// - Parameter row: a row with `columns`.
    /// - Throws: `storeDamaged`.
    init(_ rows: PostgresRows, _ row: Int, isChecked: Bool = true) throws(HistoryError) {
        let path = VirtualPath(try rows.requiredBytes(row, 1))
        self.init(number: Int64(bitPattern: try rows.number(row, 0)), path: path)
        lease = Lease(try rows.number(row, 2))
        head = FileHead(
            version: try rows.number(row, 3), versionSalt: try rows.number(row, 4),
            cumulativeSize: try rows.number(row, 5), baseVersion: try rows.number(row, 7),
            baseSalt: try rows.number(row, 8), baseCumulativeSize: try rows.number(row, 9),
            nextIdent: try rows.number(row, 12), stateVersion: try rows.number(row, 13),
            bounds: try rows.number(row, 14))
        sealedVersion = try rows.number(row, 11)
        isStored = true
        if let chain = rows.checksum(row, 6), let baseChain = rows.checksum(row, 10) {
            (self.chain, self.baseChain) = (chain, baseChain)
        }
        guard !isChecked || rows.checksum(row, 15) == checksum else {
            throw HistoryError(.storeDamaged, "the record of the file is not what was written")
        }
    }

    /// The checksum with which those of the file begin.
    var start: Checksum { Checksum(startOf: path) }

    var checksum: Checksum {
        start.keyed(
            [
                head.version.rawValue, head.versionSalt.rawValue, head.cumulativeSize, head.baseVersion.rawValue,
                head.baseSalt.rawValue, head.baseCumulativeSize, baseChain.low, baseChain.high,
                sealedVersion.rawValue, head.nextIdent.rawValue, head.stateVersion.rawValue, chain.low, chain.high,
            ], [])
    }

    /// Checks that the newest entry and the newest client file, which may be missing, agree.
    /// - Parameter row: a row with `checkedColumns`.
    func check(_ rows: PostgresRows, _ row: Int) throws(HistoryError) {
        let newest: ServerVersion? = try rows.optionalNumber(row, 19).map(ServerVersion.init(rawValue:))
        let salt = try rows.optionalNumber(row, 16), size = try rows.optionalNumber(row, 17)
        let fits =
            newest == nil
            ? head.version == head.baseVersion && chain == baseChain
            : newest == head.version && salt == head.versionSalt.rawValue && size == head.cumulativeSize
                && rows.checksum(row, 18) == chain
        guard fits else {
            throw HistoryError(.storeDamaged, "the log does not end at version \(head.version) as it was written")
        }
        let lastIdent = try rows.optionalNumber(row, 20)
        guard lastIdent.map({ $0 &+ 1 }) == head.nextIdent.rawValue else {
            throw HistoryError(.storeDamaged, "the client files do not end before \(head.nextIdent)")
        }
    }
}
#endif

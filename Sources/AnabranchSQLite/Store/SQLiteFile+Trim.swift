import AnabranchCore
import AnabranchHistory
import GRDB

extension SQLiteFile {
    // MARK: Reading

    func clientFiles(after ident: ClientFileID, countMax: Int) throws(HistoryError) -> [ClientFile] {
        try translatingErrors {
            guard newPath == nil else {
                return Array(ClientFile.reserved.filter { $0.ident > ident }.prefix(max(0, countMax)))
            }
            let sql = """
                SELECT \(SQLiteFile.clientColumns) FROM client_file WHERE file = ? AND ident > ?
                ORDER BY ident LIMIT ?
                """
            let start = try record().start
            return try rows(sql, [id.number, sought(ident), max(0, countMax)]) { row in
                let file = try SQLiteFile.clientFile(row)
                guard try !isChecked || Checksum(bytes: row.bytes(7)) == start.covering(file) else {
                    throw HistoryError(.storeDamaged, "client file \(file.ident) is not what was written")
                }
                return file
            }
        }
    }

    /// Reads the rows without checking their checksums: a file can have very many of them, and each trim asks.
    func clientFile(pinnedBelow version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try translatingErrors {
            let unexpired = "FROM client_file WHERE file = ?1 AND salt <> 0 AND is_expired = 0 AND lineage"
            let ofLog = try rows(
                "SELECT ident \(unexpired) = 1 AND MIN(reciprocal_base, locked_version) < ?2 LIMIT 1",
                [id.number, sought(version)]
            ) { ClientFileID(rawValue: try $0.number(0)) }
            if let found = ofLog.first { return found }
            for (first, end) in [(Lineage.copyOffset, Lineage.viewOffset), (Lineage.viewOffset, 1 << 63)] {
                let sql = """
                    SELECT ident \(unexpired) BETWEEN ?2 AND ?3
                    AND MAX(lineage - ?2, MIN(reciprocal_base, locked_version)) < ?4 LIMIT 1
                    """
                let found = try rows(sql, [id.number, Int64(first), Int64(end - 1), sought(version)]) {
                    ClientFileID(rawValue: try $0.number(0))
                }
                if let found = found.first { return found }
            }
            let generations = Set(try generations().map(\.version))
            let ofGenerations = "\(unexpired) BETWEEN 2 AND ?2 GROUP BY lineage"
            return try rows(
                "SELECT lineage, MIN(ident) \(ofGenerations)", [id.number, Int64(Lineage.copyOffset) - 1]
            ) { row in
                let lineage = Lineage(rawValue: try row.number(0)), ident: ClientFileID = try row.number(1)
                guard case .generation(let generation) = lineage else { return nil as ClientFileID? }
                return generations.contains(generation) && generation >= version ? nil : ident
            }.lazy.compactMap { $0 }.first
        }
    }

    func newestReceipts(in range: VersionRange) throws(HistoryError) -> [ClientFileID: Receipt] {
        try translatingErrors {
            // Together with MAX, SQLite takes other columns from the row that has the largest value.
            let sql = """
                SELECT origin, MAX(version), client_version FROM log_entry
                WHERE file = ? AND version > ? AND version <= ? AND origin > 0 GROUP BY origin
                """
            let found = try rows(sql, arguments(range)) { row in
                let ident: ClientFileID = try row.number(0)
                return (ident, Receipt(version: try row.number(1), clientVersion: try row.number(2)))
            }
            return Dictionary(found, uniquingKeysWith: { $1 })
        }
    }

    // MARK: Writing

    /// Removes the oldest entries and everything that belongs to them. The client files of the commit are stored
    /// already.
    func apply(_ trim: Trim, to record: inout FileRecord) throws {
        try view().check(trim, of: record.head)
        let sealed = try sealedLog(), rowsBase = max(record.head.baseVersion, sealed?.range.last ?? 0)
        // The entry after the last one is keyed with its checksum.
        record.baseChain = try sealed?.end(at: trim.version)?.chain ?? checksum(before: trim.version + 1)
        if trim.version > rowsBase {
            try removeConflictKeys(of: VersionRange(after: rowsBase, through: trim.version))
        }
        if trim.keep == .archive { try archive(through: trim.version) }
        for (table, version) in [("log_segment", "last"), ("log_entry", "version"), ("received", "version")] {
            try execute(
                "DELETE FROM \(table) WHERE file = ? AND \(version) <= ?", [id.number, sought(trim.version)])
        }
    }

    /// Finds the keys by the writes of the entries: the keys of a file are not in the order of versions.
    private func removeConflictKeys(of range: VersionRange) throws {
        var replay = LogReplay(range)
        while !replay.isDone {
            for entry in try replay.next(from: self) {
                for key in try entry.writtenKeys() {
                    try execute(
                        "DELETE FROM conflict_key WHERE file = ? AND key = ? AND version = ?",
                        [id.number, stored(key.key), stored(key.version)])
                }
            }
        }
    }
}

extension LogEntry {
    /// The conflict keys that it writes.
    /// - Throws: `storeDamaged` if the changeset cannot be decoded.
    func writtenKeys() throws(HistoryError) -> [ConflictKeyEntry] {
        do throws(ChangesetError) {
            return try conflictKeys()
        } catch {
            throw HistoryError(.storeDamaged, "log entry \(version): \(error)")
        }
    }
}

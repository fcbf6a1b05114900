import AnabranchCore
import AnabranchHistory
import AnabranchRows
import Foundation
import GRDB

extension SQLiteFile {
    static func find(_ path: VirtualPath, in db: Database) throws -> (SyncedFileID, FileHead)? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT \(headColumns) FROM synced_file WHERE path = ?
                """, arguments: [Data(path.bytes)])
        guard let row else { return nil }
        return (SyncedFileID(Int64(bitPattern: try row.number(0))), try head(row))
    }

    /// Makes an empty file with the reserved rows.
    static func create(_ path: VirtualPath, in db: Database) throws -> (SyncedFileID, FileHead) {
        let start = Checksum(startOf: path), head = FileHead()
        try db.execute(
            sql: """
                INSERT INTO synced_file
                (path, version, version_salt, cumulative_size, base_version, base_salt, next_ident, chain)
                VALUES (?, 0, 0, 0, 0, 0, ?, ?)
                """, arguments: [Data(path.bytes), Int64(clamping: head.nextIdent.rawValue), Data(start.bytes)])
        let file = SQLiteFile(id: SyncedFileID(db.lastInsertedRowID), db: db)
        for clientFile in ClientFile.reserved { try file.store(clientFile, start: start) }
        return (file.id, head)
    }

    /// Writes everything a commit holds; the caller has a transaction.
    /// - Parameter state: what the commit's state update comes to.
    func apply(_ commit: Commit, _ state: RowWrites?) throws {
        let (path, chain) = try pathAndChain()
        let start = Checksum(startOf: path)
        for clientFile in commit.clientFiles {
            try store(clientFile, start: start)
            try dropReciprocals(of: clientFile)
        }
        for change in commit.reciprocals { try store(change, start: start) }
        let newChain = try append(commit.entries, chain: chain)
        for entry in commit.conflictKeys { try store(entry) }
        if let state { try StateTable(file: id.number).write(state, in: db) }
        if let key = commit.idempotencyKey { try store(key) }
        try store(commit.newHead, chain: newChain)
    }

    private func pathAndChain() throws -> (VirtualPath, Checksum) {
        let sql = "SELECT path, chain FROM synced_file WHERE id = ?"
        let found = try rows(sql, [id.number]) { row in
            (VirtualPath(try row.bytes(0)), Checksum(bytes: try row.bytes(1)))
        }
        guard let (path, chain) = found.first, let chain else {
            throw HistoryError(.storeDamaged, "file \(id.number) has no checksum")
        }
        return (path, chain)
    }

    private func execute(_ sql: String, _ arguments: StatementArguments) throws {
        try db.cachedStatement(sql: sql).execute(arguments: arguments)
    }

    private func append(_ entries: [LogEntry], chain: Checksum) throws -> Checksum {
        var chain = chain
        for entry in entries {
            chain = chain.following(entry)
            try execute(
                "INSERT INTO log_entry (file, \(SQLiteFile.entryColumns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    id.number, stored(entry.version), stored(entry.salt), stored(entry.origin),
                    stored(entry.clientVersion), stored(entry.timestamp), stored(entry.cumulativeSize),
                    Data(entry.changeset), Data(chain.bytes),
                ])
        }
        return chain
    }

    private func store(_ file: ClientFile, start: Checksum) throws {
        try execute(
            "INSERT OR REPLACE INTO client_file (file, \(SQLiteFile.clientColumns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                id.number, stored(file.ident), stored(file.salt), stored(file.uploadCursor.clientVersion),
                stored(file.uploadCursor.serverVersion), stored(file.lockedVersion), stored(file.lastSeen), file.user,
                Data(start.covering(file).bytes),
            ])
    }

    private func dropReciprocals(of file: ClientFile) throws {
        try execute(
            "DELETE FROM reciprocal WHERE file = ? AND ident = ? AND version <= ?",
            [
                id.number, stored(file.ident),
                file.isExpired ? Int64.max : Int64(clamping: file.uploadCursor.serverVersion.rawValue),
            ])
    }

    private func store(_ change: ReciprocalChange, start: Checksum) throws {
        try execute(
            "INSERT OR REPLACE INTO reciprocal (file, ident, version, checksum, changeset) VALUES (?, ?, ?, ?, ?)",
            [
                id.number, stored(change.ident), stored(change.reciprocal.version), Data(start.covering(change).bytes),
                Data(change.reciprocal.changeset),
            ])
    }

    func store(_ entry: ConflictKeyEntry) throws {
        try execute(
            "INSERT INTO touch (file, hash, version, origin) VALUES (?, ?, ?, ?)",
            [id.number, stored(entry.key), stored(entry.version), stored(entry.origin)])
    }

    /// Keeps the newest keys of the file.
    private func store(_ write: IdempotencyKey) throws {
        try execute(
            "INSERT OR REPLACE INTO write_key (file, key, version) VALUES (?, ?, ?)",
            [id.number, Data(write.key), stored(write.version)])
        try execute(
            """
            DELETE FROM write_key WHERE file = ?1 AND number <=
            (SELECT number FROM write_key WHERE file = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)
            """, [id.number, IdempotencyKey.countMax])
    }

    private func store(_ head: FileHead, chain: Checksum) throws {
        try execute(
            """
            UPDATE synced_file SET version = ?, version_salt = ?, cumulative_size = ?, next_ident = ?,
            state_version = ?, chain = ? WHERE id = ?
            """,
            [
                stored(head.version), stored(head.versionSalt), stored(head.cumulativeSize), stored(head.nextIdent),
                stored(head.stateVersion), Data(chain.bytes), id.number,
            ])
    }

    private func stored(_ number: some TypedNumber) -> Int64 { stored(number.rawValue) }

    private func stored(_ number: UInt64) -> Int64 { Int64(bitPattern: number) }
}

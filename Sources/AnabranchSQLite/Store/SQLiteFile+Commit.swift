import AnabranchCore
import AnabranchHistory
import AnabranchRows
import Foundation
import GRDB

extension SQLiteFile {
    static func find(_ path: VirtualPath, in db: Database, isChecked: Bool = true) throws -> FileRecord? {
        let sql = "SELECT \(FileRecord.columns) FROM synced_file WHERE path = ?"
        let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [Data(path.bytes)])
        return try row.map { try FileRecord($0, isChecked: isChecked) }
    }

    /// Writes everything a commit holds, and the file itself if it is new; the caller has a transaction.
    /// - Parameters:
    ///   - record: the file as it is stored.
    ///   - state: the rows that the commit's state update writes.
    func apply(_ commit: Commit, to record: FileRecord, _ state: RowWrites?) throws {
        if commit.deletesFile { return try delete() }
        var record = record
        let start = record.start
        if newPath != nil {
            for clientFile in ClientFile.reserved { try store(clientFile, start: start) }
        }
        for clientFile in commit.clientFiles {
            try store(clientFile, start: start)
            try dropReciprocals(of: clientFile)
            guard clientFile.isExpired else { continue }
            try dropView(of: clientFile.ident)
            try dropWithheldSchema(of: clientFile.ident)
        }
        for (ident, schema) in commit.withheldSchemas { try store(withheldSchema: schema, of: ident, start: start) }
        if let trim = commit.trim { try apply(trim, to: &record) }
        if let copied = commit.copied { try store(copied, &record) }
        for change in commit.reciprocals { try store(change, start: start) }
        record.chain = try append(commit.entries, chain: record.chain)
        for entry in commit.conflictKeys { try store(entry) }
        for received in commit.received { try store(received, start: start) }
        if let state { try StateTable(of: id.number).write(state, in: db) }
        if let key = commit.idempotencyKey { try store(key) }
        if let change = commit.generation { try apply(change, start: start) }
        var contents = ViewContents(of: self)
        for change in commit.views { try store(change, &contents, start: start) }
        for field in commit.viewFields { try store(field) }
        try store(commit.records, start: start)
        if commit.freedIngested > 0 { try freeIngested(through: commit.freedIngested) }
        for object in commit.ingested { try store(object, start: start) }
        if let sealed = commit.sealed { try seal(sealed, of: record.head, start: start) }
        record.head = commit.newHead
        record.lease = max(record.lease, commit.lease)
        try store(record)
    }

    // Each commit of an upload executes these: they are not put together each time.
    private static let insertionOfEntry = """
        INSERT INTO log_entry (file, \(entryColumns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """
    private static let insertionOfClientFile = """
        INSERT OR REPLACE INTO client_file (file, \(clientColumns))
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """

    private func append(_ entries: [LogEntry], chain: Checksum?) throws -> Checksum? {
        var chain = chain
        for entry in entries {
            chain = chain?.following(entry)
            try store(entry, checksum: chain)
        }
        return chain
    }

    /// - Parameter checksum: nil only with a damaged record, which cannot be stored then.
    func store(_ entry: LogEntry, checksum: Checksum?) throws {
        let packed = try PackedContent.packed(entry.changeset)
        let statement = try db.cachedStatement(sql: Self.insertionOfEntry)
        try statement.execute(
            arguments: [
                id.number, stored(entry.version), stored(entry.salt), stored(entry.origin),
                stored(entry.clientVersion), stored(entry.timestamp), stored(entry.cumulativeSize),
                packed ?? Data(entry.changeset), Data(checksum?.bytes ?? []), entry.base.map(stored),
                known(entry.uploader.release), known(entry.uploader.protocolVersion),
                entry.section.isEmpty ? nil : Data(entry.section), packed.map { _ in entry.changeset.count },
            ])
        // It would keep the changeset, which may be long, until the next entry comes.
        statement.setUncheckedArguments([])
    }

    private func known(_ number: UInt64) -> Int64? { number == 0 ? nil : stored(number) }

    func store(_ file: ClientFile, start: Checksum) throws {
        try execute(
            Self.insertionOfClientFile,
            [
                id.number, stored(file.ident), stored(file.salt), stored(file.uploadCursor.clientVersion),
                stored(file.uploadCursor.serverVersion), stored(file.lockedVersion), stored(file.lastSeen), file.user,
                Data(start.covering(file).bytes), file.isExpired, stored(file.lineage.rawValue),
                stored(file.baseClientVersion), stored(file.newestReceipt?.version ?? 0),
                stored(file.newestReceipt?.clientVersion ?? 0),
            ])
    }

    private func store(_ received: ReceivedChangeset, start: Checksum) throws {
        try execute(
            "INSERT OR REPLACE INTO received (file, version, time, checksum, changeset) VALUES (?, ?, ?, ?, ?)",
            [
                id.number, stored(received.version), stored(received.time), Data(start.covering(received).bytes),
                try PackedContent.stored(received.changeset),
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
                try PackedContent.stored(change.reciprocal.changeset),
            ])
    }

    func store(_ entry: ConflictKeyEntry) throws {
        try execute(
            "INSERT INTO conflict_key (file, key, version, origin) VALUES (?, ?, ?, ?)",
            [id.number, stored(entry.key), stored(entry.version), stored(entry.origin)])
    }

    /// Keeps the newest keys of the file.
    func store(_ write: IdempotencyKey) throws {
        try execute(
            "INSERT OR REPLACE INTO idempotency_key (file, key, version) VALUES (?, ?, ?)",
            [id.number, Data(write.key), stored(write.version)])
        try execute(
            """
            DELETE FROM idempotency_key WHERE file = ?1 AND number <=
            (SELECT number FROM idempotency_key WHERE file = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)
            """, [id.number, IdempotencyKey.countMax])
    }
}

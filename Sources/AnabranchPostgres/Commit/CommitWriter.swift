#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

/// Writes commits of different files in one transaction. Most commits take one round trip; those that are checked
/// against what is stored (trims, segments, generations) take some.
struct CommitWriter {
    private let transaction: StoreTransaction
    private let segments: SegmentCache
    private let isShared: Bool
    private var batch = CommitBatch()

    init(_ transaction: StoreTransaction, keptBy segments: SegmentCache, isShared: Bool) {
        (self.transaction, self.segments, self.isShared) = (transaction, segments, isShared)
    }

    /// Ends the transaction.
    mutating func finish() throws(HistoryError) {
        try transaction.commit(batch.takeSteps())
    }

    /// Writes what was added, so that the following reads see it.
    private mutating func flush() throws(HistoryError) { _ = try transaction.run(batch.takeSteps()) }

    mutating func execute(_ sql: String, _ parameters: PostgresValue...) throws(HistoryError) -> PostgresRows {
        try transaction.query(sql, parameters)
    }

    /// Writes everything that a commit holds, and the file itself if it is new.
    /// - Parameters:
    ///   - record: the file as it is stored, which is locked.
    ///   - state: the rows that the commit's state update writes.
    /// - Returns: the file as it is afterwards; nil if it is deleted.
    mutating func apply(
        _ commit: Commit, to record: FileRecord, _ state: RowWrites?
    ) throws(HistoryError) -> FileRecord? {
        let file = Cell.number(record.number), start = record.start
        if commit.deletesFile {
            guard record.isStored else { return nil }
            batch.add(.deletedFile, file)
            batch.add(.deletedFileHead, file)
            return nil
        }
        var after = record
        if !record.isStored { addReserved(of: file, start) }
        for clientFile in commit.clientFiles {
            add(clientFile, of: file, start)
            let ident = Cell(clientFile.ident), base = clientFile.uploadCursor.serverVersion
            batch.add(.staleReciprocals, file, ident, clientFile.isExpired ? .number(.max) : Cell(base))
            guard clientFile.isExpired else { continue }
            batch.add(.expiredView, file, ident)
            batch.add(.expiredViewEntries, file, ident)
            batch.add(.noWithheldSchema, file, ident)
        }
        for (ident, schema) in commit.withheldSchemas {
            guard !schema.isEmpty else {
                batch.add(.noWithheldSchema, file, Cell(ident))
                continue
            }
            batch.add(
                .withheldSchema, file, Cell(ident), Cell(start.covering(schema: schema, of: ident)), .bytes(schema))
        }
        if let trim = commit.trim { try apply(trim, of: commit.file, to: &after) }
        if let copied = commit.copied { try add(copied, to: &after) }
        for change in commit.reciprocals {
            batch.add(
                .reciprocal, file, Cell(change.ident), Cell(change.reciprocal.version), Cell(start.covering(change)),
                .bytes(change.reciprocal.changeset))
        }
        for entry in commit.entries {
            after.chain = after.chain.following(entry)
            add(entry, of: file, after.chain)
        }
        for key in commit.conflictKeys {
            batch.add(.conflictKey, file, Cell(key.key), Cell(key.version), Cell(key.origin))
        }
        for received in commit.received {
            batch.add(
                .received, file, Cell(received.version), Cell(received.time), Cell(start.covering(received)),
                .bytes(received.changeset))
        }
        if let state { add(state, of: file) }
        if let write = commit.idempotencyKey {
            batch.add(.idempotencyKey, file, .bytes(write.key), Cell(write.version))
            batch.add(.oldIdempotencyKeys, file, .number(Int64(IdempotencyKey.countMax)))
        }
        if let change = commit.generation { try apply(change, of: commit.file, record) }
        addViews(of: commit, file, start)
        addRecords(of: commit, file, start)
        if let sealed = commit.sealed { try seal(sealed, of: commit.file, in: &after) }
        after.head = commit.newHead(after: record.head)
        after.sealedVersion = max(after.sealedVersion, after.head.baseVersion)
        add(after, replacing: record)
        after.isStored = true
        return after
    }

    /// Writes a file of a shared store, which has no commit yet.
    mutating func create(_ record: FileRecord) {
        addReserved(of: .number(record.number), record.start)
        add(record, replacing: record)
    }

    // MARK: Rows

    private mutating func addReserved(of file: Cell, _ start: Checksum) {
        for clientFile in ClientFile.reserved { add(clientFile, of: file, start) }
    }

    private mutating func add(_ after: FileRecord, replacing before: FileRecord) {
        let head = after.head
        let cells: [Cell] = [
            Cell(head.version), Cell(head.versionSalt), Cell(head.cumulativeSize), Cell(after.chain),
            Cell(head.baseVersion), Cell(head.baseSalt), Cell(head.baseCumulativeSize), Cell(after.baseChain),
            Cell(after.sealedVersion), Cell(head.nextIdent), Cell(head.stateVersion), Cell(head.bounds),
            Cell(after.checksum),
        ]
        let number = Cell.number(after.number)
        if before.isStored {
            batch.add(.fileHead, [number] + cells)
        } else {
            batch.add(.newFile, [number, .bytes(after.path.bytes), Cell(after.lease.number)] + cells)
        }
    }

    private mutating func add(_ clientFile: ClientFile, of file: Cell, _ start: Checksum) {
        let cursor = clientFile.uploadCursor, receipt = clientFile.newestReceipt
        batch.add(
            .clientFile, file, Cell(clientFile.ident), Cell(clientFile.salt), Cell(cursor.clientVersion),
            Cell(cursor.serverVersion), Cell(clientFile.lockedVersion), Cell(clientFile.lastSeen),
            .flag(clientFile.isExpired), Cell(clientFile.user), Cell(clientFile.lineage.rawValue),
            Cell(clientFile.baseClientVersion), Cell(receipt?.version ?? 0), Cell(receipt?.clientVersion ?? 0),
            Cell(clientFile.revision), Cell(clientFile.session), Cell(clientFile.foundAway),
            Cell(start.covering(clientFile)))
    }

    private mutating func add(_ entry: LogEntry, of file: Cell, _ checksum: Checksum) {
        func known(_ number: UInt64) -> Cell { number == 0 ? .null : Cell(number) }
        batch.add(
            .logEntry, file, Cell(entry.version), Cell(entry.salt), Cell(entry.origin), Cell(entry.clientVersion),
            Cell(entry.timestamp), Cell(entry.cumulativeSize), Cell(entry.base), known(entry.uploader.release),
            known(entry.uploader.protocolVersion), Cell(checksum),
            entry.section.isEmpty ? .null : .bytes(entry.section), .bytes(entry.changeset))
    }

    mutating func add(_ state: RowWrites, of file: Cell) {
        for number in state.erasedClasses { batch.add(.erasedClass, file, .number(Int64(number.rawValue))) }
        for address in state.removed {
            batch.add(
                .removedStateRow, file, .number(Int64(address.classID.rawValue)), .bytes(address.key),
                Cell(address.part))
        }
        for (address, content) in state.rows {
            batch.add(
                .stateRow, file, .number(Int64(address.classID.rawValue)), .bytes(address.key), Cell(address.part),
                .bytes(content))
        }
    }

    private mutating func addViews(of commit: Commit, _ file: Cell, _ start: Checksum) {
        for change in commit.views {
            let record = change.record, predicates = record.predicates.json.encoded, ident = Cell(record.ident)
            batch.add(
                .view, file, ident, Cell(record.queryVersion), Cell(record.changed), Cell(record.projected),
                Cell(record.firstNumber), Cell(record.lastNumber), Cell(predicates), Cell(record.role),
                record.logged.isEmpty ? .null : .bytes(record.logged.encoded),
                Cell(start.covering(record, predicates)))
            batch.add(.confirmedViewEntries, file, ident, Cell(record.firstNumber))
            for entry in change.entries {
                guard let fields = ViewEntryFields(entry) else { continue }
                if let digest = fields.digest { batch.add(.viewContent, file, .bytes(digest), Cell(fields.changeset)) }
                batch.add(
                    .viewEntry, file, ident, Cell(entry.number), Cell(entry.version), Cell(entry.clientVersion),
                    Cell(entry.timestamp), Cell(entry.origin), Cell(entry.bootstrap),
                    Cell(fields.loggedBytes.map { UInt64($0) }), Cell(fields.digest),
                    fields.digest == nil ? Cell(fields.changeset) : .null, Cell(fields.merged),
                    Cell(fields.compensation), Cell(fields.checksum(of: entry, record.ident, start: start)))
            }
        }
        // The last one of several about one field counts.
        var fields: [[[UInt8]?]: ViewField] = [:]
        for field in commit.viewFields { fields[[field.className, field.name]] = field }
        for field in fields.values {
            batch.add(
                .viewField, file, .bytes(field.className), .flag(field.name == nil), .bytes(field.name ?? []),
                Cell(field.since))
        }
    }

    private mutating func addRecords(of commit: Commit, _ file: Cell, _ start: Checksum) {
        for change in commit.records {
            let place = change.place
            let name: [Cell] = [
                file, .number(Int64(place.space)), .number(Int64(place.kind)), .bytes(place.key),
            ]
            guard let value = change.value else {
                batch.add(.noDoorRecord, name)
                continue
            }
            let record = DoorRecord(place: place, value: value, expiresAt: change.expiresAt)
            batch.add(
                .doorRecord,
                name + [
                    record.expiresAt == 0 ? .null : .number(Int64(clamping: record.expiresAt)), .bytes(value),
                    Cell(start.covering(record)),
                ])
        }
        if commit.freedIngested > 0 { batch.add(.freedIngested, file, .number(Int64(clamping: commit.freedIngested))) }
        for object in commit.ingested {
            let key = object.key.stored
            batch.add(
                .ingested, file, Cell(object.number), .bytes(object.className), .number(Int64(key.type.rawValue)),
                .bytes(key.bytes), Cell(object.time), Cell(object.user), .bytes(object.json),
                Cell(start.covering(object)))
        }
    }

    // MARK: Checked changes

    /// Carries out a check of what is stored. In a shared store, others may have changed that since the author of the
    /// commit has looked at it; a connection that has broken shows again when the commit is repeated.
    private func checking(_ id: SyncedFileID, _ body: () throws(HistoryError) -> Void) throws(HistoryError) {
        do throws(HistoryError) { try body() } catch {
            throw isShared && error.code == .storeFailed ? .conflict(of: id, error.reason) : error
        }
    }

    /// The file within the transaction, which has locked it.
    private func file(_ id: SyncedFileID, _ record: FileRecord) -> PostgresFile {
        PostgresFile(reading: FileReading(id, locked: record, in: transaction), segments: segments)
    }

    /// Removes the oldest entries and everything that belongs to them. The client files of the commit are added
    /// already.
    private mutating func apply(
        _ trim: Trim, of id: SyncedFileID, to record: inout FileRecord
    ) throws(HistoryError) {
        try flush()
        let file = file(id, record)
        try checking(id) { () throws(HistoryError) in try file.view.check(trim, of: record.head) }
        let number = PostgresValue.number(id.number), end = PostgresValue.sought(trim.version)
        // The entry after the last one is keyed with its checksum.
        if trim.version <= record.sealedVersion, let sealed = file.sealedLog {
            record.baseChain = try sealed.end(at: trim.version)?.chain ?? record.baseChain
        } else {
            try removeConflictKeys(through: trim.version, of: file)
            let sql = "SELECT checksum FROM log_entry WHERE file = $1 AND version = $2"
            guard let chain = try execute(sql, number, end).checksum(0, 0) else {
                throw HistoryError(.storeDamaged, "log entry \(trim.version) is not what was written")
            }
            record.baseChain = chain
        }
        if trim.keep == .archive {
            _ = try execute(
                """
                INSERT INTO archived_segment (file, last, bytes, block)
                SELECT file, last, octet_length(block), block FROM log_segment WHERE file = $1 AND last <= $2
                """, number, end)
        }
        for (table, version) in [("log_segment", "last"), ("log_entry", "version"), ("received", "version")] {
            _ = try execute("DELETE FROM \(table) WHERE file = $1 AND \(version) <= $2", number, end)
        }
    }

    /// Finds the keys by the writes of the entries: the keys of a file are not in the order of versions.
    private mutating func removeConflictKeys(
        through version: ServerVersion, of file: PostgresFile
    ) throws(HistoryError) {
        let record = file.record
        var replay = LogReplay(
            VersionRange(after: max(record.head.baseVersion, record.sealedVersion), through: version))
        while !replay.isDone {
            try remove(try LogEntry.conflictKeys(of: try replay.next(from: file)), of: file)
        }
    }

    private mutating func remove(_ keys: [ConflictKeyEntry], of file: PostgresFile) throws(HistoryError) {
        guard !keys.isEmpty else { return }
        _ = try execute(
            """
            DELETE FROM conflict_key t USING unnest($2::bigint[], $3::bigint[]) AS n (key, version)
            WHERE t.file = $1 AND t.key = n.key AND t.version = n.version
            """, .number(file.id.number), .numbers(keys.map(\.key)), .numbers(keys.map(\.version.rawValue)))
    }

    /// Puts a segment in the place of rows.
    private mutating func seal(
        _ sealed: SealedEntries, of id: SyncedFileID, in record: inout FileRecord
    ) throws(HistoryError) {
        try flush()
        let file = file(id, record)
        guard sealed.range.last < record.head.version else {
            throw HistoryError(.storeDamaged, "the newest log entry is never sealed")
        }
        let number = PostgresValue.number(id.number), last = sealed.range.last
        let rows = try execute(
            "SELECT cumulative_size, checksum FROM log_entry WHERE file = $1 AND version = $2", number, .sought(last))
        var end: LogPlace?
        if rows.count > 0, let chain = rows.checksum(0, 1) {
            end = LogPlace(version: last, cumulativeSize: try rows.number(0, 0), chain: chain)
        }
        try sealed.check(from: try file.rowsBase(), to: end, of: record.start)
        let removed = try execute(
            "DELETE FROM log_entry WHERE file = $1 AND version <= $2", number, .sought(last))
        guard removed.affected == sealed.count else {
            throw HistoryError(.storeDamaged, "of the log entries up to \(last) some have no row")
        }
        try remove(sealed.conflictKeys, of: file)
        _ = try execute(
            "INSERT INTO log_segment (file, last, block) VALUES ($1, $2, $3)", number, .number(last),
            .bytes(sealed.block))
        record.sealedVersion = last
    }

    /// The client files of the commit are added already.
    private mutating func apply(
        _ change: GenerationChange, of id: SyncedFileID, _ record: FileRecord
    ) throws(HistoryError) {
        try flush()
        let file = file(id, record)
        try checking(id) { () throws(HistoryError) in
            try file.view.check(change) { version throws(HistoryError) in
                try file.segmentCount(ofGeneration: version)
            }
        }
        let number = PostgresValue.number(id.number)
        switch change {
        case .append(let version, let last, let block):
            try add(CopiedSegment(kind: .generation(version), last: last, block: block), of: id.number)
        case .publish(let generation): try add(generation, to: record)
        case .remove(let version):
            _ = try execute(
                "DELETE FROM generation WHERE file = $1 AND version = $2", number, .number(version))
            _ = try execute(
                """
                DELETE FROM generation_segment WHERE file = $1 AND generation = $2 AND last IN
                (SELECT last FROM generation_segment WHERE file = $1 AND generation = $2 LIMIT $3)
                """, number, .number(version), .number(Int64(GenerationChange.removedSegmentsMax)))
        }
    }
}
#endif

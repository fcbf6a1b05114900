import AnabranchCore
import AnabranchHistory
import GRDB

/// The check of one synced file. It continues after damage, so that a single bad record is reported once and everything
/// else is still checked.
final class FileVerification {
    let file: SQLiteFile
    private let rows: SQLiteRows
    let record: FileRecord
    var head: FileHead { record.head }
    var start: Checksum { record.start }
    var result: VerifiedFile
    private(set) var clientFiles: [ClientFileID: ClientFile] = [:]
    /// True if `clientFiles` is complete: otherwise references to missing ones cannot be called damage.
    private var hasClientFiles = false
    /// The newest entry in the log so far, by origin.
    private var received: [ClientFileID: Receipt] = [:]
    private var conflictKeyCount = 0
    /// The end of the checked part of the log: the last entry, its checksum, and whether nothing was wrong so far.
    var previous: LogEntry
    var link: Checksum?
    var isGood = true

    /// - Parameter rows: the rows of the file's state.
    init(_ file: SQLiteFile, _ rows: SQLiteRows) throws {
        self.file = file
        self.rows = rows
        record = try file.record()
        result = VerifiedFile(path: record.path)
        let head = record.head
        previous = LogEntry(
            version: head.baseVersion, salt: head.baseSalt, origin: 0, clientVersion: 0, timestamp: 0,
            cumulativeSize: head.baseCumulativeSize, changeset: [])
        link = record.baseChain
    }

    func run() throws -> VerifiedFile {
        try goOn(after: "record of the file", checkRecord)
        try goOn(after: "client files", checkClientFiles)
        try goOn(after: "log", checkLog)
        try goOn(after: "archive", checkArchive)
        try goOn(after: "generations", checkGenerations)
        try goOn(after: "views", checkViews)
        try goOn(after: "ingested objects", checkIngested)
        try goOn(after: "reciprocal changesets", checkReciprocals)
        try goOn(after: "changesets as received", checkReceived)
        try goOn(after: "withheld schemas", checkWithheldSchemas)
        try goOn(after: "records of doors", checkRecords)
        try goOn(after: "state", checkState)
        return result
    }

    /// Runs one part of the check. A page of the database that cannot be read ends the part, and the next one follows.
    func goOn(after place: @autoclosure () -> String, _ part: () throws -> Void) throws {
        do {
            try part()
        } catch let error as DatabaseError where error.isDamage {
            expect(false, .database, place(), "cannot be read: \(error)")
        }
    }

    func expect(
        _ holds: Bool, _ kind: StoreDamage.Kind, _ place: @autoclosure () -> String,
        _ finding: @autoclosure () -> String
    ) {
        if !holds { result.damages.append(StoreDamage(kind: kind, place: place(), finding: finding())) }
    }

    /// Reads rows one after the other; a row that cannot be read is damage, and the next one follows.
    func forEach(
        _ sql: String, named place: String, _ body: (Row) throws -> Void
    ) throws {
        let cursor = try Row.fetchCursor(file.db, sql: sql, arguments: [file.id.number])
        var count = 0
        while let row = try cursor.next() {
            count += 1
            do {
                try body(row)
            } catch let error as HistoryError {
                expect(false, .value, "\(place) number \(count)", error.reason)
            }
        }
    }

    // MARK: The record

    private func checkRecord() throws {
        let sql = "SELECT checksum FROM synced_file WHERE id = ?"
        let stored = try file.rows(sql, [file.id.number]) { Checksum(bytes: try $0.bytes(0)) }
        expect(
            record.checksum != nil && stored.first == record.checksum, .checksum, "record of the file",
            "it is not what was written")
        let isAtBeginning = head.baseVersion == 0
        expect(
            !isAtBeginning || head.baseCumulativeSize == 0 && record.baseChain == start, .value, "log",
            "it begins with \(head.baseCumulativeSize) bytes or another checksum")
    }

    // MARK: Client files

    private func checkClientFiles() throws {
        let sql = "SELECT \(SQLiteFile.clientColumns) FROM client_file WHERE file = ? ORDER BY ident"
        var next: ClientFileID = 0
        try forEach(sql, named: "client file") { row in
            let clientFile = try SQLiteFile.clientFile(row)
            let place = "client file \(clientFile.ident)"
            expect(clientFile.ident == next, .continuity, place, "client file \(next) is missing")
            next = clientFile.ident + 1
            let checksum = Checksum(bytes: try row.bytes(7))
            expect(
                checksum == start.covering(clientFile), .checksum, place, "the row is not what was written")
            try check(clientFile, place)
            clientFiles[clientFile.ident] = clientFile
            if clientFile.ident > 1 { result.clientFileCount += 1 }
        }
        expect(next == head.nextIdent, .continuity, "client files", "there are \(next), not \(head.nextIdent)")
        hasClientFiles = clientFiles.count == Int(clamping: head.nextIdent.rawValue)
    }

    private func check(_ clientFile: ClientFile, _ place: String) throws {
        let cursor = clientFile.uploadCursor
        let isReserved = clientFile.ident < 2
        expect(
            isReserved ? clientFile.salt == 0 : clientFile.salt.isProof, .value, place,
            "the salt is \(clientFile.salt)")
        expect(cursor.isConsistent, .cursor, place, "client version 0 with base \(cursor.serverVersion)")
        expect(
            cursor.serverVersion <= head.version, .cursor, place, "base \(cursor.serverVersion) is beyond the log")
        expect(
            clientFile.lockedVersion <= head.version, .cursor, place,
            "locked version \(clientFile.lockedVersion) is beyond the log")
        // A client file without its generation is reported there.
        if let pin = try file.pin(of: clientFile), pin > 0 || !clientFile.isInGeneration {
            expect(
                pin >= head.baseVersion, .cursor, place,
                "it needs the log after version \(pin), but that begins after version \(head.baseVersion)")
        }
    }

    // MARK: Log

    private func checkLog() throws {
        expect((head.baseSalt == 0) == (head.baseVersion == 0), .value, "log", "the base salt is \(head.baseSalt)")
        result.goodVersion = head.baseVersion
        try goOn(after: "log segments", checkSegments)
        let sql = "SELECT \(SQLiteFile.entryColumns) FROM log_entry WHERE file = ? ORDER BY version"
        try goOn(after: "log after version \(previous.version)") {
            try forEach(sql, named: "log entry") { row in
                let entry = try SQLiteFile.entry(row)
                try checkNext(entry, Checksum(bytes: try row.bytes(7))) { try check(keys: $0, of: entry, $1) }
            }
        }
        expect(
            head.version == previous.version, .continuity, "log", "it ends at \(previous.version), not \(head.version)")
        expect(head.versionSalt == previous.salt, .value, "log", "the salt of the newest version is another one")
        expect(head.cumulativeSize == previous.cumulativeSize, .size, "log", "it has \(head.cumulativeSize) bytes")
        expect(link == record.chain, .checksum, "log", "the last checksum is another one")
        checkReceipts()
        let stored = try Int.fetchOne(
            file.db, sql: "SELECT COUNT(*) FROM conflict_key WHERE file = ?", arguments: [file.id.number])
        expect(
            stored == conflictKeyCount, .conflictKeys, "conflict keys",
            "there are \(stored ?? 0), not \(conflictKeyCount)")
    }

    /// - Parameters:
    ///   - stored: the checksum of the entry.
    ///   - checkKeys: called with the conflict keys that it writes.
    func checkNext(
        _ entry: LogEntry, _ stored: Checksum?, _ checkKeys: ([UInt64], String) throws -> Void
    ) throws {
        let place = "log entry \(entry.version)", damageCount = result.damages.count
        expect(entry.version == previous.version + 1, .continuity, place, "it follows version \(previous.version)")
        expect(
            stored != nil && stored == link?.following(entry), .checksum, place,
            "the entry, or the one before it, is not what was written")
        expect(
            entry.cumulativeSize == previous.cumulativeSize &+ UInt64(entry.changeset.count), .size, place,
            "the cumulative size is \(entry.cumulativeSize)")
        try check(entry, place, checkKeys)
        isGood = isGood && !result.damages[damageCount...].contains { $0.kind.isOfLog }
        if isGood { result.goodVersion = entry.version }
        link = stored
        previous = entry
        result.entryCount += 1
        result.logBytes += UInt64(entry.changeset.count)
    }

    private func check(
        _ entry: LogEntry, _ place: String, _ checkKeys: ([UInt64], String) throws -> Void
    ) throws {
        expect(entry.salt.isProof, .value, place, "the salt is \(entry.salt)")
        expect(
            (entry.origin == 0) == (entry.clientVersion == 0), .cursor, place,
            "client version \(entry.clientVersion) of origin \(entry.origin)")
        if entry.origin > 0 {
            let clientFile = clientFiles[entry.origin]
            expect(
                entry.origin > 1 && (clientFile != nil || !hasClientFiles), .cursor, place,
                "there is no client file \(entry.origin)")
            expect(
                entry.clientVersion > received[entry.origin]?.clientVersion ?? clientFile?.baseClientVersion ?? 0
                    && clientFile.map { entry.clientVersion <= $0.uploadCursor.clientVersion } ?? true, .cursor, place,
                "client version \(entry.clientVersion) is out of order")
            received[entry.origin] = Receipt(version: entry.version, clientVersion: entry.clientVersion)
        }
        var arena = ChangesetArena()
        do {
            let index = try arena.decode(entry.changeset, version: entry.version.rawValue, tag: entry.tag)
            expect(
                arena.isEmpty(index) == entry.changeset.isEmpty, .changeset, place, "it has bytes but no instruction")
            try checkKeys(arena.conflictKeys(of: index).writes, place)
        } catch let error as ChangesetError {
            expect(false, .changeset, place, error.description)
        }
    }

    private func check(keys: [UInt64], of entry: LogEntry, _ place: String) throws {
        conflictKeyCount += keys.count
        for key in keys {
            let origins = try file.rows(
                "SELECT origin FROM conflict_key WHERE file = ? AND key = ? AND version = ?",
                [file.id.number, Int64(bitPattern: key), Int64(clamping: entry.version.rawValue)]
            ) { ClientFileID(rawValue: try $0.number(0)) }
            expect(origins == [entry.origin], .conflictKeys, place, "it is not found under conflict key \(key)")
        }
    }

    /// Checks that the rows of client files agree with the log.
    private func checkReceipts() {
        for (ident, clientFile) in clientFiles {
            let newest = received[ident]?.clientVersion ?? clientFile.baseClientVersion
            expect(
                newest <= clientFile.uploadCursor.clientVersion
                    && (clientFile.baseClientVersion == 0 || head.baseVersion > 0), .cursor, "client file \(ident)",
                "client version \(clientFile.baseClientVersion) of it is said to be trimmed")
            expect(
                clientFile.newestReceipt == received[ident], .cursor, "client file \(ident)",
                "its newest log entry is another one")
        }
    }

    private func checkReceived() throws {
        let sql = "SELECT version, time, changeset, checksum FROM received WHERE file = ? ORDER BY version"
        try forEach(sql, named: "changeset as received") { row in
            let changeset = ReceivedChangeset(
                version: try row.number(0), time: try row.number(1), changeset: try row.content(2))
            let place = "log entry \(changeset.version) as received"
            expect(
                Checksum(bytes: try row.bytes(3)) == start.covering(changeset), .checksum, place,
                "it is not what was written")
            expect(
                changeset.version > head.baseVersion && changeset.version <= head.version, .continuity, place,
                "the log has no such entry")
        }
    }

    // MARK: Reciprocal history

    private func checkReciprocals() throws {
        let sql = """
            SELECT r.ident, r.version, r.changeset, r.checksum, e.origin, length(e.changeset)
            FROM reciprocal r LEFT JOIN log_entry e ON e.file = r.file AND e.version = r.version
            WHERE r.file = ? ORDER BY r.ident, r.version
            """
        try forEach(sql, named: "reciprocal changeset") { row in
            let ident: ClientFileID = try row.number(0), version: ServerVersion = try row.number(1)
            let place = "reciprocal changeset of client file \(ident), version \(version)"
            let change = ReciprocalChange(
                ident: ident, reciprocal: ReciprocalChangeset(version: version, changeset: try row.content(2)))
            result.reciprocalCount += 1
            expect(
                Checksum(bytes: try row.bytes(3)) == start.covering(change), .checksum, place,
                "it is not what was written")
            if let clientFile = clientFiles[ident], !clientFile.isExpired {
                expect(
                    version > clientFile.uploadCursor.serverVersion && version <= head.version, .reciprocal, place,
                    "it is not above base \(clientFile.uploadCursor.serverVersion) in the log")
            } else if hasClientFiles {
                return expect(false, .reciprocal, place, "the client file is missing or has expired")
            }
            // It is in the form of an entry of the generation.
            if case .generation(let end)? = clientFiles[ident]?.lineage, version <= end { return }
            let origin: ClientFileID, size: UInt64
            if !row.hasNull(atIndex: 4) {
                (origin, size) = (try row.number(4), try row.number(5))
            } else if let entry = sealedEntry(version) {
                (origin, size) = (entry.origin, UInt64(entry.changesetBytes))
            } else {
                return
            }
            expect(origin != ident, .reciprocal, place, "the log entry came from that client")
            expect(size > 0, .reciprocal, place, "the log entry is empty")
        }
    }

    // MARK: State

    private func checkState() throws {
        let writes = try file.rows("SELECT version FROM idempotency_key WHERE file = ?", [file.id.number]) {
            ServerVersion(rawValue: try $0.number(0))
        }
        expect(
            writes.allSatisfy { $0 <= head.version }, .continuity, "keys of writes", "one has a version beyond the log")
        let version = head.stateVersion
        guard version >= head.baseVersion, version <= head.version else {
            return expect(false, .state, "state", "it is of version \(version), which is not in the log")
        }
        do {
            let stored = try rows.graph(), digest = try StateDigest(of: stored)
            // The beginning of a log that was trimmed is not known.
            if head.baseVersion == 0 {
                let (replayed, skippedCount) = try file.replay(VersionRange(after: 0, through: version))
                result.skippedCount = skippedCount
                expect(try digest == StateDigest(of: replayed), .state, "state", "it is not what the log makes of it")
            }
            expect(try !stored.hasDamagedLinks(), .state, "state", "the rows of links are not those of its objects")
        } catch let error as ApplyError {
            expect(false, .state, "state", error.description)
        } catch let error as HistoryError {
            expect(false, .state, "state", error.reason)
        }
    }
}

extension ClientFile {
    fileprivate var isInGeneration: Bool { if case .generation = lineage { true } else { false } }
}

extension StoreDamage.Kind {
    /// True if a log entry with such damage is not what was written. Damaged cursors belong to a client file.
    fileprivate var isOfLog: Bool {
        switch self {
        case .database, .checksum, .continuity, .size, .value, .changeset: true
        case .cursor, .reciprocal, .conflictKeys, .generation, .archive, .view, .state: false
        }
    }
}

import AnabranchCore
import AnabranchReplica
import AnabranchRows
import Foundation
import GRDB

/// The tables of a replica's file (`Spec/Replica.md`, section 2.2). Numbers are stored as 64 bits: those above 2^63−1,
/// which the times of clients can exceed, as negative ones.
enum ReplicaSchema {
    /// "Anar": marks our files among all of SQLite.
    static let applicationID = 0x416e_6172
    /// Raised with each change of the tables, so that an older program refuses a newer file.
    static let version = 3
    /// The settings that a file keeps for life: the size of its pages, and that free ones can be given back.
    static let layout = "PRAGMA page_size = \(pageBytes); PRAGMA auto_vacuum = INCREMENTAL"
    private static let pageBytes: UInt64 = 4096

    private static let tables = """
        CREATE TABLE replica (
            number INTEGER PRIMARY KEY CHECK (number = 1),
            ident INTEGER, salt INTEGER,
            version INTEGER NOT NULL,
            download_server INTEGER NOT NULL, download_client INTEGER NOT NULL,
            latest INTEGER NOT NULL, latest_salt INTEGER NOT NULL,
            upload_client INTEGER NOT NULL, upload_server INTEGER NOT NULL,
            downloadable INTEGER NOT NULL,
            last_written INTEGER NOT NULL,
            is_recovering INTEGER NOT NULL,
            has_synced INTEGER NOT NULL,
            log_count INTEGER NOT NULL, part_count INTEGER NOT NULL,
            subscriptions BLOB,
            checksum BLOB NOT NULL
        );
        CREATE TABLE log (
            version INTEGER PRIMARY KEY,
            base INTEGER NOT NULL,
            timestamp INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            checksum BLOB NOT NULL,
            changeset BLOB NOT NULL,
            reciprocal BLOB
        );
        CREATE TABLE bootstrap_part (
            number INTEGER PRIMARY KEY,
            server INTEGER NOT NULL, client INTEGER NOT NULL,
            timestamp INTEGER NOT NULL, ident INTEGER NOT NULL,
            original_bytes INTEGER NOT NULL,
            checksum BLOB NOT NULL,
            changeset BLOB NOT NULL
        );

        """

    /// Tables that were added later: programs of the same format that do not know them work without them.
    private static let laterTables = """
        CREATE TABLE IF NOT EXISTS changed_element (version INTEGER PRIMARY KEY, digests BLOB NOT NULL);
        CREATE TABLE IF NOT EXISTS origin (number INTEGER PRIMARY KEY CHECK (number = 1), name BLOB NOT NULL);
        CREATE TABLE IF NOT EXISTS last_sync (number INTEGER PRIMARY KEY CHECK (number = 1), seconds BLOB NOT NULL);
        """

    /// Checks the beginning of a file, which SQLite would change when it opens it for writing. The contents of a
    /// write-ahead log next to it may be newer.
    /// - Throws: `ReplicaError` with the code `unknownFormat` or `damaged`.
    static func checkHeader(_ path: String) throws {
        guard let file = FileHandle(forReadingAtPath: path) else { return }
        defer { try? file.close() }
        let header = Array(try file.read(upToCount: 100) ?? Data()), size = try file.seekToEnd()
        // A file that was just created.
        if header.isEmpty { return }
        guard header.count == 100, header.starts(with: "SQLite format 3\0".utf8) else {
            throw ReplicaError(.unknownFormat, "this is not a replica, nor another database of SQLite")
        }
        func number(at offset: Int) -> Int { header[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
        let hasLog = access(path + "-wal", F_OK) == 0, hasTables = number(at: 40) != 0
        try check(owner: number(at: 68), version: number(at: 60), isNew: hasLog || !hasTables)
        guard hasLog || size >= UInt64(number(at: 28)) * pageBytes else {
            throw ReplicaError(.damaged, "the end of the file is missing")
        }
    }

    private static func check(owner: Int, version found: Int, isNew: Bool) throws(ReplicaError) {
        if owner == 0, isNew { return }
        guard owner == applicationID else {
            throw ReplicaError(.unknownFormat, "this is not a replica, but belongs to another program")
        }
        guard found == version else {
            let advice = found > version ? ": use a newer one" : ""
            throw ReplicaError(.unknownFormat, "it has format \(found), and this program reads \(version)\(advice)")
        }
    }

    /// Creates the tables in an empty file, or checks that they exist.
    /// - Parameter isReadOnly: true for a reader that uses none of the tables added later, and cannot create them.
    /// - Throws: `ReplicaError` with the code `unknownFormat`.
    static func prepare(_ db: Database, isReadOnly: Bool = false) throws {
        let owner = try Int.fetchOne(db, sql: "PRAGMA application_id") ?? 0
        let isNew = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_master") == 0
        try check(owner: owner, version: try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0, isNew: isNew)
        if owner == 0 {
            try db.execute(sql: layout)
            try db.inTransaction(.immediate) {
                try db.execute(sql: tables + PropertyIndex.tables + StateTable.sqlWithPages)
                try store(ReplicaRecord(), logCount: 0, in: db)
                try db.execute(sql: "PRAGMA application_id = \(applicationID)")
                try db.execute(sql: "PRAGMA user_version = \(version)")
                return .commit
            }
        }
        if !isReadOnly { try db.execute(sql: laterTables) }
    }
}

// MARK: Rows

extension ReplicaSchema {
    /// The row of the numbers.
    private static func row(in db: Database) throws -> (record: ReplicaRecord, logCount: Int64, partCount: Int64) {
        let sql = """
            SELECT ident, salt, version, download_server, download_client, latest, latest_salt, upload_client,
            upload_server, downloadable, last_written, is_recovering, has_synced, log_count, part_count, subscriptions,
            checksum FROM replica WHERE number = 1
            """
        guard let row = try Row.fetchOne(db, sql: sql) else {
            throw ReplicaError(.damaged, "the row of its numbers is missing")
        }
        let ident = try row.decode(Int64?.self, atIndex: 0), salt = try row.decode(Int64?.self, atIndex: 1)
        let numbers = try (2...14).map { try row.decode(Int64.self, atIndex: $0) }
        let subscriptions = try row.decode(Data?.self, atIndex: 15).map { Array($0) }
        let sum = ReplicaChecksum.replica.sum(1, of: [ident, salt] + numbers, subscriptions ?? [])
        try ReplicaChecksum.replica.check(try row.bytes(16) == sum, 1)
        var record = ReplicaRecord()
        record.file = ident.map { SaltedFileID(ident: ClientFileID(stored: $0), salt: Salt(stored: salt ?? 0)) }
        record.version = ClientVersion(stored: numbers[0])
        record.progress.cursor = DownloadCursor(
            serverVersion: ServerVersion(stored: numbers[1]), clientVersion: ClientVersion(stored: numbers[2]))
        record.progress.latest = SaltedVersion(
            version: ServerVersion(stored: numbers[3]), salt: Salt(stored: numbers[4]))
        record.progress.upload = UploadCursor(
            clientVersion: ClientVersion(stored: numbers[5]), serverVersion: ServerVersion(stored: numbers[6]))
        record.progress.downloadableBytes = UInt64(bitPattern: numbers[7])
        record.lastWritten = ChangesetTime(stored: numbers[8])
        record.isRecovering = numbers[9] != 0
        record.hasSynced = numbers[10] != 0
        record.subscriptions = try subscriptions.map {
            try JSONDecoder().decode(SubscriptionSets.self, from: Data($0))
        }
        return (record, numbers[11], numbers[12])
    }

    /// - Parameter logCount: the number of entries in the log.
    static func store(_ record: ReplicaRecord, logCount: Int, in db: Database) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let subscriptions = try record.subscriptions.map { try encoder.encode($0) }
        let parts = try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(number) FROM bootstrap_part")) ?? 0
        let progress = record.progress
        let numbers: [Int64?] = [
            record.file?.ident.stored, record.file?.salt.stored, record.version.stored,
            progress.cursor.serverVersion.stored, progress.cursor.clientVersion.stored,
            progress.latest.version.stored, progress.latest.salt.stored, progress.upload.clientVersion.stored,
            progress.upload.serverVersion.stored, Int64(bitPattern: progress.downloadableBytes),
            record.lastWritten.stored, record.isRecovering ? 1 : 0, record.hasSynced ? 1 : 0, Int64(logCount),
            parts,
        ]
        let sum = ReplicaChecksum.replica.sum(1, of: numbers, subscriptions.map { Array($0) } ?? [])
        let sql = "INSERT OR REPLACE INTO replica VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        try db.cachedStatement(sql: sql).execute(
            arguments: StatementArguments(numbers) + [subscriptions, Data(sum)])
    }

    // MARK: The log

    /// The numbers, and the entries of the log without their changesets.
    static func recordAndLog(in db: Database) throws -> (ReplicaRecord, [LocalVersion]) {
        let sql = "SELECT version, base, timestamp, bytes, checksum FROM log ORDER BY version"
        let log = try Row.fetchAll(db, sql: sql).map { row in
            let numbers = try (0...3).map { try row.decode(Int64.self, atIndex: $0) }
            let version = UInt64(bitPattern: numbers[0])
            try ReplicaChecksum.entry.check(
                try row.bytes(4) == ReplicaChecksum.entry.sum(version, of: numbers), version)
            return LocalVersion(
                number: ClientVersion(stored: numbers[0]), base: ServerVersion(stored: numbers[1]),
                timestamp: ChangesetTime(stored: numbers[2]), bytes: Int(numbers[3]))
        }
        let (record, count, _) = try row(in: db)
        guard log.count == count else {
            throw ReplicaError(.damaged, "its log has \(log.count) entries, and \(count) were written")
        }
        return (record, log)
    }

    static func store(_ version: LocalVersion, _ changeset: [UInt8], in db: Database) throws {
        let number = version.number.rawValue
        let numbers = [version.number.stored, version.base.stored, version.timestamp.stored, Int64(version.bytes)]
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO log VALUES (?, ?, ?, ?, ?, ?, NULL)").execute(
            arguments: StatementArguments(numbers)
                + [
                    Data(ReplicaChecksum.entry.sum(number, of: numbers)),
                    ReplicaChecksum.changeset.appended(to: changeset, number),
                ])
    }

    /// A changeset of the log as it was made.
    static func changeset(of version: ClientVersion, in db: Database) throws -> [UInt8] {
        let sql = "SELECT changeset FROM log WHERE version = ?"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [version.stored]) else {
            throw ReplicaError(.damaged, "version \(version) of its log is missing")
        }
        return try ReplicaChecksum.changeset.content(of: try row.bytes(0), version.rawValue)
    }

    /// The form that merges have given to a changeset of the log; nil if none has changed it.
    static func reciprocal(of version: ClientVersion, in db: Database) throws -> [UInt8]? {
        let sql = "SELECT reciprocal FROM log WHERE version = ? AND reciprocal IS NOT NULL"
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [version.stored]).map { row in
            try ReplicaChecksum.reciprocal.content(of: try row.bytes(0), version.rawValue)
        }
    }

    static func store(reciprocal: [UInt8], of version: ClientVersion, in db: Database) throws {
        try db.cachedStatement(sql: "UPDATE log SET reciprocal = ? WHERE version = ?")
            .execute(arguments: [ReplicaChecksum.reciprocal.appended(to: reciprocal, version.rawValue), version.stored])
    }

    /// The digests of the elements of lists that a changeset of the log has changed; none if they were not stored.
    static func changedElements(of version: ClientVersion, in db: Database) throws -> [UInt64] {
        let sql = "SELECT digests FROM changed_element WHERE version = ?"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [version.stored]) else { return [] }
        let bytes = try ReplicaChecksum.changed.content(of: try row.bytes(0), version.rawValue)
        return stride(from: 0, to: bytes.count & ~7, by: 8).map { start in
            bytes[start..<start + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    static func store(changed digests: [UInt64], of version: ClientVersion, in db: Database) throws {
        let bytes = digests.flatMap { digest in withUnsafeBytes(of: digest.littleEndian) { Array($0) } }
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO changed_element VALUES (?, ?)")
            .execute(arguments: [version.stored, ReplicaChecksum.changed.appended(to: bytes, version.rawValue)])
    }

    // MARK: The origin

    /// The origin with which the replica is synchronized; nil if it is not known yet.
    static func origin(in db: Database) throws -> String? {
        guard let row = try Row.fetchOne(db, sql: "SELECT name FROM origin WHERE number = 1") else { return nil }
        return String(decoding: try ReplicaChecksum.origin.content(of: try row.bytes(0), 1), as: UTF8.self)
    }

    static func store(origin: String, in db: Database) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO origin VALUES (1, ?)",
            arguments: [ReplicaChecksum.origin.appended(to: Array(origin.utf8), 1)])
    }

    // MARK: The last synchronization

    /// The time when the replica and the server last had the same; nil if they never had.
    static func lastSync(in db: Database) throws -> Date? {
        guard let row = try Row.fetchOne(db, sql: "SELECT seconds FROM last_sync WHERE number = 1") else { return nil }
        let bytes = try ReplicaChecksum.lastSync.content(of: try row.bytes(0), 1)
        return Date(timeIntervalSince1970: Double(bytes.reversed().reduce(Int64(0)) { $0 << 8 | Int64($1) }))
    }

    static func store(lastSync: Date, in db: Database) throws {
        let seconds = Int64(lastSync.timeIntervalSince1970)
        try db.execute(
            sql: "INSERT OR REPLACE INTO last_sync VALUES (1, ?)",
            arguments: [
                ReplicaChecksum.lastSync.appended(to: withUnsafeBytes(of: seconds.littleEndian) { Array($0) }, 1)
            ])
    }

    // MARK: Bootstraps

    /// The parts of a bootstrap received so far.
    static func bootstrapParts(in db: Database) throws -> [DownloadedChangeset] {
        let sql = """
            SELECT number, server, client, timestamp, ident, original_bytes, checksum, changeset
            FROM bootstrap_part ORDER BY number
            """
        let parts = try Row.fetchAll(db, sql: sql).map { row in
            let numbers = try (0...5).map { try row.decode(Int64.self, atIndex: $0) }, changeset = try row.bytes(7)
            let number = UInt64(bitPattern: numbers[0])
            try ReplicaChecksum.part.check(
                try row.bytes(6) == ReplicaChecksum.part.sum(number, of: numbers, changeset), number)
            return DownloadedChangeset(
                cursor: DownloadCursor(
                    serverVersion: ServerVersion(stored: numbers[1]), clientVersion: ClientVersion(stored: numbers[2])),
                tag: OriginTag(
                    timestamp: ChangesetTime(stored: numbers[3]), ident: ClientFileID(stored: numbers[4])),
                changeset: changeset, originalBytes: Int(numbers[5]))
        }
        let count = try row(in: db).partCount
        guard parts.count == count else {
            throw ReplicaError(.damaged, "there are \(parts.count) parts of a bootstrap, and \(count) were written")
        }
        return parts
    }

    static func append(_ part: DownloadedChangeset, in db: Database) throws {
        let last = try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(number) FROM bootstrap_part")) ?? 0
        let numbers = [
            last + 1, part.cursor.serverVersion.stored, part.cursor.clientVersion.stored, part.tag.timestamp.stored,
            part.tag.ident.stored, Int64(part.originalBytes),
        ]
        let sum = ReplicaChecksum.part.sum(UInt64(bitPattern: last + 1), of: numbers, part.changeset)
        try db.cachedStatement(sql: "INSERT INTO bootstrap_part VALUES (?, ?, ?, ?, ?, ?, ?, ?)").execute(
            arguments: StatementArguments(numbers) + [Data(sum), Data(part.changeset)])
    }
}

extension Row {
    /// - Throws: if the column has another type.
    func bytes(_ index: Int) throws -> [UInt8] {
        guard let bytes = try withUnsafeData(atIndex: index, { $0.map(Array.init) }) else {
            throw ReplicaError(.damaged, "column \(Array(columnNames)[index]) has no bytes")
        }
        return bytes
    }
}

extension TypedNumber {
    init(stored: Int64) { self.init(rawValue: UInt64(bitPattern: stored)) }

    var stored: Int64 { Int64(bitPattern: rawValue) }
}

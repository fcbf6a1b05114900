import AnabranchCore
import AnabranchReplica
import AnabranchRows
import Foundation
import GRDB

/// The tables of a replica's file (`Spec/Replica.md`, section 2.2). Numbers are stored as 64 bits: those above 2^63−1,
/// which the times of clients can be, as negative ones.
enum ReplicaSchema {
    /// "Anar": marks our files among all of SQLite.
    static let applicationID = 0x416e_6172
    /// Raised with each change of the tables, so that an older program refuses a newer file.
    static let version = 2
    /// What is chosen for the life of a file: the size of its pages, and that it can give free ones back.
    static let layout = "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL"

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
            subscriptions TEXT
        );
        CREATE TABLE log (
            version INTEGER PRIMARY KEY,
            base INTEGER NOT NULL,
            timestamp INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            changeset BLOB NOT NULL,
            reciprocal BLOB
        );
        CREATE TABLE bootstrap_part (
            number INTEGER PRIMARY KEY,
            server INTEGER NOT NULL, client INTEGER NOT NULL,
            timestamp INTEGER NOT NULL, ident INTEGER NOT NULL,
            original_bytes INTEGER NOT NULL,
            changeset BLOB NOT NULL
        );

        """

    /// Makes the tables in an empty file, or checks that they are there.
    /// - Throws: `ReplicaError` with the code `unknownFormat`.
    static func prepare(_ db: Database, path: String) throws {
        let owner = try Int.fetchOne(db, sql: "PRAGMA application_id")
        let isEmpty = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_master") == 0
        if owner == 0, isEmpty {
            try db.execute(sql: layout)
            try db.inTransaction(.immediate) {
                try db.execute(sql: tables + PropertyIndex.tables + StateTable.sql)
                try db.execute(sql: "PRAGMA application_id = \(applicationID)")
                try db.execute(sql: "PRAGMA user_version = \(version)")
                return .commit
            }
            return
        }
        guard owner == applicationID else {
            throw ReplicaError(.unknownFormat, "\(path) is not a replica: it belongs to another program")
        }
        let found = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        guard found == version else {
            throw ReplicaError(
                .unknownFormat,
                "\(path) has format \(found), this program reads format \(version): "
                    + "use \(found > version ? "a newer" : "an older") one")
        }
    }
}

// MARK: Rows

extension ReplicaSchema {
    static func record(in db: Database) throws -> ReplicaRecord {
        let sql = """
            SELECT ident, salt, version, download_server, download_client, latest, latest_salt, upload_client,
            upload_server, downloadable, last_written, is_recovering, has_synced, subscriptions FROM replica
            """
        guard let row = try Row.fetchOne(db, sql: sql) else { return ReplicaRecord() }
        var record = ReplicaRecord()
        if let ident = row[0] as Int64? {
            record.file = SaltedFileID(ident: ClientFileID(stored: ident), salt: try row.number(1))
        }
        record.version = try row.number(2)
        record.progress.cursor = DownloadCursor(serverVersion: try row.number(3), clientVersion: try row.number(4))
        record.progress.latest = SaltedVersion(version: try row.number(5), salt: try row.number(6))
        record.progress.upload = UploadCursor(clientVersion: try row.number(7), serverVersion: try row.number(8))
        record.progress.downloadableBytes = UInt64(bitPattern: try row.decode(Int64.self, atIndex: 9))
        record.lastWritten = try row.number(10)
        record.isRecovering = try row.decode(Bool.self, atIndex: 11)
        record.hasSynced = try row.decode(Bool.self, atIndex: 12)
        if let text = row[13] as String? {
            record.subscriptions = try JSONDecoder().decode(SubscriptionSets.self, from: Data(text.utf8))
        }
        return record
    }

    static func store(_ record: ReplicaRecord, in db: Database) throws {
        let subscriptions = try record.subscriptions.map { sets -> String in
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            return String(decoding: try encoder.encode(sets), as: UTF8.self)
        }
        let progress = record.progress
        let numbers: [UInt64] = [
            record.version.rawValue, progress.cursor.serverVersion.rawValue, progress.cursor.clientVersion.rawValue,
            progress.latest.version.rawValue, progress.latest.salt.rawValue, progress.upload.clientVersion.rawValue,
            progress.upload.serverVersion.rawValue, progress.downloadableBytes, record.lastWritten.rawValue,
        ]
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO replica VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        .execute(
            arguments: [record.file?.ident.stored, record.file?.salt.stored]
                + StatementArguments(numbers.map { Int64(bitPattern: $0) })
                + [record.isRecovering, record.hasSynced, subscriptions])
    }

    static func log(in db: Database) throws -> [LocalVersion] {
        let sql = "SELECT version, base, timestamp, bytes FROM log ORDER BY version"
        return try Row.fetchAll(db, sql: sql).map { row in
            LocalVersion(
                number: try row.number(0), base: try row.number(1), timestamp: try row.number(2),
                bytes: try row.decode(Int.self, atIndex: 3))
        }
    }
}

extension Row {
    /// - Throws: if the column has another type.
    func number<Number: TypedNumber>(_ index: Int) throws -> Number {
        Number(stored: try decode(Int64.self, atIndex: index))
    }

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

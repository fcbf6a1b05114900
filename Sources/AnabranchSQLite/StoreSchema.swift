import AnabranchHistory
import AnabranchRows
import GRDB

/// The tables of the store and their versions. Numbers are stored as 64 bits: those above 2^63−1, which conflict keys
/// and the times of clients can be, as negative ones. The names of the tables are older than those in the code: `touch`
/// has the conflict keys, `write_key` the idempotency keys.
enum StoreSchema {
    /// "Anab" and the version of the tables.
    private static let format = DatabaseFormat(applicationID: 0x416e_6162, version: 3)

    /// Refuses a database that is somebody else's or made by a newer program.
    /// - Returns: whether it is new.
    static func check(_ db: Database) throws -> Bool { try check(db, isWriter: true) }

    /// Refuses also a database of an older format, for programs that only read.
    static func checkIsCurrent(_ db: Database) throws { _ = try check(db, isWriter: false) }

    private static func check(_ db: Database, isWriter: Bool) throws -> Bool {
        let version = format.version
        switch try format.examine(db) {
        case .current: return false
        case .older where isWriter: return false
        case .new where isWriter: return true
        case .new:
            throw HistoryError(
                .storeUnusable,
                "the store has no tables: no server has used it yet, or it has lost them; then restore a backup")
        case .older(let found):
            throw HistoryError(
                .storeUnusable, "the store has format \(found); a server that opens it brings it to \(version)")
        case .newer(let found):
            throw HistoryError(
                .storeUnusable, "the store has format \(found); this program reads up to \(version)")
        case .foreign:
            throw HistoryError(
                .storeUnusable,
                "\(DataDirectory.databaseName) is not a store of Anabranch: restore a backup, or use another directory")
        }
    }

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1: log, client files, reciprocal history, touch index") { db in
            try db.execute(sql: firstFormat)
            try format.mark(db, version: 1)
        }
        // The states of files that have a log are made when each is opened first.
        migrator.registerMigration("2: states, keys of the server's own writes") { db in
            try db.execute(sql: secondFormat)
            try format.mark(db, version: 2)
        }
        // They are made anew from the log when each file is opened first.
        migrator.registerMigration("3: states in parts") { db in
            try db.execute(sql: "DROP TABLE state_row; \(StateTable.sql)")
            try db.execute(sql: "UPDATE synced_file SET state_version = base_version")
            try format.mark(db, version: 3)
        }
        return migrator
    }

    private static let firstFormat = """
        CREATE TABLE synced_file (
            id INTEGER PRIMARY KEY,
            path BLOB NOT NULL UNIQUE,
            version INTEGER NOT NULL,
            version_salt INTEGER NOT NULL,
            cumulative_size INTEGER NOT NULL,
            base_version INTEGER NOT NULL,
            base_salt INTEGER NOT NULL,
            next_ident INTEGER NOT NULL,
            chain BLOB NOT NULL
        );
        CREATE TABLE client_file (
            file INTEGER NOT NULL,
            ident INTEGER NOT NULL,
            salt INTEGER NOT NULL,
            client_version INTEGER NOT NULL,
            reciprocal_base INTEGER NOT NULL,
            locked_version INTEGER NOT NULL,
            last_seen INTEGER NOT NULL,
            user TEXT,
            checksum BLOB NOT NULL,
            PRIMARY KEY (file, ident)
        ) WITHOUT ROWID;
        CREATE TABLE log_entry (
            file INTEGER NOT NULL,
            version INTEGER NOT NULL,
            salt INTEGER NOT NULL,
            origin INTEGER NOT NULL,
            client_version INTEGER NOT NULL,
            timestamp INTEGER NOT NULL,
            cumulative_size INTEGER NOT NULL,
            checksum BLOB NOT NULL,
            changeset BLOB NOT NULL,
            PRIMARY KEY (file, version)
        );
        CREATE INDEX receipt ON log_entry (file, origin, version, client_version);
        CREATE TABLE reciprocal (
            file INTEGER NOT NULL,
            ident INTEGER NOT NULL,
            version INTEGER NOT NULL,
            checksum BLOB NOT NULL,
            changeset BLOB NOT NULL,
            PRIMARY KEY (file, ident, version)
        ) WITHOUT ROWID;
        CREATE TABLE touch (
            file INTEGER NOT NULL,
            hash INTEGER NOT NULL,
            version INTEGER NOT NULL,
            origin INTEGER NOT NULL,
            PRIMARY KEY (file, hash, version)
        ) WITHOUT ROWID;
        """

    private static let secondFormat = """
        ALTER TABLE synced_file ADD COLUMN state_version INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE state_row (
            file INTEGER NOT NULL,
            class INTEGER NOT NULL,
            key BLOB NOT NULL,
            chunk INTEGER NOT NULL,
            content BLOB NOT NULL,
            PRIMARY KEY (file, class, key, chunk)
        ) WITHOUT ROWID;
        CREATE TABLE write_key (
            number INTEGER PRIMARY KEY,
            file INTEGER NOT NULL,
            key BLOB NOT NULL,
            version INTEGER NOT NULL,
            UNIQUE (file, key)
        );
        CREATE INDEX write_key_by_age ON write_key (file, number);
        """
}

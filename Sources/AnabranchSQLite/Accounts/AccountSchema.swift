import AnabranchHistory
import GRDB

/// The tables of the accounts and their versions.
enum AccountSchema {
    /// "Anac" and the version of the tables.
    private static let format = DatabaseFormat(applicationID: 0x416e_6163, version: 2)

    /// Refuses a database that is foreign, or made by a newer program.
    static func check(_ db: Database) throws {
        switch try format.examine(db) {
        case .current, .older, .new: break
        case .newer(let found):
            throw AccountError(
                .storeFailed, "the accounts have format \(found); this program reads up to \(format.version)")
        case .foreign:
            throw AccountError(.storeFailed, "the database does not hold accounts of Anabranch")
        }
    }

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1: users, identities, sessions, keys") { db in
            try db.execute(sql: firstFormat)
            try format.mark(db, version: 1)
        }
        migrator.registerMigration("2: addresses that nobody has confirmed yet") { db in
            try db.execute(sql: "ALTER TABLE identity ADD COLUMN is_pending BOOLEAN NOT NULL DEFAULT FALSE")
            try format.mark(db, version: 2)
        }
        return migrator
    }

    /// The index by which e-mail addresses are found whatever their case. Older programs neither need nor mind it, so
    /// it does not change the format.
    static let caselessIndex = """
        CREATE INDEX IF NOT EXISTS identity_by_caseless_name ON identity (app, provider, name COLLATE NOCASE)
        """

    private static let firstFormat = """
        CREATE TABLE user (
            ident TEXT NOT NULL PRIMARY KEY,
            app TEXT NOT NULL,
            custom_data TEXT NOT NULL,
            is_disabled BOOLEAN NOT NULL,
            has_visited BOOLEAN NOT NULL DEFAULT FALSE,
            created_at INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE identity (
            place INTEGER PRIMARY KEY,
            ident TEXT NOT NULL,
            user TEXT NOT NULL REFERENCES user ON DELETE CASCADE,
            app TEXT NOT NULL,
            provider TEXT NOT NULL,
            name TEXT NOT NULL,
            secret TEXT,
            UNIQUE (app, provider, name)
        );
        CREATE INDEX identity_of_user ON identity (user);
        CREATE TABLE session (
            ident TEXT NOT NULL PRIMARY KEY,
            user TEXT NOT NULL REFERENCES user ON DELETE CASCADE,
            provider TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE INDEX session_of_user ON session (user);
        CREATE INDEX session_by_end ON session (expires_at);
        CREATE TABLE api_key (
            ident TEXT NOT NULL PRIMARY KEY,
            user TEXT NOT NULL REFERENCES user ON DELETE CASCADE,
            name TEXT NOT NULL,
            digest BLOB NOT NULL UNIQUE,
            is_disabled BOOLEAN NOT NULL,
            UNIQUE (user, name)
        ) WITHOUT ROWID;
        """
}

import AnabranchHistory
import AnabranchRows
import GRDB

/// The tables of a shard, and the marks of its database. Numbers are stored as 64 bits: those above 2^63−1, which
/// conflict keys and the times of clients can be, as negative ones.
enum StoreSchema {
    /// "Anab" and the version of the tables.
    static let format = DatabaseFormat(applicationID: 0x416e_6162, version: 7)
    /// The choices for the life of a database: the size of its pages, and that it can give free ones back.
    static let layout = "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL"

    /// Makes everything in an empty database.
    /// - Parameter number: the number of the shard.
    static func make(_ number: Int, of manifest: StoreManifest, in db: Database) throws {
        try db.execute(sql: tables)
        try db.execute(sql: StateTable.sql)
        let values = [
            "store": manifest.store.databaseValue, "shard": number.databaseValue,
            "shards": manifest.shards.databaseValue,
        ]
        for (name, value) in values {
            try db.execute(sql: "INSERT INTO store_meta (name, value) VALUES (?, ?)", arguments: [name, value])
        }
        try format.mark(db, version: format.version)
    }

    /// Refuses any database but this shard.
    static func check(_ number: Int, of manifest: StoreManifest, in db: Database) throws {
        let name = DataDirectory.shardName(number)
        switch try format.examine(db) {
        case .current: break
        case .new:
            throw HistoryError(.storeUnusable, "\(name) has no tables: it has lost them; restore a backup")
        case .older(let found), .newer(let found):
            throw HistoryError(
                .storeUnusable, "\(name) has format \(found); this program reads format \(format.version)")
        case .foreign:
            throw HistoryError(
                .storeUnusable, "\(name) is not a store of Anabranch: restore a backup, or use another directory")
        }
        let store: String? = try meta("store", in: db), shard: Int? = try meta("shard", in: db)
        guard store == manifest.store, shard == number, try meta("shards", in: db) == manifest.shards else {
            throw HistoryError(
                .storeUnusable, "\(name) belongs to another store, or is another shard: restore all of a backup")
        }
    }

    // MARK: Epochs

    /// The number of times that the store was opened or maintained, times two. Nil for an impossible count: it is
    /// damaged, which is no reason to stop.
    static func epoch(in db: Database) throws -> Int64? {
        guard let stored: DatabaseValue = try meta("epoch", in: db) else { return 0 }
        return Int64.fromDatabaseValue(stored).flatMap { (0..<OpenFiles.epochCount).contains($0) ? $0 : nil }
    }

    /// - Parameter epochs: the epochs of the shards.
    /// - Throws: `storeUnusable` if one of them was not there when the store was last opened or maintained.
    static func checkEpochs(_ epochs: [Int64?]) throws(HistoryError) {
        let known = epochs.enumerated().compactMap { shard, epoch in epoch.map { (shard: shard, epoch: $0) } }
        guard let newest = known.max(by: { $0.epoch < $1.epoch }),
            let old = known.first(where: { $0.epoch < newest.epoch - 1 })
        else { return }
        throw HistoryError(
            .storeUnusable,
            """
            \(DataDirectory.shardName(old.shard)) is older than \(DataDirectory.shardName(newest.shard)): restore all \
            of a backup; or, to keep them as they are, run `anabranch restore`, which lets clients reset that know of \
            more
            """)
    }

    // MARK: Values for all files

    static func meta<Value: DatabaseValueConvertible>(_ name: String, in db: Database) throws -> Value? {
        try Value.fetchOne(db, sql: "SELECT value FROM store_meta WHERE name = ?", arguments: [name])
    }

    static func setMeta(_ name: String, to value: Int64, in db: Database) throws {
        try db.execute(sql: "INSERT OR REPLACE INTO store_meta (name, value) VALUES (?, ?)", arguments: [name, value])
    }

    /// Tables with changesets have row numbers: in a table without them, SQLite reads whole rows to compare their keys,
    /// and a changeset can have megabytes.
    private static let tables = """
        CREATE TABLE store_meta (name TEXT NOT NULL PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
        CREATE TABLE synced_file (
            id INTEGER PRIMARY KEY,
            path BLOB NOT NULL UNIQUE,
            lease INTEGER NOT NULL,
            version INTEGER NOT NULL,
            version_salt INTEGER NOT NULL,
            cumulative_size INTEGER NOT NULL,
            base_version INTEGER NOT NULL,
            base_salt INTEGER NOT NULL,
            base_cumulative_size INTEGER NOT NULL,
            base_chain BLOB NOT NULL,
            next_ident INTEGER NOT NULL,
            state_version INTEGER NOT NULL,
            chain BLOB NOT NULL,
            checksum BLOB NOT NULL
        );
        CREATE TABLE client_file (
            file INTEGER NOT NULL,
            ident INTEGER NOT NULL,
            salt INTEGER NOT NULL,
            client_version INTEGER NOT NULL,
            reciprocal_base INTEGER NOT NULL,
            locked_version INTEGER NOT NULL,
            last_seen INTEGER NOT NULL,
            is_expired INTEGER NOT NULL,
            user TEXT,
            lineage INTEGER NOT NULL,
            base_client_version INTEGER NOT NULL,
            receipt_version INTEGER NOT NULL,
            receipt_client_version INTEGER NOT NULL,
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
            base INTEGER,
            release INTEGER,
            protocol INTEGER,
            checksum BLOB NOT NULL,
            section BLOB,
            changeset BLOB NOT NULL,
            content_bytes INTEGER,
            PRIMARY KEY (file, version)
        );
        CREATE INDEX receipt ON log_entry (file, origin, version, client_version);
        CREATE TABLE received (
            file INTEGER NOT NULL,
            version INTEGER NOT NULL,
            time INTEGER NOT NULL,
            checksum BLOB NOT NULL,
            changeset BLOB NOT NULL,
            PRIMARY KEY (file, version)
        );
        CREATE INDEX received_by_age ON received (time);
        CREATE TABLE reciprocal (
            file INTEGER NOT NULL,
            ident INTEGER NOT NULL,
            version INTEGER NOT NULL,
            checksum BLOB NOT NULL,
            changeset BLOB NOT NULL,
            PRIMARY KEY (file, ident, version)
        );
        CREATE TABLE conflict_key (
            file INTEGER NOT NULL,
            key INTEGER NOT NULL,
            version INTEGER NOT NULL,
            origin INTEGER NOT NULL,
            PRIMARY KEY (file, key, version)
        ) WITHOUT ROWID;
        CREATE TABLE idempotency_key (
            number INTEGER PRIMARY KEY,
            file INTEGER NOT NULL,
            key BLOB NOT NULL,
            version INTEGER NOT NULL,
            UNIQUE (file, key)
        );
        CREATE INDEX idempotency_key_by_age ON idempotency_key (file, number);
        CREATE TABLE log_segment (
            file INTEGER NOT NULL,
            last INTEGER NOT NULL,
            block BLOB NOT NULL,
            PRIMARY KEY (file, last)
        );
        CREATE TABLE deleted_file (file INTEGER PRIMARY KEY);
        CREATE TABLE generation (
            file INTEGER NOT NULL,
            version INTEGER NOT NULL,
            entry_count INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            cumulative_size INTEGER NOT NULL,
            checksum BLOB NOT NULL,
            PRIMARY KEY (file, version)
        ) WITHOUT ROWID;
        CREATE TABLE generation_segment (
            file INTEGER NOT NULL,
            generation INTEGER NOT NULL,
            last INTEGER NOT NULL,
            block BLOB NOT NULL,
            PRIMARY KEY (file, generation, last)
        );
        CREATE TABLE archived_segment (
            file INTEGER NOT NULL,
            last INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            block BLOB NOT NULL,
            PRIMARY KEY (file, last)
        );
        CREATE INDEX archived_segment_bytes ON archived_segment (file, bytes);
        CREATE TRIGGER archive_of_deleted_file AFTER DELETE ON deleted_file
        BEGIN DELETE FROM archived_segment WHERE file = OLD.file; END;
        CREATE TABLE client_view (
            file INTEGER NOT NULL,
            ident INTEGER NOT NULL,
            query_version INTEGER NOT NULL,
            changed INTEGER NOT NULL,
            projected INTEGER NOT NULL,
            first_number INTEGER NOT NULL,
            last_number INTEGER NOT NULL,
            predicates TEXT NOT NULL,
            role TEXT NOT NULL,
            checksum BLOB NOT NULL,
            set_content BLOB,
            role_content BLOB,
            logged BLOB,
            PRIMARY KEY (file, ident)
        );
        CREATE TABLE view_entry (
            file INTEGER NOT NULL,
            ident INTEGER NOT NULL,
            number INTEGER NOT NULL,
            version INTEGER NOT NULL,
            client_version INTEGER NOT NULL,
            timestamp INTEGER NOT NULL,
            origin INTEGER NOT NULL,
            bootstrap INTEGER,
            changeset BLOB NOT NULL,
            merged BLOB,
            in_log INTEGER,
            compensation TEXT,
            checksum BLOB NOT NULL,
            content BLOB,
            content_bytes INTEGER,
            PRIMARY KEY (file, ident, number)
        );
        CREATE TABLE view_content (
            file INTEGER NOT NULL,
            digest BLOB NOT NULL,
            content BLOB NOT NULL,
            PRIMARY KEY (file, digest)
        );
        CREATE INDEX view_entry_by_content ON view_entry (file, content) WHERE content IS NOT NULL;
        CREATE INDEX view_by_set ON client_view (file, set_content) WHERE set_content IS NOT NULL;
        CREATE INDEX view_by_role ON client_view (file, role_content) WHERE role_content IS NOT NULL;
        CREATE TABLE view_field (
            file INTEGER NOT NULL,
            class BLOB NOT NULL,
            is_class INTEGER NOT NULL,
            field BLOB NOT NULL,
            since INTEGER,
            PRIMARY KEY (file, class, is_class, field)
        ) WITHOUT ROWID;
        CREATE TABLE ingested (
            file INTEGER NOT NULL,
            number INTEGER NOT NULL,
            class BLOB NOT NULL,
            key_type INTEGER NOT NULL,
            key BLOB NOT NULL,
            time INTEGER NOT NULL,
            user TEXT,
            object BLOB NOT NULL,
            checksum BLOB NOT NULL,
            PRIMARY KEY (file, number),
            UNIQUE (file, class, key_type, key)
        );
        CREATE TABLE withheld_schema (
            file INTEGER NOT NULL,
            ident INTEGER NOT NULL,
            checksum BLOB NOT NULL,
            changeset BLOB NOT NULL,
            PRIMARY KEY (file, ident)
        );
        CREATE TABLE door_record (
            number INTEGER PRIMARY KEY,
            file INTEGER NOT NULL,
            space INTEGER NOT NULL,
            kind INTEGER NOT NULL,
            key BLOB NOT NULL,
            expires INTEGER,
            checksum BLOB NOT NULL,
            value BLOB NOT NULL,
            UNIQUE (file, space, kind, key)
        );
        CREATE INDEX door_record_by_expiry ON door_record (expires) WHERE expires IS NOT NULL;
        CREATE TRIGGER door_records_of_deleted_file AFTER DELETE ON deleted_file
        BEGIN DELETE FROM door_record WHERE file = OLD.file; END;
        CREATE TRIGGER withheld_schemas_of_deleted_file AFTER DELETE ON deleted_file
        BEGIN DELETE FROM withheld_schema WHERE file = OLD.file; END;
        CREATE TRIGGER views_of_deleted_file AFTER DELETE ON deleted_file
        BEGIN
            DELETE FROM ingested WHERE file = OLD.file;
            DELETE FROM client_view WHERE file = OLD.file;
            DELETE FROM view_entry WHERE file = OLD.file;
        END;
        CREATE TRIGGER view_contents_of_deleted_file AFTER DELETE ON deleted_file
        BEGIN
            DELETE FROM view_content WHERE file = OLD.file;
            DELETE FROM view_field WHERE file = OLD.file;
        END;
        """
}

#if canImport(CLibPQ)
/// The tables of a store, in a schema of their own. Numbers are stored as 64 bits, and text as bytes: it can have any
/// character, and is compared byte by byte.
enum StoreTables {
    /// The version of the tables.
    static let format = 2

    static let sql = """
        CREATE SCHEMA \(PostgresTarget.schema);
        SET LOCAL search_path = \(PostgresTarget.schema);
        CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);
        CREATE SEQUENCE file_number INCREMENT \(fileNumbers);
        CREATE TABLE synced_file (
            id bigint PRIMARY KEY,
            path bytea NOT NULL CONSTRAINT synced_file_path_key UNIQUE,
            lease bigint NOT NULL,
            version bigint NOT NULL,
            version_salt bigint NOT NULL,
            cumulative_size bigint NOT NULL,
            chain bytea NOT NULL,
            base_version bigint NOT NULL,
            base_salt bigint NOT NULL,
            base_cumulative_size bigint NOT NULL,
            base_chain bytea NOT NULL,
            sealed_version bigint NOT NULL,
            next_ident bigint NOT NULL,
            state_version bigint NOT NULL,
            bounds bigint NOT NULL,
            checksum bytea NOT NULL
        ) WITH (fillfactor = 50);
        CREATE TABLE client_file (
            file bigint,
            ident bigint,
            salt bigint NOT NULL,
            client_version bigint NOT NULL,
            reciprocal_base bigint NOT NULL,
            locked_version bigint NOT NULL,
            last_seen bigint NOT NULL,
            is_expired boolean NOT NULL,
            user_ident bytea,
            lineage bigint NOT NULL,
            base_client_version bigint NOT NULL,
            receipt_version bigint NOT NULL,
            receipt_client_version bigint NOT NULL,
            revision bigint NOT NULL,
            session bigint NOT NULL,
            found_away bigint NOT NULL,
            checksum bytea NOT NULL,
            PRIMARY KEY (file, ident)
        ) WITH (fillfactor = 70);
        CREATE INDEX client_file_user ON client_file (user_ident, file) WHERE user_ident IS NOT NULL;
        CREATE TABLE log_entry (
            file bigint,
            version bigint,
            salt bigint NOT NULL,
            origin bigint NOT NULL,
            client_version bigint NOT NULL,
            time bigint NOT NULL,
            cumulative_size bigint NOT NULL,
            base bigint,
            release bigint,
            protocol bigint,
            checksum bytea NOT NULL,
            section bytea,
            changeset bytea NOT NULL,
            PRIMARY KEY (file, version)
        );
        CREATE INDEX receipt ON log_entry (file, origin, version, client_version);
        CREATE TABLE conflict_key (
            file bigint,
            key bigint,
            version bigint,
            origin bigint NOT NULL,
            PRIMARY KEY (file, key, version)
        );
        CREATE TABLE received (
            file bigint,
            version bigint,
            time bigint NOT NULL,
            checksum bytea NOT NULL,
            changeset bytea NOT NULL,
            PRIMARY KEY (file, version)
        );
        CREATE INDEX received_age ON received (time);
        CREATE TABLE reciprocal (
            file bigint,
            ident bigint,
            version bigint,
            checksum bytea NOT NULL,
            changeset bytea NOT NULL,
            PRIMARY KEY (file, ident, version)
        );
        CREATE TABLE withheld_schema (
            file bigint,
            ident bigint,
            checksum bytea NOT NULL,
            changeset bytea NOT NULL,
            PRIMARY KEY (file, ident)
        );
        CREATE TABLE idempotency_key (
            file bigint,
            key bytea,
            version bigint NOT NULL,
            number bigint NOT NULL,
            PRIMARY KEY (file, key)
        );
        CREATE INDEX idempotency_age ON idempotency_key (file, number);
        CREATE TABLE log_segment (file bigint, last bigint, block bytea NOT NULL, PRIMARY KEY (file, last));
        CREATE TABLE archived_segment (
            file bigint,
            last bigint,
            bytes bigint NOT NULL,
            block bytea NOT NULL,
            PRIMARY KEY (file, last)
        );
        CREATE TABLE generation (
            file bigint,
            version bigint,
            entry_count bigint NOT NULL,
            bytes bigint NOT NULL,
            cumulative_size bigint NOT NULL,
            checksum bytea NOT NULL,
            PRIMARY KEY (file, version)
        );
        CREATE TABLE generation_segment (
            file bigint,
            generation bigint,
            last bigint,
            block bytea NOT NULL,
            PRIMARY KEY (file, generation, last)
        );
        ALTER TABLE log_segment ALTER COLUMN block SET STORAGE EXTERNAL;
        ALTER TABLE archived_segment ALTER COLUMN block SET STORAGE EXTERNAL;
        ALTER TABLE generation_segment ALTER COLUMN block SET STORAGE EXTERNAL;
        CREATE TABLE state_row (
            file bigint,
            class bigint,
            key bytea,
            part bigint,
            content bytea NOT NULL,
            PRIMARY KEY (file, class, key, part)
        ) WITH (fillfactor = 80);
        CREATE TABLE client_view (
            file bigint,
            ident bigint,
            query_version bigint NOT NULL,
            changed bigint NOT NULL,
            projected bigint NOT NULL,
            first_number bigint NOT NULL,
            last_number bigint NOT NULL,
            predicates bytea NOT NULL,
            role bytea NOT NULL,
            logged bytea,
            checksum bytea NOT NULL,
            PRIMARY KEY (file, ident)
        );
        CREATE TABLE view_entry (
            file bigint,
            ident bigint,
            number bigint,
            version bigint NOT NULL,
            client_version bigint NOT NULL,
            time bigint NOT NULL,
            origin bigint NOT NULL,
            bootstrap bigint,
            logged_bytes bigint,
            digest bytea,
            changeset bytea,
            merged bytea,
            compensation bytea,
            checksum bytea NOT NULL,
            PRIMARY KEY (file, ident, number)
        );
        CREATE INDEX view_entry_content ON view_entry (file, digest) WHERE digest IS NOT NULL;
        CREATE TABLE view_content (file bigint, digest bytea, content bytea NOT NULL, PRIMARY KEY (file, digest));
        CREATE TABLE view_field (
            file bigint,
            class bytea,
            is_class boolean,
            field bytea,
            since bigint,
            PRIMARY KEY (file, class, is_class, field)
        );
        CREATE TABLE ingested (
            file bigint,
            number bigint,
            class bytea NOT NULL,
            key_type bigint NOT NULL,
            key bytea NOT NULL,
            time bigint NOT NULL,
            user_ident bytea,
            object bytea NOT NULL,
            checksum bytea NOT NULL,
            PRIMARY KEY (file, number),
            UNIQUE (file, class, key_type, key)
        );
        CREATE TABLE door_record (
            file bigint,
            space bigint,
            kind bigint,
            key bytea,
            expires bigint,
            value bytea NOT NULL,
            checksum bytea NOT NULL,
            PRIMARY KEY (file, space, kind, key)
        );
        CREATE INDEX door_record_expiry ON door_record (expires) WHERE expires IS NOT NULL;
        CREATE TABLE deleted_file (file bigint PRIMARY KEY);
        \(accounts)
        """

    /// The numbers that a process takes for new files at a time.
    static let fileNumbers: Int64 = 100

    /// The tables with rows of files.
    static let ofFiles = [
        "log_segment", "archived_segment", "generation_segment", "log_entry", "received", "view_entry", "view_content",
        "view_field", "client_view", "ingested", "reciprocal", "withheld_schema", "door_record", "state_row",
        "idempotency_key", "generation", "conflict_key", "client_file",
    ]
}
#endif

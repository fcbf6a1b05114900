#if canImport(CLibPQ)
extension StoreTables {
    /// The tables of accounts and of the keys that sign tokens. `folded` is a name with small letters.
    static let accounts = """
        CREATE TABLE app_user (
            ident bytea PRIMARY KEY,
            app bytea NOT NULL,
            custom_data bytea NOT NULL,
            is_disabled boolean NOT NULL,
            has_visited boolean NOT NULL DEFAULT false,
            created_at bigint NOT NULL
        );
        CREATE TABLE identity (
            place bigint GENERATED ALWAYS AS IDENTITY,
            ident bytea NOT NULL,
            user_ident bytea NOT NULL REFERENCES app_user ON DELETE CASCADE,
            app bytea NOT NULL,
            provider bytea NOT NULL,
            name bytea NOT NULL,
            folded bytea NOT NULL,
            secret bytea,
            is_pending boolean NOT NULL,
            PRIMARY KEY (app, provider, name)
        );
        CREATE INDEX identity_user ON identity (user_ident);
        CREATE INDEX identity_folded ON identity (app, provider, folded);
        CREATE TABLE login (
            ident bytea PRIMARY KEY,
            user_ident bytea NOT NULL REFERENCES app_user ON DELETE CASCADE,
            provider bytea NOT NULL,
            created_at bigint NOT NULL,
            expires_at bigint NOT NULL
        );
        CREATE INDEX login_user ON login (user_ident);
        CREATE INDEX login_end ON login (expires_at);
        CREATE TABLE api_key (
            ident bytea PRIMARY KEY,
            user_ident bytea NOT NULL REFERENCES app_user ON DELETE CASCADE,
            name bytea NOT NULL,
            digest bytea NOT NULL UNIQUE,
            is_disabled boolean NOT NULL,
            UNIQUE (user_ident, name)
        );
        CREATE TABLE signing_key (ident bytea PRIMARY KEY, secret bytea NOT NULL, created_at bigint NOT NULL);
        INSERT INTO meta (name, value) VALUES ('accounts', '');
        """
}
#endif

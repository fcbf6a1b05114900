#if canImport(CLibPQ)
package import AnabranchHistory
import AnabranchPostgresWire

extension PostgresAccountStore: CopyableAccountStore {
    package func accounts(after ident: String, countMax: Int) throws(AccountError) -> [StoredAccount] {
        var accounts: [StoredAccount] = []
        for user in try users(after: ident, countMax: countMax) {
            let keys = try apiKeys(of: user.ident)
            accounts.append(
                try read { transaction throws(AccountError) in
                    let visited = try transaction.rows(
                        "SELECT has_visited FROM app_user WHERE ident = $1", .string(user.ident))
                    return StoredAccount(
                        user: user, hasVisited: visited.flag(0, 0),
                        sessions: try Self.sessions(of: user.ident, in: transaction), keys: keys)
                })
        }
        return accounts
    }

    private static func sessions(
        of user: String, in transaction: StoreTransaction
    ) throws(AccountError) -> [LoginSession] {
        let rows = try transaction.rows(
            "SELECT ident, provider, created_at, expires_at FROM login WHERE user_ident = $1 ORDER BY ident",
            .string(user))
        var sessions: [LoginSession] = []
        for row in 0..<rows.count {
            sessions.append(
                LoginSession(
                    ident: rows.text(row, 0) ?? "", user: user, provider: rows.text(row, 1) ?? "",
                    createdAt: try rows.time(row, 2), expiresAt: try rows.time(row, 3)))
        }
        return sessions
    }

    package func insert(_ accounts: [StoredAccount]) throws(AccountError) {
        try write { transaction throws(AccountError) in
            for account in accounts {
                let user = account.user
                try Self.insert(user, hasVisited: account.hasVisited, in: transaction)
                for identity in user.identities {
                    try Self.insert(identity, of: user.ident, app: user.app, in: transaction)
                }
                for session in account.sessions { try Self.insert(session, in: transaction) }
                for key in account.keys { try Self.insert(key, in: transaction) }
            }
        }
    }

    /// The keys that sign tokens, the newest one first.
    package func signingKeys() throws(AccountError) -> [SigningKey] {
        try read { transaction throws(AccountError) in try Self.signingKeys(in: transaction) }
    }

    /// Adds keys that sign tokens.
    package func insert(_ keys: [SigningKey]) throws(AccountError) {
        try write { transaction throws(AccountError) in
            for key in keys { try Self.insert(key, in: transaction) }
        }
    }

    // MARK: Rows

    static func signingKeys(in transaction: StoreTransaction) throws(AccountError) -> [SigningKey] {
        let rows = try transaction.rows(
            "SELECT ident, secret, created_at FROM signing_key ORDER BY created_at DESC, ident", [])
        var keys: [SigningKey] = []
        for row in 0..<rows.count {
            keys.append(
                SigningKey(
                    ident: rows.text(row, 0) ?? "", secret: rows.bytes(row, 1) ?? [],
                    createdAt: try rows.time(row, 2)))
        }
        return keys
    }

    /// Adds a user without identities.
    static func insert(
        _ user: User, hasVisited: Bool, in transaction: StoreTransaction
    ) throws(AccountError) {
        try transaction.change(
            """
            INSERT INTO app_user (ident, app, custom_data, is_disabled, created_at, has_visited)
            VALUES ($1, $2, $3, $4, $5, $6)
            """, .string(user.ident), .string(user.app), .string(user.customData), .flag(user.isDisabled),
            .number(Int64(clamping: user.createdAt)), .flag(hasVisited))
    }

    static func insert(
        _ identity: Identity, of user: String, app: String, in transaction: StoreTransaction
    ) throws(AccountError) {
        try transaction.change(
            """
            INSERT INTO identity (ident, user_ident, app, provider, name, folded, secret, is_pending)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            """, .string(identity.ident), .string(user), .string(app), .string(identity.provider),
            .string(identity.name), .string(folded(identity.name)), identity.secret.map { .string($0) } ?? .null,
            .flag(identity.isPending))
    }

    static func insert(_ session: LoginSession, in transaction: StoreTransaction) throws(AccountError) {
        try transaction.change(
            "INSERT INTO login (ident, user_ident, provider, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)",
            .string(session.ident), .string(session.user), .string(session.provider),
            .number(Int64(clamping: session.createdAt)), .number(Int64(clamping: session.expiresAt)))
    }

    static func insert(_ key: APIKey, in transaction: StoreTransaction) throws(AccountError) {
        try transaction.change(
            "INSERT INTO api_key (ident, user_ident, name, digest, is_disabled) VALUES ($1, $2, $3, $4, $5)",
            .string(key.ident), .string(key.user), .string(key.name), .bytes(key.digest), .flag(key.isDisabled))
    }

    static func insert(_ key: SigningKey, in transaction: StoreTransaction) throws(AccountError) {
        try transaction.change(
            "INSERT INTO signing_key (ident, secret, created_at) VALUES ($1, $2, $3)", .string(key.ident),
            .bytes(key.secret), .number(Int64(clamping: key.createdAt)))
    }
}
#endif

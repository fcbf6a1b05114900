#if canImport(CLibPQ)
public import AnabranchHistory
import AnabranchPostgresWire

/// Accounts in the database of a `PostgresStore`, for all nodes.
public final class PostgresAccountStore: Sendable {
    private let pool: ConnectionPool
    /// The connections: logins wait for the disk.
    private static let connectionCount = 4

    /// The accounts in the database of a store.
    public init(_ store: PostgresStore) {
        pool = ConnectionPool(store.target, count: Self.connectionCount, idleSeconds: store.options.seconds)
    }

    /// Closes the connections.
    public func close() { pool.close() }

    /// The keys that sign tokens, the newest one first.
    /// - Parameter first: the key to store if there is none: of several servers that start with their own, one wins.
    /// - Throws: `storeFailed`.
    public func signingKeys(orFirst first: SigningKey) throws(AccountError) -> [SigningKey] {
        try write(locking: Self.lockOfNames) { transaction throws(AccountError) in
            let keys = try Self.signingKeys(in: transaction)
            guard keys.isEmpty else { return keys }
            try Self.insert(first, in: transaction)
            return [first]
        }
    }
}

extension PostgresAccountStore: AccountStore {
    // MARK: Users

    public func add(_ user: User) throws(AccountError) {
        try write(locking: Self.lockOfNames) { transaction throws(AccountError) in
            try Self.insert(user, hasVisited: false, in: transaction)
            for identity in user.identities { try Self.add(identity, to: user.ident, of: user.app, in: transaction) }
        }
    }

    public func user(_ ident: String) throws(AccountError) -> User? {
        try read { transaction throws(AccountError) in try Self.user(ident, in: transaction) }
    }

    public func user(of app: String, provider: String, name: String) throws(AccountError) -> User? {
        try read { transaction throws(AccountError) in
            let rows = try transaction.rows(
                """
                SELECT user_ident, name = $3 FROM identity
                WHERE app = $1 AND provider = $2 AND (name = $3 OR ($5 AND folded = $4)) ORDER BY 2 DESC LIMIT 2
                """, .string(app), .string(provider), .string(name), .string(Self.folded(name)),
                .flag(provider == Identity.emailProvider))
            guard rows.count == 1 || rows.flag(0, 1), let owner = rows.text(0, 0) else { return nil }
            return try Self.user(owner, in: transaction)
        }
    }

    public func users(after ident: String, countMax: Int) throws(AccountError) -> [User] {
        try users("ident > $1 ORDER BY ident LIMIT $2", .string(ident), .number(Int64(max(0, countMax))))
    }

    public func users(of app: String, after ident: String, countMax: Int) throws(AccountError) -> [User] {
        try users(
            "ident > $1 AND app = $3 ORDER BY ident LIMIT $2", .string(ident), .number(Int64(max(0, countMax))),
            .string(app))
    }

    private func users(_ condition: String, _ parameters: PostgresValue...) throws(AccountError) -> [User] {
        try read { transaction throws(AccountError) in
            let rows = try transaction.rows("SELECT ident FROM app_user WHERE \(condition)", parameters)
            var users: [User] = []
            for row in 0..<rows.count {
                if let user = try Self.user(rows.text(row, 0) ?? "", in: transaction) { users.append(user) }
            }
            return users
        }
    }

    public func add(_ identity: Identity, to user: String) throws(AccountError) {
        try write(locking: Self.lockOfNames) { transaction throws(AccountError) in
            let app = try Self.requiredUser(user, in: transaction).app
            try Self.add(identity, to: user, of: app, in: transaction)
        }
    }

    public func move(_ identity: String, from owner: String, to user: String) throws(AccountError) {
        try write(locking: Self.lockOfNames) { transaction throws(AccountError) in
            let giver = try Self.requiredUser(owner, in: transaction)
            let taker = try Self.requiredUser(user, in: transaction)
            guard let moved = giver.identities.first(where: { $0.ident == identity }) else {
                throw AccountError(.noSuchUser, "no such identity")
            }
            let visits = try transaction.rows(
                "SELECT 1 FROM app_user WHERE ident = $1 AND has_visited", .string(owner))
            guard owner != user, giver.identities.count == 1, visits.count == 0 else {
                throw AccountError(.nameTaken, "the identity is in use")
            }
            try transaction.change("DELETE FROM app_user WHERE ident = $1", .string(owner))
            try Self.insert(moved, of: user, app: taker.app, in: transaction)
        }
    }

    public func confirm(_ identity: String, of user: String) throws(AccountError) -> Bool {
        try write { transaction throws(AccountError) in
            guard try Self.identity(identity, of: user, in: transaction).isPending else { return false }
            try transaction.change(
                "UPDATE identity SET is_pending = false WHERE ident = $1 AND user_ident = $2", .string(identity),
                .string(user))
            return true
        }
    }

    public func setSecret(_ secret: String, of identity: String, user: String) throws(AccountError) {
        try write { transaction throws(AccountError) in
            try Self.setSecret(secret, of: identity, user: user, in: transaction)
        }
    }

    public func setSecret(
        _ secret: String, of identity: String, user: String, replacing old: String?
    ) throws(AccountError) -> Bool {
        try write { transaction throws(AccountError) in
            guard try Self.identity(identity, of: user, in: transaction).secret == old else { return false }
            try Self.setSecret(secret, of: identity, user: user, in: transaction)
            return true
        }
    }

    public func setDisabled(_ isDisabled: Bool, user: String) throws(AccountError) {
        try changeUser(user, "is_disabled = $2", .flag(isDisabled))
    }

    public func setCustomData(_ customData: String, user: String) throws(AccountError) {
        try changeUser(user, "custom_data = $2", .string(customData))
    }

    private func changeUser(_ user: String, _ change: String, _ value: PostgresValue) throws(AccountError) {
        try write { transaction throws(AccountError) in
            let count = try transaction.change(
                "UPDATE app_user SET \(change) WHERE ident = $1", .string(user), value)
            guard count == 1 else { throw AccountError(.noSuchUser, "no such user") }
        }
    }

    public func removeUser(_ ident: String) throws(AccountError) {
        _ = try write { transaction throws(AccountError) in
            try transaction.change("DELETE FROM app_user WHERE ident = $1", .string(ident))
        }
    }

    // MARK: Sessions

    public func add(_ session: LoginSession, by secret: String?) throws(AccountError) {
        try write { transaction throws(AccountError) in
            let createdAt = PostgresValue.number(Int64(clamping: session.createdAt))
            let user = try Self.requiredUser(session.user, in: transaction)
            guard secret == nil || user.identities.contains(where: { $0.secret == secret }) else {
                throw AccountError(.secretReplaced, "the password was replaced")
            }
            try transaction.change(
                "UPDATE app_user SET has_visited = true WHERE ident = $1 AND NOT has_visited", .string(session.user))
            // Another transaction may be removing the same ones.
            try transaction.change(
                """
                DELETE FROM login WHERE ident IN
                (SELECT ident FROM login WHERE expires_at <= $1 FOR UPDATE SKIP LOCKED)
                """, createdAt)
            try Self.insert(session, in: transaction)
        }
    }

    public func session(_ ident: String) throws(AccountError) -> (session: LoginSession, user: User)? {
        try read { transaction throws(AccountError) in
            let rows = try transaction.rows(
                "SELECT user_ident, provider, created_at, expires_at FROM login WHERE ident = $1", .string(ident))
            guard let owner = rows.text(0, 0), let user = try Self.user(owner, in: transaction) else { return nil }
            let session = LoginSession(
                ident: ident, user: owner, provider: rows.text(0, 1) ?? "", createdAt: try rows.time(0, 2),
                expiresAt: try rows.time(0, 3))
            return (session, user)
        }
    }

    public func removeSession(_ ident: String) throws(AccountError) {
        _ = try write { transaction throws(AccountError) in
            try transaction.change("DELETE FROM login WHERE ident = $1", .string(ident))
        }
    }

    public func removeSessions(of user: String) throws(AccountError) {
        try write { transaction throws(AccountError) in try Self.removeSessions(of: user, in: transaction) }
    }

    // MARK: Keys

    public func add(_ key: APIKey, countMax: Int) throws(AccountError) {
        try write { transaction throws(AccountError) in
            _ = try Self.requiredUser(key.user, in: transaction)
            let keys = try transaction.rows("SELECT 1 FROM api_key WHERE user_ident = $1", .string(key.user))
            guard keys.count < countMax else { throw AccountError(.tooManyKeys, "the user has \(countMax) keys") }
            try Self.insert(key, in: transaction)
        }
    }

    public func apiKeys(of user: String) throws(AccountError) -> [APIKey] {
        try keys("user_ident = $1 ORDER BY ident", .string(user))
    }

    public func apiKey(digest: [UInt8]) throws(AccountError) -> APIKey? {
        try keys("digest = $1", .bytes(digest)).first
    }

    private func keys(_ condition: String, _ parameter: PostgresValue) throws(AccountError) -> [APIKey] {
        try read { transaction throws(AccountError) in
            let rows = try transaction.rows(
                "SELECT ident, user_ident, name, digest, is_disabled FROM api_key WHERE \(condition)", parameter)
            return (0..<rows.count).map { row in
                APIKey(
                    ident: rows.text(row, 0) ?? "", user: rows.text(row, 1) ?? "", name: rows.text(row, 2) ?? "",
                    digest: rows.bytes(row, 3) ?? [], isDisabled: rows.flag(row, 4))
            }
        }
    }

    public func setDisabled(_ isDisabled: Bool, apiKey ident: String, of user: String) throws(AccountError) -> Bool {
        try write { transaction throws(AccountError) in
            try transaction.change(
                "UPDATE api_key SET is_disabled = $3 WHERE ident = $1 AND user_ident = $2", .string(ident),
                .string(user), .flag(isDisabled)) == 1
        }
    }

    public func removeAPIKey(_ ident: String, of user: String) throws(AccountError) -> Bool {
        try write { transaction throws(AccountError) in
            try transaction.change(
                "DELETE FROM api_key WHERE ident = $1 AND user_ident = $2", .string(ident), .string(user)) == 1
        }
    }

    // MARK: Rows

    private static func user(
        _ ident: String, isLocked: Bool = false, in transaction: StoreTransaction
    ) throws(AccountError) -> User? {
        let rows = try transaction.rows(
            """
            SELECT app, custom_data, is_disabled, created_at FROM app_user WHERE ident = $1
            \(isLocked ? "FOR UPDATE" : "")
            """, .string(ident))
        guard rows.count > 0 else { return nil }
        let found = try transaction.rows(
            """
            SELECT ident, provider, name, secret, is_pending FROM identity WHERE user_ident = $1 ORDER BY place
            """, .string(ident))
        let identities = (0..<found.count).map { row in
            Identity(
                ident: found.text(row, 0) ?? "", provider: found.text(row, 1) ?? "", name: found.text(row, 2) ?? "",
                secret: found.text(row, 3), isPending: found.flag(row, 4))
        }
        return User(
            ident: ident, app: rows.text(0, 0) ?? "", identities: identities, customData: rows.text(0, 1) ?? "",
            isDisabled: rows.flag(0, 2), createdAt: try rows.time(0, 3))
    }

    /// The user, locked until the transaction ends.
    private static func requiredUser(
        _ ident: String, in transaction: StoreTransaction
    ) throws(AccountError) -> User {
        guard let user = try user(ident, isLocked: true, in: transaction) else {
            throw AccountError(.noSuchUser, "no such user")
        }
        return user
    }

    private static func identity(
        _ ident: String, of user: String, in transaction: StoreTransaction
    ) throws(AccountError) -> Identity {
        let found = try Self.user(user, isLocked: true, in: transaction)?.identities.first { $0.ident == ident }
        guard let found else { throw AccountError(.noSuchUser, "no such identity") }
        return found
    }

    private static func setSecret(
        _ secret: String, of identity: String, user: String, in transaction: StoreTransaction
    ) throws(AccountError) {
        _ = try Self.identity(identity, of: user, in: transaction)
        try transaction.change(
            "UPDATE identity SET secret = $3, is_pending = false WHERE ident = $1 AND user_ident = $2",
            .string(identity), .string(user), .string(secret))
        try removeSessions(of: user, in: transaction)
    }

    private static func removeSessions(of user: String, in transaction: StoreTransaction) throws(AccountError) {
        try transaction.change("DELETE FROM login WHERE user_ident = $1", .string(user))
    }

    /// A new name must not differ from another one only in case, where case makes no difference. The caller has the
    /// lock of names.
    private static func add(
        _ identity: Identity, to user: String, of app: String, in transaction: StoreTransaction
    ) throws(AccountError) {
        if identity.provider == Identity.emailProvider {
            let others = try transaction.rows(
                "SELECT 1 FROM identity WHERE app = $1 AND provider = $2 AND folded = $3", .string(app),
                .string(identity.provider), .string(folded(identity.name)))
            guard others.count == 0 else {
                throw AccountError(.nameTaken, "somebody else has the e-mail address")
            }
        }
        try insert(identity, of: user, app: app, in: transaction)
    }

    /// The name with small letters instead of the capitals from A to Z.
    static func folded(_ name: String) -> String {
        String(decoding: name.utf8.map { 65...90 ~= $0 ? $0 + 32 : $0 }, as: UTF8.self)
    }

    // MARK: Transactions

    /// Lets one at a time give names away.
    private static let lockOfNames = [PostgresStep("SELECT 1 FROM meta WHERE name = 'accounts' FOR UPDATE")]

    func read<Result>(
        _ body: (StoreTransaction) throws(AccountError) -> Result
    ) throws(AccountError) -> Result {
        try translating { () throws(HistoryError) in
            try StoreTransaction.read(from: pool) { transaction throws(HistoryError) in
                Swift.Result { () throws(AccountError) in try body(transaction) }
            }
        }
    }

    func write<Result>(
        locking: [PostgresStep] = [], _ body: (StoreTransaction) throws(AccountError) -> Result
    ) throws(AccountError) -> Result {
        try translating { () throws(HistoryError) in
            try StoreTransaction.write(in: pool, locking: locking) { transaction throws(HistoryError) in
                let result = Swift.Result { () throws(AccountError) in try body(transaction) }
                switch result {
                case .success: try transaction.commit()
                case .failure: transaction.rollBack()
                }
                return result
            }
        }
    }

    /// Gives an error of the database the form that the contract asks for.
    private func translating<Success>(
        _ body: () throws(HistoryError) -> Result<Success, AccountError>
    ) throws(AccountError) -> Success {
        let result: Result<Success, AccountError>
        do throws(HistoryError) { result = try body() } catch {
            throw AccountError(.storeFailed, error.reason)
        }
        return try result.get()
    }
}
#endif

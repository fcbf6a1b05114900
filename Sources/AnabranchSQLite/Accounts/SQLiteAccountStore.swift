public import AnabranchHistory
import Foundation
import GRDB

/// Accounts in a SQLite database of their own, flushed to the disk with each change (`Spec/Durability.md`).
///
/// They are kept separate from the synced files, so that a copy of the store contains no passwords.
public final class SQLiteAccountStore: Sendable {
    private let queue: DatabaseQueue

    /// Opens the accounts in the directory of a `SQLiteStore`, which keeps other processes out. Only the owner of the
    /// process may read the database.
    /// - Parameter path: the path of the directory.
    /// - Throws: `storeFailed`, also if a newer program has written the database.
    public init(directory path: String) throws(AccountError) {
        let url = URL(fileURLWithPath: path, isDirectory: true).appendingPathComponent(DataDirectory.accountsName)
        queue = try translatingAccountErrors {
            try DataDirectory.makePrivate(database: url.path)
            var configuration = Configuration()
            configuration.label = "anabranch.accounts"
            configuration.foreignKeysEnabled = true
            configuration.prepareDatabase { db in
                try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON")
            }
            let queue = try DatabaseQueue(path: url.path, configuration: configuration)
            try queue.write { db in try AccountSchema.check(db) }
            try AccountSchema.migrator.migrate(queue)
            try queue.write { db in try db.execute(sql: AccountSchema.caselessIndex) }
            return queue
        }
    }

    /// Ends all access.
    /// - Throws: `storeFailed`.
    public func close() throws(AccountError) { try translatingAccountErrors { try queue.close() } }

}

extension SQLiteAccountStore: AccountStore {
    // MARK: Users

    public func add(_ user: User) throws(AccountError) {
        try write { db in
            try Self.insert(user, hasVisited: false, in: db)
            for identity in user.identities { try Self.add(identity, to: user.ident, of: user.app, in: db) }
        }
    }

    public func user(_ ident: String) throws(AccountError) -> User? {
        try read { db in try Self.user(ident, in: db) }
    }

    public func user(of app: String, provider: String, name: String) throws(AccountError) -> User? {
        try read { db in
            try Self.owner(of: app, provider, name, in: db).flatMap { try Self.user($0, in: db) }
        }
    }

    private static func owner(
        of app: String, _ provider: String, _ name: String, in db: Database
    ) throws -> String? {
        // SQLite would look for the name before the NUL.
        guard !name.utf8.contains(0) else { return nil }
        let sql = "SELECT user FROM identity WHERE app = ? AND provider = ? AND name = ?"
        if let owner = try String.fetchOne(db, sql: sql, arguments: [app, provider, name]) { return owner }
        guard provider == Identity.emailProvider else { return nil }
        let owners = try String.fetchAll(
            db, sql: sql + " COLLATE NOCASE LIMIT 2", arguments: [app, provider, name])
        return owners.count == 1 ? owners[0] : nil
    }

    public func users(after ident: String, countMax: Int) throws(AccountError) -> [User] {
        try read { db in
            try String.fetchAll(
                db, sql: "SELECT ident FROM user WHERE ident > ? ORDER BY ident LIMIT ?",
                arguments: [ident, max(0, countMax)]
            ).compactMap { try Self.user($0, in: db) }
        }
    }

    public func users(of app: String, after ident: String, countMax: Int) throws(AccountError) -> [User] {
        try read { db in
            try String.fetchAll(
                db, sql: "SELECT ident FROM user WHERE app = ? AND ident > ? ORDER BY ident LIMIT ?",
                arguments: [app, ident, max(0, countMax)]
            ).compactMap { try Self.user($0, in: db) }
        }
    }

    public func add(_ identity: Identity, to user: String) throws(AccountError) {
        try write { db in
            let app = try Self.requiredUser(user, in: db).app
            try Self.add(identity, to: user, of: app, in: db)
        }
    }

    public func move(_ identity: String, from owner: String, to user: String) throws(AccountError) {
        try write { db in
            let giver = try Self.requiredUser(owner, in: db)
            let taker = try Self.requiredUser(user, in: db)
            guard let moved = giver.identities.first(where: { $0.ident == identity }) else {
                throw AccountError(.noSuchUser, "no such identity")
            }
            let hasLoggedIn = try Bool.fetchOne(
                db, sql: "SELECT has_visited FROM user WHERE ident = ?", arguments: [owner])
            guard owner != user, giver.identities.count == 1, hasLoggedIn == false else {
                throw AccountError(.nameTaken, "the identity is in use")
            }
            try db.execute(sql: "DELETE FROM user WHERE ident = ?", arguments: [owner])
            try Self.insert(moved, of: user, app: taker.app, in: db)
        }
    }

    public func confirm(_ identity: String, of user: String) throws(AccountError) -> Bool {
        try write { db in
            guard try Self.identity(identity, of: user, in: db).isPending else { return false }
            try Self.change(
                "UPDATE identity SET is_pending = FALSE WHERE ident = ? AND user = ?", [identity, user],
                orThrow: "no such identity", in: db)
            return true
        }
    }

    public func setSecret(_ secret: String, of identity: String, user: String) throws(AccountError) {
        try write { db in try Self.setSecret(secret, of: identity, user: user, in: db) }
    }

    public func setSecret(
        _ secret: String, of identity: String, user: String, replacing old: String?
    ) throws(AccountError) -> Bool {
        try write { db in
            guard try Self.identity(identity, of: user, in: db).secret == old else { return false }
            try Self.setSecret(secret, of: identity, user: user, in: db)
            return true
        }
    }

    public func setDisabled(_ isDisabled: Bool, user: String) throws(AccountError) {
        try write { db in
            try Self.change(
                "UPDATE user SET is_disabled = ? WHERE ident = ?", [isDisabled, user], orThrow: "no such user", in: db)
        }
    }

    public func setCustomData(_ customData: String, user: String) throws(AccountError) {
        try write { db in
            try Self.change(
                "UPDATE user SET custom_data = ? WHERE ident = ?", [customData, user], orThrow: "no such user", in: db)
        }
    }

    public func removeUser(_ ident: String) throws(AccountError) {
        try write { db in try db.execute(sql: "DELETE FROM user WHERE ident = ?", arguments: [ident]) }
    }

    // MARK: Sessions

    public func add(_ session: LoginSession, by secret: String?) throws(AccountError) {
        try write { db in
            let createdAt = Int64(clamping: session.createdAt)
            let user = try Self.requiredUser(session.user, in: db)
            guard secret == nil || user.identities.contains(where: { $0.secret == secret }) else {
                throw AccountError(.secretReplaced, "the password was replaced")
            }
            try db.execute(sql: "UPDATE user SET has_visited = TRUE WHERE ident = ?", arguments: [session.user])
            try db.execute(sql: "DELETE FROM session WHERE expires_at <= ?", arguments: [createdAt])
            try Self.insert(session, in: db)
        }
    }

    public func session(_ ident: String) throws(AccountError) -> (session: LoginSession, user: User)? {
        try read { db in
            let sql = "SELECT ident, user, provider, created_at, expires_at FROM session WHERE ident = ?"
            guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [ident]),
                let user = try Self.user(row[1], in: db)
            else { return nil }
            let session = LoginSession(
                ident: row[0], user: row[1], provider: row[2], createdAt: try row.number(3),
                expiresAt: try row.number(4))
            return (session, user)
        }
    }

    public func removeSession(_ ident: String) throws(AccountError) {
        try write { db in try db.execute(sql: "DELETE FROM session WHERE ident = ?", arguments: [ident]) }
    }

    public func removeSessions(of user: String) throws(AccountError) {
        try write { db in try Self.removeSessions(of: user, in: db) }
    }

    // MARK: Keys

    public func add(_ key: APIKey, countMax: Int) throws(AccountError) {
        try write { db in
            _ = try Self.requiredUser(key.user, in: db)
            let count = try Int.fetchOne(
                db, sql: "SELECT COUNT(*) FROM api_key WHERE user = ?", arguments: [key.user])
            guard count ?? 0 < countMax else { throw AccountError(.tooManyKeys, "the user has \(countMax) keys") }
            try Self.insert(key, in: db)
        }
    }

    public func apiKeys(of user: String) throws(AccountError) -> [APIKey] {
        try read { db in try Self.keys(of: user, in: db) }
    }

    public func apiKey(digest: [UInt8]) throws(AccountError) -> APIKey? {
        try read { db in
            try Row.fetchOne(
                db, sql: "SELECT \(Self.keyColumns) FROM api_key WHERE digest = ?", arguments: [Data(digest)]
            ).map(Self.key)
        }
    }

    public func setDisabled(_ isDisabled: Bool, apiKey ident: String, of user: String) throws(AccountError) -> Bool {
        try write { db in
            try db.execute(
                sql: "UPDATE api_key SET is_disabled = ? WHERE ident = ? AND user = ?",
                arguments: [isDisabled, ident, user])
            return db.changesCount == 1
        }
    }

    public func removeAPIKey(_ ident: String, of user: String) throws(AccountError) -> Bool {
        try write { db in
            try db.execute(sql: "DELETE FROM api_key WHERE ident = ? AND user = ?", arguments: [ident, user])
            return db.changesCount == 1
        }
    }

    // MARK: Rows

    private static let keyColumns = "ident, user, name, digest, is_disabled"

    private static func key(_ row: Row) throws -> APIKey {
        APIKey(ident: row[0], user: row[1], name: row[2], digest: try row.bytes(3), isDisabled: row[4])
    }

    static func keys(of user: String, in db: Database) throws -> [APIKey] {
        try Row.fetchAll(
            db, sql: "SELECT \(keyColumns) FROM api_key WHERE user = ? ORDER BY ident", arguments: [user]
        ).map(key)
    }

    private static func user(_ ident: String, in db: Database) throws -> User? {
        let sql = "SELECT ident, app, custom_data, is_disabled, created_at FROM user WHERE ident = ?"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [ident]) else { return nil }
        let ofUser = "SELECT ident, provider, name, secret, is_pending FROM identity WHERE user = ? ORDER BY place"
        let identities = try Row.fetchAll(db.cachedStatement(sql: ofUser), arguments: [ident]).map {
            Identity(ident: $0[0], provider: $0[1], name: $0[2], secret: $0[3], isPending: $0[4])
        }
        return User(
            ident: row[0], app: row[1], identities: identities, customData: row[2], isDisabled: row[3],
            createdAt: try row.number(4))
    }

    private static func requiredUser(_ ident: String, in db: Database) throws -> User {
        guard let user = try user(ident, in: db) else { throw AccountError(.noSuchUser, "no such user") }
        return user
    }

    private static func identity(_ ident: String, of user: String, in db: Database) throws -> Identity {
        let found = try Self.user(user, in: db)?.identities.first { $0.ident == ident }
        guard let found else { throw AccountError(.noSuchUser, "no such identity") }
        return found
    }

    private static func setSecret(_ secret: String, of identity: String, user: String, in db: Database) throws {
        try change(
            "UPDATE identity SET secret = ?, is_pending = FALSE WHERE ident = ? AND user = ?",
            [secret, identity, user], orThrow: "no such identity", in: db)
        try removeSessions(of: user, in: db)
    }

    /// A new name must not differ from another one only in case, where case makes no difference.
    private static func add(_ identity: Identity, to user: String, of app: String, in db: Database) throws {
        guard !identity.name.utf8.contains(0) else { throw AccountError(.storeFailed, "a name has a NUL") }
        let sql = "SELECT 1 FROM identity WHERE app = ? AND provider = ? AND name = ? COLLATE NOCASE"
        if identity.provider == Identity.emailProvider,
            try Row.fetchOne(db, sql: sql, arguments: [app, identity.provider, identity.name]) != nil
        {
            throw AccountError(.nameTaken, "somebody else has the e-mail address")
        }
        try insert(identity, of: user, app: app, in: db)
    }

    /// Adds a user without identities.
    static func insert(_ user: User, hasVisited: Bool, in db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO user (ident, app, custom_data, is_disabled, has_visited, created_at)
                VALUES (?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                user.ident, user.app, user.customData, user.isDisabled, hasVisited, Int64(clamping: user.createdAt),
            ])
    }

    static func insert(_ session: LoginSession, in db: Database) throws {
        try db.execute(
            sql: "INSERT INTO session (ident, user, provider, created_at, expires_at) VALUES (?, ?, ?, ?, ?)",
            arguments: [
                session.ident, session.user, session.provider, Int64(clamping: session.createdAt),
                Int64(clamping: session.expiresAt),
            ])
    }

    static func insert(_ key: APIKey, in db: Database) throws {
        try db.execute(
            sql: "INSERT INTO api_key (ident, user, name, digest, is_disabled) VALUES (?, ?, ?, ?, ?)",
            arguments: [key.ident, key.user, key.name, Data(key.digest), key.isDisabled])
    }

    static func insert(_ identity: Identity, of user: String, app: String, in db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO identity (ident, user, app, provider, name, secret, is_pending)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                identity.ident, user, app, identity.provider, identity.name, identity.secret, identity.isPending,
            ])
    }

    // MARK: Transactions

    func read<Result>(_ body: (Database) throws -> Result) throws(AccountError) -> Result {
        try translatingAccountErrors { try queue.read(body) }
    }

    func write<Result>(_ body: (Database) throws -> Result) throws(AccountError) -> Result {
        try translatingAccountErrors { try queue.write(body) }
    }

    /// Updates one row, which has to be there.
    private static func change(
        _ sql: String, _ arguments: StatementArguments, orThrow reason: String, in db: Database
    ) throws {
        try db.execute(sql: sql, arguments: arguments)
        guard db.changesCount == 1 else { throw AccountError(.noSuchUser, reason) }
    }

    private static func removeSessions(of user: String, in db: Database) throws {
        try db.execute(sql: "DELETE FROM session WHERE user = ?", arguments: [user])
    }
}

/// The codes with which SQLite refuses a name, or an ident, that is taken.
private let isTaken: [ResultCode] = [.SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY]

/// Runs `body` and gives its errors the form that the contract asks for.
private func translatingAccountErrors<Result>(_ body: () throws -> Result) throws(AccountError) -> Result {
    do {
        return try body()
    } catch let error as AccountError {
        throw error
    } catch let error as HistoryError {
        throw AccountError(.storeFailed, error.description)
    } catch let error as DatabaseError where isTaken.contains(error.extendedResultCode) {
        throw AccountError(.nameTaken, "somebody else has the name or the ident")
    } catch let error as DatabaseError {
        // Neither the statement nor its arguments are included: they may name users.
        throw AccountError(.storeFailed, "SQLite error \(error.extendedResultCode.rawValue)")
    } catch {
        throw AccountError(.storeFailed, "\(type(of: error))")
    }
}

package import AnabranchHistory
import Foundation
import GRDB

extension SQLiteAccountStore: CopyableAccountStore {
    package func accounts(after ident: String, countMax: Int) throws(AccountError) -> [StoredAccount] {
        let users = try users(after: ident, countMax: countMax)
        return try read { db in
            try users.map { user in
                let visited = try Bool.fetchOne(
                    db, sql: "SELECT has_visited FROM user WHERE ident = ?", arguments: [user.ident])
                let sessions = try Row.fetchAll(
                    db,
                    sql: "SELECT ident, provider, created_at, expires_at FROM session WHERE user = ? ORDER BY ident",
                    arguments: [user.ident]
                ).map { row in
                    LoginSession(
                        ident: row[0], user: user.ident, provider: row[1], createdAt: try row.number(2),
                        expiresAt: try row.number(3))
                }
                return StoredAccount(
                    user: user, hasVisited: visited ?? false, sessions: sessions,
                    keys: try Self.keys(of: user.ident, in: db))
            }
        }
    }

    package func insert(_ accounts: [StoredAccount]) throws(AccountError) {
        try write { db in
            for account in accounts {
                let user = account.user
                try Self.insert(user, hasVisited: account.hasVisited, in: db)
                for identity in user.identities { try Self.insert(identity, of: user.ident, app: user.app, in: db) }
                for session in account.sessions { try Self.insert(session, in: db) }
                for key in account.keys { try Self.insert(key, in: db) }
            }
        }
    }
}

/// A user with everything that is kept of one.
package struct StoredAccount: Equatable, Sendable {
    package var user: User
    /// True once the user has logged in.
    package var hasVisited: Bool
    /// In the order of their idents.
    package var sessions: [LoginSession]
    /// In the order of their idents.
    package var keys: [APIKey]

    package init(user: User, hasVisited: Bool, sessions: [LoginSession], keys: [APIKey]) {
        (self.user, self.hasVisited, self.sessions, self.keys) = (user, hasVisited, sessions, keys)
    }
}

/// A store of accounts that can be copied, and takes a copy.
package protocol CopyableAccountStore: AccountStore {
    /// At most `countMax` users whose idents come after `ident`, in the order of their idents.
    func accounts(after ident: String, countMax: Int) throws(AccountError) -> [StoredAccount]

    /// Adds users as they are, all or none. Names that differ in case alone stay as they are.
    func insert(_ accounts: [StoredAccount]) throws(AccountError)
}

/// A person or program that may log in to an app (`Spec/Protocol.md`, section 1).
public struct User: Equatable, Sendable {
    /// 24 hexadecimal digits; the `sub` of the user's tokens, and the owner of the user's client files.
    public var ident: String
    /// The app id. Users of different apps have nothing in common.
    public var app: String
    /// The ways in which the user logs in, in the order in which they were added; at least one.
    public var identities: [Identity]
    /// A JSON object that the operator attaches to the user.
    public var customData: String
    /// True if the operator has shut the user out: the user's sessions are not valid.
    public var isDisabled: Bool
    /// Seconds since 1970.
    public var createdAt: UInt64

    /// Creates a user, to be added to an `AccountStore` or returned by one.
    public init(
        ident: String, app: String, identities: [Identity], customData: String = "{}", isDisabled: Bool = false,
        createdAt: UInt64
    ) {
        self.ident = ident
        self.app = app
        self.identities = identities
        self.customData = customData
        self.isDisabled = isDisabled
        self.createdAt = createdAt
    }
}

/// One way in which a user logs in.
public struct Identity: Equatable, Sendable {
    /// 24 hexadecimal digits.
    public var ident: String
    /// As in the URL of a login: `anon-user`, `local-userpass`, `custom-token`.
    public var provider: String
    /// The name by which the provider knows the user: an e-mail address, or the subject of somebody else's token.
    /// Unique for the app and the provider. E-mail addresses are the same in capital letters or not, A to Z; everything
    /// else is compared byte by byte.
    public var name: String
    /// A hashed password, with the way it was hashed; nil if the provider needs none.
    public var secret: String?
    /// True while nobody has shown that the e-mail address is theirs.
    public var isPending: Bool

    /// The provider whose names are e-mail addresses.
    package static let emailProvider = "local-userpass"

    /// Creates an identity, to be added to a user.
    public init(ident: String, provider: String, name: String, secret: String? = nil, isPending: Bool = false) {
        self.ident = ident
        self.provider = provider
        self.name = name
        self.secret = secret
        self.isPending = isPending
    }
}

/// A login that has not been ended; a refresh token stands for it.
public struct LoginSession: Equatable, Sendable {
    /// 24 hexadecimal digits; the `sid` of the session's tokens.
    public var ident: String
    /// The user's ident.
    public var user: String
    /// The provider by which the user logged in.
    public var provider: String
    /// Seconds since 1970.
    public var createdAt: UInt64
    /// Seconds since 1970: from then on the session is over.
    public var expiresAt: UInt64

    /// Creates a session, to be added to an `AccountStore` or returned by one.
    public init(ident: String, user: String, provider: String, createdAt: UInt64, expiresAt: UInt64) {
        self.ident = ident
        self.user = user
        self.provider = provider
        self.createdAt = createdAt
        self.expiresAt = expiresAt
    }
}

/// A key with which programs log in as a user. The key itself is shown once and kept by nobody.
public struct APIKey: Equatable, Sendable {
    /// 24 hexadecimal digits.
    public var ident: String
    /// The user's ident.
    public var user: String
    /// Chosen by the user; unique among the user's keys.
    public var name: String
    /// A cryptographic hash of the key, unique in the store.
    public var digest: [UInt8]
    /// True while nobody can log in with the key.
    public var isDisabled: Bool

    /// Creates a key, to be added to an `AccountStore` or returned by one.
    public init(ident: String, user: String, name: String, digest: [UInt8], isDisabled: Bool = false) {
        self.ident = ident
        self.user = user
        self.name = name
        self.digest = digest
        self.isDisabled = isDisabled
    }
}

/// A store of users, their logins and their keys. Calls are synchronous, block until their effect is durable, and may
/// come from any thread.
///
/// Promises of every store, checked by one conformance suite:
/// 1. A call takes effect entirely or not at all. When it throws, nothing was changed.
/// 2. A user's sessions and keys end with the user; a session of a disabled user is kept, but is not valid.
/// 3. Text is compared byte by byte, except the names of `local-userpass`: capital letters from A to Z and small ones
///    are the same in them. Older stores may hold names that differ in case alone: each of these is found only as it is
///    written. They may be moved, but no further one of them can be added.
public protocol AccountStore: Sendable {
    /// Adds a user with all identities.
    /// - Throws: `nameTaken` if a user of that ident, or an identity of the same app, provider and name, exists;
    ///   `storeFailed`.
    func add(_ user: User) throws(AccountError)

    /// The user with this ident; nil if there is none.
    func user(_ ident: String) throws(AccountError) -> User?

    /// The user who logs in to `app` by this provider and name; nil if there is none, or if several names differ only
    /// in case and none is spelled exactly so.
    func user(of app: String, provider: String, name: String) throws(AccountError) -> User?

    /// At most `countMax` users of all apps whose idents come after `ident`, in the order of their idents.
    func users(after ident: String, countMax: Int) throws(AccountError) -> [User]

    /// At most `countMax` users of one app whose idents come after `ident`, in the order of their idents.
    func users(of app: String, after ident: String, countMax: Int) throws(AccountError) -> [User]

    /// Gives a user one more way to log in.
    /// - Throws: `noSuchUser`; `nameTaken`; `storeFailed`.
    func add(_ identity: Identity, to user: String) throws(AccountError)

    /// Takes an identity away from a user who has never logged in, and removes that user.
    /// - Throws: `nameTaken` if the user has logged in or has other identities; `noSuchUser` if there is neither.
    func move(_ identity: String, from owner: String, to user: String) throws(AccountError)

    /// Records that an identity is no longer pending.
    /// - Returns: false if it was not pending; then nothing has changed.
    /// - Throws: `noSuchUser` if the user has no such identity.
    func confirm(_ identity: String, of user: String) throws(AccountError) -> Bool

    /// Replaces the hashed password of an identity and ends all sessions of the user. The identity is no longer
    /// pending: only a reader of an e-mail to the address, or the operator, may replace a password.
    /// - Throws: `noSuchUser` if the user has no such identity.
    func setSecret(_ secret: String, of identity: String, user: String) throws(AccountError)

    /// The same, but only if the hashed password is still `old`. Of several callers that would replace it, the first
    /// succeeds.
    /// - Parameter old: the hashed password to replace; nil stands for an identity without a password.
    /// - Returns: false if it was replaced already; then nothing has changed.
    /// - Throws: `noSuchUser` if the user has no such identity.
    func setSecret(
        _ secret: String, of identity: String, user: String, replacing old: String?
    ) throws(AccountError) -> Bool

    /// Shuts a user out, or lets the user in again.
    /// - Throws: `noSuchUser`.
    func setDisabled(_ isDisabled: Bool, user: String) throws(AccountError)

    /// Replaces the custom data; the caller has made sure that it is a JSON object.
    /// - Throws: `noSuchUser`.
    func setCustomData(_ customData: String, user: String) throws(AccountError)

    /// Removes a user, with sessions and keys. Nothing happens if there is none.
    func removeUser(_ ident: String) throws(AccountError)

    /// Adds a session, and removes all sessions that are over at its `createdAt`.
    /// - Parameter secret: the one with which the user has just logged in; nil for a login without a secret.
    /// - Throws: `noSuchUser`; `secretReplaced` if no identity of the user has that secret any more.
    func add(_ session: LoginSession, by secret: String?) throws(AccountError)

    /// A session with its user, as of one moment; nil if there is none. The caller checks whether it has expired.
    func session(_ ident: String) throws(AccountError) -> (session: LoginSession, user: User)?

    /// Ends a session. Nothing happens if there is none.
    func removeSession(_ ident: String) throws(AccountError)

    /// Ends all sessions of a user.
    func removeSessions(of user: String) throws(AccountError)

    /// Adds a key of a user.
    /// - Throws: `tooManyKeys` if the user has `countMax` keys or more; `nameTaken` if one has the name; `noSuchUser`.
    func add(_ key: APIKey, countMax: Int) throws(AccountError)

    /// The keys of a user, in the order of their idents.
    func apiKeys(of user: String) throws(AccountError) -> [APIKey]

    /// The key with this digest; nil if there is none.
    func apiKey(digest: [UInt8]) throws(AccountError) -> APIKey?

    /// Disables a key, or enables it again.
    /// - Returns: false if the user has no such key.
    func setDisabled(_ isDisabled: Bool, apiKey ident: String, of user: String) throws(AccountError) -> Bool

    /// Removes a key.
    /// - Returns: false if the user has no such key.
    func removeAPIKey(_ ident: String, of user: String) throws(AccountError) -> Bool
}

/// The reason why an account store did not do something. Two errors are equal if their codes are.
public struct AccountError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of failure.
    public enum Code: Equatable, Sendable {
        /// Somebody else has the name, or the ident.
        case nameTaken
        /// There is no such user, or no such identity of the user.
        case noSuchUser
        /// The password with which a user has logged in is no longer the user's.
        case secretReplaced
        /// The user has as many keys as one may have.
        case tooManyKeys
        /// The store could not do its work now; nothing was changed.
        case storeFailed
    }

    /// The kind of failure.
    public var code: Code
    /// An explanation for a log; no secrets, no names of users.
    public var reason: String

    /// Creates an error with an explanation for a log.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// True if the codes are the same; the reasons may differ.
    public static func == (left: AccountError, right: AccountError) -> Bool { left.code == right.code }

    /// The code and the reason in one line.
    public var description: String { "\(code): \(reason)" }
}

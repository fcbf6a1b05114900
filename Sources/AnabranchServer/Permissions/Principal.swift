/// The user at the other end of a connection, as found by the handshake.
public struct Principal: Equatable, Sendable {
    /// The app id of the URL; empty if the URL has none.
    public var app: String
    /// The owner of the client files that the connection uses; nil if the server does not know the user.
    public var user: String?
    /// The provider of the user's login, as URLs name it (`Provider`); nil if the server does not know it.
    public var provider: String?
    /// The user's custom data, a JSON object.
    public var customData: String
    /// The user's data that come from the ways to log in, such as the e-mail address: a JSON object.
    public var data = "{}"
    /// All ways in which the user can log in.
    public var providers: [String] = []
    /// The name by which the app's own issuer knows the user; nil if the connection does not depend on its token.
    public var subject: String?
    /// The login session that the connection depends on; nil if it depends on none.
    public var login: String?
    /// The user's rights by the token itself.
    public var rights = TokenRights()

    /// The rights that a token of an app's own issuer gives, and its limits (`Spec/Forks.md`, section 3).
    public struct TokenRights: Equatable, Sendable {
        /// The most that the user may do. `Authorizer` and roles decide within it.
        public var permission = Permission.write
        /// The only partition, in its canonical text (`PartitionValue.bytes`) but without a slash at the beginning; nil
        /// for all partitions.
        public var partition: [UInt8]?
        /// True if no `Authorizer` is asked.
        public var isAdmin = false
        /// The time at which the token expires and the connection ends, in seconds since 1970; nil for never.
        public var expiresAt: Int64?

        /// The rights of a token that does not name any.
        public init() {}
    }

    /// A user of an app, known only by the given values.
    public init(
        app: String, user: String? = nil, provider: String? = nil, customData: String = "{}", login: String? = nil
    ) {
        self.app = app
        self.user = user
        self.provider = provider
        self.customData = customData
        self.login = login
    }

    /// The user's name among those of all apps; nil if the server does not know the user.
    var qualifiedName: String? {
        // An app id contains no slash, so no two users have one name.
        user.map { "\(app)/\($0)" }
    }
}

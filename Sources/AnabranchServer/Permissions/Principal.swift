/// The user at the other end of a connection, as the handshake found out.
public struct Principal: Equatable, Sendable {
    /// The app id of the URL; empty if the URL has none.
    public var app: String
    /// The owner of the client files that the connection uses; nil if the server does not know the user.
    public var user: String?
    /// How the user logged in, as URLs name it (`Provider`); nil if the server does not know.
    public var provider: String?
    /// The user's custom data, a JSON object.
    public var customData: String
    /// What the ways to log in tell of the user, such as the e-mail address: a JSON object.
    public var data = "{}"
    /// All ways in which the user can log in.
    public var providers: [String] = []
    /// The name by which the app's own issuer knows the user; nil if the connection does not depend on its token.
    public var subject: String?
    /// The login session that the connection depends on; nil if it depends on none.
    public var login: String?
    /// What the token itself says of the user's rights.
    public var rights = TokenRights()

    /// What a token of an app's own issuer gives and takes (`Spec/Forks.md`, section 3).
    public struct TokenRights: Equatable, Sendable {
        /// The most that the user may do. `Authorizer` and roles decide within it.
        public var permission = Permission.write
        /// The only partition, in its one text (`PartitionValue.bytes`) but without a slash at the beginning; nil for
        /// all of them.
        public var partition: [UInt8]?
        /// Whether no `Authorizer` is asked.
        public var isAdmin = false
        /// When the token expires, and the connection ends, in seconds since 1970; nil for never.
        public var expiresAt: Int64?

        /// Those of a token that says nothing of them.
        public init() {}
    }

    /// A user of an app, with nothing known but what is given.
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

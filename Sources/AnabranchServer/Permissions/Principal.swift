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
    /// The login session that the connection depends on; nil if it depends on none.
    public var login: String?

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

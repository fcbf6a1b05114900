public import AnabranchHistory
public import AnabranchProtocol

/// A way to log in. The raw values are the names in URLs (`Spec/Protocol.md`, section 1.3).
public enum Provider: String, CaseIterable, Sendable {
    /// A new user without any name.
    case anonymous = "anon-user"
    /// An e-mail address and a password.
    case emailPassword = "local-userpass"
    /// An API key that a user has made.
    case apiKey = "api-key"
    /// A JSON web token of another issuer.
    case customToken = "custom-token"
}

/// What one app allows.
public struct AppSettings: Equatable, Sendable {
    /// The ways to log in that are open. `customToken` is one of them only if there is an issuer.
    public var providers: Set<Provider>
    /// The issuer whose tokens are accepted as logins; nil for none.
    public var issuer: CustomTokenIssuer?
    /// The e-mails that it sends. With `confirmation` nobody logs in with an address before it is confirmed.
    public var emails: Set<AccountEmail.Kind> = []
    /// Whether its clients may take classes and columns away.
    public var destructiveSchema: DestructiveSchema
    /// Whether its clients subscribe to queries, and not to partitions.
    public var isFlexible = false
    /// The forks of Realm's SDKs whose clients come into the app, with tokens of its issuer.
    public var forks: [WireDialect: ForkSettings] = [:]
    /// The folder in which the app is as App Services has exported it: its rules, its classes, and how it is synced.
    /// Nil: everybody may do everything.
    public var exportPath: String?

    /// An app with these ways to log in.
    public init(
        providers: Set<Provider>, issuer: CustomTokenIssuer? = nil, destructiveSchema: DestructiveSchema = .refuse
    ) {
        self.providers = providers
        self.issuer = issuer
        self.destructiveSchema = destructiveSchema
    }
}

/// How clients of a fork come into an app (`Spec/Forks.md`, section 3).
public struct ForkSettings: Equatable, Sendable {
    /// Whether each token has to expire.
    public var needsExpiry = true
    /// Whether tokens may have the form of Realm Object Server: claims and signature, with a colon between.
    public var takesOldTokens = false
    /// Whether a token can make its user an administrator, who needs no rules.
    public var knowsAdmins = false
    /// In flexible sync, what a token has to say if it says for which file it is; nil: such tokens open nothing.
    public var path: String?
    /// In flexible sync, whether each token has to say it.
    public var needsPath = false

    /// A token has to expire, and needs not say more than who the user is and what he may do.
    public init() {}
}

extension AppSettings {
    /// Whether a text can be the id of an app: 1 to 100 letters, digits, `_`, `.` and `-`, of ASCII.
    package static func isAppID(_ text: String) -> Bool { text.wholeMatch(of: /[A-Za-z0-9_.-]{1,100}/) != nil }
}

/// What the HTTP endpoints of App Services allow (`Spec/Limits.md`, section 3).
public struct AppServicesSettings: Sendable {
    /// The apps by their ids.
    public var apps: [String: AppSettings] = [:]
    /// What all other apps allow; nil if there are no others.
    public var otherApps: AppSettings?
    /// The user of connections without a token; nil if they are refused. For development, on loopback addresses only.
    public var userWithoutToken: String?

    /// For development: tokens of clients of forks are believed, whoever has signed them.
    public var takesAnyToken = false

    /// `iss` of the server's own tokens.
    public var issuer = "anabranch"
    /// How long an access token is valid, in seconds.
    public var accessTokenSeconds: Int64 = 30 * 60
    /// How long a login lasts, in seconds.
    public var sessionSeconds: UInt64 = 60 * 24 * 3600
    /// Scheme, host and port by which clients reach the server, and the path if there is one, without a slash at the
    /// end; nil stands for what they send in their `Host` header.
    public var publicURL: String?

    /// Logins, registrations and e-mail requests of one address within a minute.
    public var loginsPerMinuteMax = 300
    /// Passwords that are being hashed or wait for it. Of further ones those are refused whose address and account have
    /// had the most wrong ones of late.
    public var passwordsUnderWayMax = 256
    /// Refused handshakes of one address, or of one user, within a minute that are answered at once. Each further one
    /// waits twice as long as the one before.
    public var promptRefusalsPerMinuteMax = 5
    /// E-mails to one address, or requests for some, within an hour.
    public var emailsPerHourMax = 5
    /// E-mails that are being sent. Further ones are refused.
    public var emailsUnderWayMax = 64
    /// How long the token of an e-mail confirms an address, in seconds.
    public var confirmationTokenSeconds: Int64 = 24 * 3600
    /// How long the token of an e-mail resets a password, in seconds.
    public var resetTokenSeconds: Int64 = 30 * 60
    /// API keys of one user.
    public var apiKeysPerUserMax = 20

    /// No apps, and the limits of `Spec/Limits.md`.
    public init() {}
}

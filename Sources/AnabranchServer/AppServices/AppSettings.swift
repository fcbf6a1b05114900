public import AnabranchHistory
public import AnabranchProtocol

/// The settings of one app: how its users log in, and what they may sync.
public struct AppSettings: Equatable, Sendable {
    /// The enabled ways to log in. `customToken` needs an `issuer`; without one, such logins are refused as if it were
    /// not enabled.
    public var providers: Set<Provider>
    /// The issuer whose tokens are accepted as logins; nil for none.
    public var issuer: CustomTokenIssuer?
    /// The kinds of e-mail that the app sends. With `confirmation`, nobody logs in with an address before it is
    /// confirmed.
    public var emails: Set<AccountEmail.Kind> = []
    /// The rule for clients that remove classes and columns.
    public var destructiveSchema: DestructiveSchema
    /// True if its clients subscribe to queries, and not to partitions.
    public var isFlexible = false
    /// The forks of Realm's SDKs whose clients may use the app, with tokens of its issuer.
    public var forks: [WireDialect: ForkSettings] = [:]
    /// The folder of the app as exported from App Services: its rules, its classes, and its kind of sync. If nil, or
    /// the word `everybody`, everybody may do everything.
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

/// The conditions for clients of a fork in an app (`Spec/Forks.md`, section 3).
public struct ForkSettings: Equatable, Sendable {
    /// True if each token has to expire.
    public var needsExpiry = true
    /// True if tokens may have the form of Realm Object Server: claims and signature, with a colon between them.
    public var takesOldTokens = false
    /// True if a token can make its user an administrator, who needs no rules.
    public var knowsAdmins = false
    /// In flexible sync, the required path of tokens that name a file. If nil, such tokens open nothing.
    public var path: String?
    /// True if, in flexible sync, each token has to name `path`.
    public var needsPath = false

    /// Conditions by default: tokens have to expire, and need only the user and the permissions.
    public init() {}
}

extension AppSettings {
    /// True if a text can be the id of an app: 1 to 100 letters, digits, `_`, `.` and `-`, of ASCII.
    package static func isAppID(_ text: String) -> Bool { text.wholeMatch(of: /[A-Za-z0-9_.-]{1,100}/) != nil }
}

/// The settings and limits of the HTTP endpoints of App Services (`Spec/Limits.md`, section 3).
public struct AppServicesSettings: Sendable {
    /// The apps by their ids.
    public var apps: [String: AppSettings] = [:]
    /// The settings of all other apps; nil if there are no others.
    public var otherApps: AppSettings?
    /// The user of connections without a token; nil to refuse them. For development, on loopback addresses only.
    public var userWithoutToken: String?

    /// True if tokens of forks' clients are accepted without checking who signed them. For development.
    public var takesAnyToken = false

    /// `iss` of the server's own tokens.
    public var issuer = "anabranch"
    /// The lifetime of an access token, in seconds.
    public var accessTokenSeconds: Int64 = 30 * 60
    /// The duration of a login, in seconds.
    public var sessionSeconds: UInt64 = 60 * 24 * 3600
    /// Scheme, host, port and, if there is one, path by which clients reach the server, without a slash at the end. If
    /// nil, the server answers with their `Host` header.
    public var publicURL: String?

    /// The most logins, registrations and e-mail requests of one address within a minute.
    public var loginsPerMinuteMax = 300
    /// The most passwords that are being hashed or wait for it. Beyond that, those whose address and account recently
    /// had the most wrong ones are refused.
    public var passwordsUnderWayMax = 256
    /// The most refused handshakes of one address, or of one user, within a minute that are answered without delay.
    /// Each further one waits twice as long as the one before.
    public var promptRefusalsPerMinuteMax = 5
    /// The most e-mails to one address, or requests for them, within an hour.
    public var emailsPerHourMax = 5
    /// The most e-mails that are being sent at one time. Further ones are refused.
    public var emailsUnderWayMax = 64
    /// The lifetime of a token that confirms an address, in seconds.
    public var confirmationTokenSeconds: Int64 = 24 * 3600
    /// The lifetime of a token that resets a password, in seconds.
    public var resetTokenSeconds: Int64 = 30 * 60
    /// The most API keys of one user.
    public var apiKeysPerUserMax = 20

    /// Settings without apps, with the limits of `Spec/Limits.md`.
    public init() {}
}

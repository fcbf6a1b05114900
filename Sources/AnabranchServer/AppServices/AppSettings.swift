import AnabranchHistory

/// How users of an app log in. The names are those of the URLs (`Spec/Protocol.md`, section 1.3).
public enum Provider: String, CaseIterable, Sendable {
    case anonymous = "anon-user"
    case emailPassword = "local-userpass"
    case apiKey = "api-key"
    case customToken = "custom-token"
}

/// What one app allows.
public struct AppSettings: Equatable, Sendable {
    /// The ways to log in that are open. `customToken` is one of them only if there is an issuer.
    public var providers: Set<Provider>
    /// Whose tokens are accepted as logins.
    public var issuer: CustomTokenIssuer?

    public init(providers: Set<Provider>, issuer: CustomTokenIssuer? = nil) {
        self.providers = providers
        self.issuer = issuer
    }
}

/// Somebody whose tokens log users in: RS256, ES256 or HS256.
public struct CustomTokenIssuer: Equatable, Sendable {
    /// A file with the issuer's keys (RFC 7517), read again when it changes.
    public var jwksPath: String
    /// What `iss` has to be; nil if it does not matter.
    public var issuer: String?
    /// What `aud` has to be or to contain; nil stands for the app id.
    public var audience: String?

    public init(jwksPath: String, issuer: String? = nil, audience: String? = nil) {
        self.jwksPath = jwksPath
        self.issuer = issuer
        self.audience = audience
    }
}

/// What the HTTP endpoints of App Services allow.
public struct AppServicesSettings: Sendable {
    /// The apps by their ids.
    public var apps: [String: AppSettings] = [:]
    /// What all other apps allow; nil if there are no others.
    public var otherApps: AppSettings?
    /// Accepts connections without a token as this one user: for development, on loopback addresses only.
    public var userWithoutToken: String?

    /// `iss` of our own tokens.
    public var issuer = "anabranch"
    /// How long an access token opens doors, in seconds.
    public var accessTokenSeconds: Int64 = 30 * 60
    /// How long a login lasts, in seconds.
    public var sessionSeconds: UInt64 = 60 * 24 * 3600
    /// Scheme, host and port by which clients reach the server, without a slash at the end; nil stands for what they
    /// say in their `Host` header.
    public var publicURL: String?

    /// Logins, registrations and the like from one address within a minute.
    public var loginsPerMinuteMax = 300
    /// Passwords that are being checked or wait for it; more logins are turned away.
    public var passwordsUnderWayMax = 64
    /// Refused handshakes from one address, or of one user, within a minute that are answered at once. Each further one
    /// waits twice as long as the last.
    public var promptRefusalsPerMinuteMax = 5
    /// API keys of one user.
    public var apiKeysPerUserMax = 20

    public init() {}
}

/// Whoever sends e-mails for a server. Without it an account needs no confirmation, and a password cannot be reset.
public protocol EmailHook: Sendable {
    /// Called for each request that an e-mail address is confirmed or a password reset. Tokens are the hook's own: it
    /// makes them, sends them, and recognises them again.
    func handle(_ request: EmailRequest, app: String) async -> EmailOutcome
}

/// What a client asks for (`Spec/Protocol.md`, section 1.6).
public enum EmailRequest: Equatable, Sendable {
    case sendConfirmation(email: String)
    case callConfirmation(email: String)
    case confirm(token: String, tokenIdent: String)
    case sendReset(email: String)
    case reset(password: String, token: String, tokenIdent: String)
    /// `arguments` is the JSON array that the application passed on.
    case callReset(email: String, password: String, arguments: String)
}

public enum EmailOutcome: Equatable, Sendable {
    /// There is nothing more to do.
    case done
    /// The user of this address gets the password, and all sessions of the user end.
    case setPassword(email: String, password: String)
    /// No; the text is shown to the application.
    case refused(String)
}

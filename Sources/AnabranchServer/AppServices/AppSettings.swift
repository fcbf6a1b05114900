public import AnabranchHistory
package import Logging

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
    /// Whether its clients may take classes and columns away.
    public var destructiveSchema: DestructiveSchema
    /// Whether its clients subscribe to queries, and not to partitions.
    public var isFlexible = false
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

/// Another party whose tokens log users in: RS256, ES256 or HS256.
public struct CustomTokenIssuer: Equatable, Sendable {
    /// A file with the issuer's keys (RFC 7517), read again when it changes.
    public var jwksPath: String
    /// The required value of `iss`; nil if any value will do.
    public var issuer: String?
    /// The value that `aud` has to be or to contain; nil stands for the app id.
    public var audience: String?

    /// An issuer with the keys in a file.
    public init(jwksPath: String, issuer: String? = nil, audience: String? = nil) {
        self.jwksPath = jwksPath
        self.issuer = issuer
        self.audience = audience
    }

    /// Reads a file of keys as the server does.
    /// - Throws: `FileError` if it cannot be used.
    package static func checkKeys(path: String, logger: Logger) async throws {
        _ = try await CustomTokenVerifier(jwksPath: path, issuer: nil, audience: "", logger: logger)
    }
}

/// What the HTTP endpoints of App Services allow (`Spec/Limits.md`, section 3).
public struct AppServicesSettings: Sendable {
    /// The apps by their ids.
    public var apps: [String: AppSettings] = [:]
    /// What all other apps allow; nil if there are no others.
    public var otherApps: AppSettings?
    /// The user of connections without a token; nil if they are refused. For development, on loopback addresses only.
    public var userWithoutToken: String?

    /// `iss` of the server's own tokens.
    public var issuer = "anabranch"
    /// How long an access token is valid, in seconds.
    public var accessTokenSeconds: Int64 = 30 * 60
    /// How long a login lasts, in seconds.
    public var sessionSeconds: UInt64 = 60 * 24 * 3600
    /// Scheme, host and port by which clients reach the server, without a slash at the end; nil stands for what they
    /// send in their `Host` header.
    public var publicURL: String?

    /// Logins, registrations and e-mail requests of one address within a minute.
    public var loginsPerMinuteMax = 300
    /// Passwords that are being hashed or wait for it. Further logins are refused.
    public var passwordsUnderWayMax = 64
    /// Refused handshakes of one address, or of one user, within a minute that are answered at once. Each further one
    /// waits twice as long as the one before.
    public var promptRefusalsPerMinuteMax = 5
    /// API keys of one user.
    public var apiKeysPerUserMax = 20

    /// No apps, and the limits of `Spec/Limits.md`.
    public init() {}
}

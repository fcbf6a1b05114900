package import Logging

/// Another party whose tokens log users in: RS256, ES256 or, with a file, HS256.
public struct CustomTokenIssuer: Equatable, Sendable {
    /// The issuer's keys: a file (RFC 7517, or public keys in PEM), read again when it changes, or a URL with `https`
    /// (RFC 7517), fetched again each hour and when a token names another key.
    public var jwks: String
    /// The required value of `iss`; nil if any value will do.
    public var issuer: String?
    /// The value that `aud` has to be or to contain; nil stands for the app id. Tokens of clients of forks need no
    /// `aud` then.
    public var audience: String?
    /// A PEM file with the certificates that vouch for the certificate of the URL's server; nil stands for those of the
    /// system.
    public var authority: String?

    /// An issuer with keys in a file or at a URL.
    public init(jwks: String, issuer: String? = nil, audience: String? = nil, authority: String? = nil) {
        self.jwks = jwks
        self.issuer = issuer
        self.audience = audience
        self.authority = authority
    }

    /// True if the keys are at a URL, and not in a file.
    package var isURL: Bool { jwks.contains("://") }

    /// Reads the keys as the server does.
    /// - Returns: the reason why the keys at a URL cannot be fetched now, although a server would start without them;
    ///   nil if there is none.
    /// - Throws: `FileError` if a file cannot be used.
    package func check(logger: Logger) async throws -> String? {
        guard isURL else {
            _ = try await CustomTokenVerifier(self, app: "", logger: logger, now: 0)
            return nil
        }
        let keys = try FetchedKeys(url: jwks, authority: authority, logger: logger)
        do {
            _ = try await keys.fetch()
            return nil
        } catch {
            return "\(error)"
        }
    }
}

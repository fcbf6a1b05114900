public import AnabranchProtocol

/// The credentials that a client presents when it opens a connection (`Spec/Protocol.md`, section 1.7).
public struct Credentials: Sendable {
    /// The family of the client's SDK. Those of forks bring the token of an app's own issuer (`Spec/Forks.md`).
    public var dialect = WireDialect.realm
    /// The app id of the URL; empty on paths that have none, such as `/realm-sync`. The admitted principal says which
    /// app it is.
    public let app: String
    /// The access token of the query; empty if there is none. Never log it.
    public let token: String
    /// The client's IP address, or the first 64 bits of an IPv6 address; nil if it is not known.
    public let address: String?
    /// True if the request has an `Origin` header: then a web page made it (`Spec/Protocol.md`, section 2.4). An
    /// authenticator that admits clients without a token must refuse those: any page that a browser on a trusted
    /// machine shows could make them.
    public var isOfWebPage = false
}

/// The decision on whether a client may connect. A reason is for the log of the server; it is not sent to the client.
public enum Admission: Sendable {
    /// It may. Its client files belong to the principal's user.
    case admitted(Principal)
    /// The token is expired, unknown or revoked. The client fetches another one and reconnects immediately. A fork's
    /// client that comes back with the same token has to wait.
    case tokenRefused(reason: String)
    /// A new token would not help: the user has to log in again.
    case userRefused(reason: String)
    /// The server cannot decide now. The client tries again later.
    case unavailable
}

/// Decides who may connect.
public protocol Authenticator: Sendable {
    /// Decides about one connection. The handshake is answered when this returns, which may take up to
    /// `ServerSettings.handshakeSecondsMax` seconds.
    func admit(_ credentials: Credentials) async -> Admission

    /// Which of these logins (`Principal.login`) have ended: logged out, revoked, expired, or the user is disabled or
    /// deleted. Called every `ServerSettings.loginCheckSecondsMax` seconds with the logins of all connections.
    /// - Returns: none if it cannot decide now.
    func ended(among logins: Set<String>) async -> Set<String>
}

extension Authenticator {
    /// None: for authenticators without logins.
    public func ended(among logins: Set<String>) async -> Set<String> { [] }
}

/// Admits every client with every token, but no web page: for a server that only its own machine or a trusted network
/// can reach.
public struct AllowAllAuthenticator: Authenticator {
    /// There is nothing to configure.
    public init() {}

    /// Admits the client without a user, unless a web page made the request.
    public func admit(_ credentials: Credentials) async -> Admission {
        credentials.isOfWebPage
            ? .userRefused(reason: "asked for by a web page") : .admitted(Principal(app: credentials.app))
    }
}

/// What a client shows when it opens a connection (`Spec/Protocol.md`, section 1.7).
public struct Credentials: Sendable {
    /// The app id of the URL; empty on the path `/realm-sync`, which has none.
    public let app: String
    /// The access token of the query; empty if there is none. It must not get into any log.
    public let token: String
    /// The client's IP address, of IPv6 the network's 64 bits, if it is known.
    public let address: String?
    /// There is an `Origin` header: a web page asks (`Spec/Protocol.md`, section 2.4). Whoever lets clients in without
    /// a token must not let in any page that a browser on a trusted machine happens to show.
    public var isOfWebPage = false
}

/// Whether a client may come in.
public enum Admission: Sendable {
    /// Welcome; its client files belong to the member's user, or to nobody in particular.
    case admitted(Member)
    /// The token is expired, unknown or revoked. The client fetches another one and comes back at once.
    case tokenRefused
    /// A new token would not help: the user has to log in again.
    case userRefused
    /// Nobody can say right now, because of trouble of the server's own: the client tries again later.
    case unavailable
}

/// Decides who may connect. Called once a connection, before the handshake is answered; it may take its time within
/// the limit for handshakes.
public protocol Authenticator: Sendable {
    func admit(_ credentials: Credentials) async -> Admission

    /// Which of these logins (`Member.login`) are over: logged out, revoked, expired, their users shut out or gone.
    /// Asked every `ServerSettings.loginCheckSecondsMax` seconds about everybody who is connected; whoever cannot say
    /// ends none.
    func ended(among logins: Set<String>) async -> Set<String>
}

extension Authenticator {
    /// None: for those who know no logins.
    public func ended(among logins: Set<String>) async -> Set<String> { [] }
}

/// Every client is welcome, whatever the token, but no web page: for a server that only its own machine, or a trusted
/// network, can reach.
public struct OpenDoor: Authenticator {
    public init() {}

    public func admit(_ credentials: Credentials) async -> Admission {
        credentials.isOfWebPage ? .userRefused : .admitted(Member(app: credentials.app))
    }
}

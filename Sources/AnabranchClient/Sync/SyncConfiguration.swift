import AnabranchCore
public import AnabranchProtocol
public import Logging

/// The settings with which a `SyncClient` reaches its server.
public struct SyncConfiguration: Sendable {
    /// The provider of the WebSocket's URL, with the token in the query (`Spec/Protocol.md`, section 1.7).
    public var route: any RouteProvider
    /// The transport that opens WebSockets.
    public var transport: any Transport
    /// Partition-based or flexible sync.
    public var mode: SyncMode
    /// The times for which it waits.
    public var timers = ClientTimers()
    /// The delays between attempts to connect.
    public var backOff = BackOff.ofClients
    /// The space that the downloads of a replica may take on the disk.
    public var space = ReplicaSpace()
    /// Headers of the application for the WebSocket's request.
    public var headers: [(name: String, value: String)] = []
    /// The name of the application for the header `User-Agent`.
    public var application = ""
    /// The logger for events that interest developers.
    public var logger = Logger(label: "anabranch.client", factory: { _ in SwiftLogNoOpLogHandler() })

    /// The usual settings for a route.
    public init(_ route: any RouteProvider, mode: SyncMode = .partition, transport: any Transport = NIOTransport()) {
        self.route = route
        self.mode = mode
        self.transport = transport
    }
}

extension SyncConfiguration {
    /// The origin of a replica, by a name that stays the same when the server or the user changes.
    func origin(of target: SyncTarget) -> String {
        let app: String? =
            switch route {
            case let route as AppRoute: route.appID
            case let route as FixedRoute: route.appID
            default: nil
            }
        let part =
            switch target {
            case .partition(let text):
                "partition \(String(decoding: PartitionValue.canonical(text.utf8), as: UTF8.self))"
            case .flexible: "flexible sync"
            }
        return app.map { "\(part) of app \($0)" } ?? part
    }
}

/// Tells a client the URL of its server, with the token of its user.
public protocol RouteProvider: Sendable {
    /// The URL of the WebSocket, with a valid token.
    ///
    /// - Parameter news: the server's response to the last URL.
    /// - Throws: `SyncError` with the code `loggedOut` if the user has to log in again; after any other error the
    ///   client tries again.
    func url(_ news: RouteNews) async throws -> String

    /// Called when the server has ended the user's log-in.
    func userIsLoggedOut() async
}

/// The server's response to the last route, passed when another one is requested.
public enum RouteNews: Sendable {
    /// Nothing has changed: the last route is still valid.
    case none
    /// The token is not accepted.
    case tokenIsBad
    /// The server may have moved.
    case serverHasMoved
}

/// The route to a server that always has the same URL, and needs no token or always the same one.
public struct FixedRoute: RouteProvider {
    private let text: String

    /// A route that never changes.
    /// - Parameter url: `ws` or `wss`, with the path, and the token if there is one, in the query.
    public init(_ url: String) { text = url }

    /// A route to an app of a server.
    /// - Parameters:
    ///   - server: scheme, host and port, as `ws://127.0.0.1:9090` or `wss://sync.example.com`.
    ///   - app: the id of the app.
    ///   - token: an access token; empty for servers that accept clients without one.
    public init(server: String, app: String, token: String = "") {
        text = "\(AppLocation.withoutSlashes(server))/api/client/v2.0/app/\(app)/realm-sync?baas_at=\(token)"
    }

    /// The app that the URL names; nil if it names none.
    var appID: String? { text.firstMatch(of: #/\/app\/([^\/?]+)\/realm-sync/#).map { String($0.output.1) } }

    /// The URL; the error `loggedOut` if its token was not accepted.
    public func url(_ news: RouteNews) throws -> String {
        guard case .tokenIsBad = news else { return text }
        let hasToken = text.firstRange(of: "baas_at=").map { $0.upperBound < text.endIndex } ?? false
        throw SyncError(
            .loggedOut,
            hasToken ? "the server does not accept the token" : "the server wants a log-in, and nobody is logged in")
    }

    /// Does nothing, since there is no user.
    public func userIsLoggedOut() {}
}

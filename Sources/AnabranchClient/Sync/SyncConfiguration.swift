import AnabranchCore
public import AnabranchProtocol
public import Logging

/// How a `SyncClient` reaches its server.
public struct SyncConfiguration: Sendable {
    /// Where the server's WebSocket is, with the token in the query (`Spec/Protocol.md`, section 1.7).
    public var route: any RouteProvider
    /// What opens WebSockets.
    public var transport: any Transport
    /// Partition-based or flexible sync.
    public var mode: SyncMode
    /// How long it waits for what.
    public var timers = ClientTimers()
    /// The delays between attempts to connect.
    public var backOff = BackOff.ofClients
    /// How much of the disk the downloads of a replica may take.
    public var space = ReplicaSpace()
    /// Headers of the application for the WebSocket's request.
    public var headers: [(name: String, value: String)] = []
    /// The name of the application for the header `User-Agent`.
    public var application = ""
    /// What happens, for developers.
    public var logger = Logger(label: "anabranch.client", factory: { _ in SwiftLogNoOpLogHandler() })

    /// Puts the parts together.
    public init(_ route: any RouteProvider, mode: SyncMode = .partition, transport: any Transport = NIOTransport()) {
        self.route = route
        self.mode = mode
        self.transport = transport
    }
}

extension SyncConfiguration {
    /// What a replica is synchronized with, by a name that stays the same when server or user change.
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

/// Tells where the server is, and as whom a client comes.
public protocol RouteProvider: Sendable {
    /// The URL of the WebSocket, with a token that is good.
    ///
    /// - Parameter news: what the server has said about the last one.
    /// - Throws: `SyncError` with the code `loggedOut` if the user has to log in again; any other error is tried again.
    func url(_ news: RouteNews) async throws -> String

    /// The server has said that the user is not welcome any more.
    func userIsLoggedOut() async
}

/// Why a route is asked for.
public enum RouteNews: Sendable {
    /// For no reason: what was said last is as good as anything.
    case none
    /// The token is not accepted.
    case tokenIsBad
    /// The server may be somewhere else.
    case serverHasMoved
}

/// A server that is always in the same place, and wants no token, or always the same.
public struct FixedRoute: RouteProvider {
    private let text: String

    /// A route that never changes.
    /// - Parameter url: `ws` or `wss`, with the path, and the token if there is one, in the query.
    public init(_ url: String) { text = url }

    /// A route to an app of a server.
    /// - Parameters:
    ///   - server: scheme, host and port, as `ws://127.0.0.1:9090` or `wss://sync.example.com`.
    ///   - app: the id of the app.
    ///   - token: an access token; empty for servers that take clients without one.
    public init(server: String, app: String, token: String = "") {
        text = "\(AppLocation.withoutSlashes(server))/api/client/v2.0/app/\(app)/realm-sync?baas_at=\(token)"
    }

    /// The app that the URL names; nil if it names none.
    var appID: String? { text.firstMatch(of: #/\/app\/([^\/?]+)\/realm-sync/#).map { String($0.output.1) } }

    /// The URL; the error `loggedOut` if its token is bad.
    public func url(_ news: RouteNews) throws -> String {
        if case .tokenIsBad = news { throw SyncError(.loggedOut, "the server does not accept the token") }
        return text
    }

    /// There is no user.
    public func userIsLoggedOut() {}
}

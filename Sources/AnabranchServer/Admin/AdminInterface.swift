import AnabranchCore
import AnabranchHistory
import NIOCore

/// Where the admin interface listens, and what it spends.
public struct AdminSettings: Sendable {
    /// The name or address to listen on.
    public var host = "127.0.0.1"
    /// The TCP port; 0 lets the system choose one.
    public var port = 0
    /// Whether it speaks TLS, with the server's certificate.
    public var isSecure = false
    /// Connections at one time; more are closed as soon as they are accepted.
    public var connectionsMax = 64
    /// Elements of one answer to a listing; whoever wants more asks again.
    public var listingCountMax = 1_000

    public init() {}
}

/// What lets an operator look into a running server and intervene: HTTP on a listener of its own, behind a token
/// (`Spec/Admin.md`).
public struct AdminInterface: Sendable {
    let settings: AdminSettings
    let token: AdminToken
    let catalog: any HistoryCatalog
    let accounts: any AccountStore
    let metrics: PrometheusMetrics
    let onListening: @Sendable (SocketAddress) -> Void

    /// - Parameters:
    ///   - catalog: what is in the server's store.
    ///   - accounts: the users of the server's apps.
    ///   - metrics: what the server counts with.
    ///   - onListening: told once where the interface listens, before the server serves anybody.
    public init(
        settings: AdminSettings, token: AdminToken, catalog: any HistoryCatalog, accounts: any AccountStore,
        metrics: PrometheusMetrics, onListening: @escaping @Sendable (SocketAddress) -> Void = { _ in }
    ) {
        self.settings = settings
        self.token = token
        self.catalog = catalog
        self.accounts = accounts
        self.metrics = metrics
        self.onListening = onListening
    }
}

/// A running server as the admin interface sees it.
struct ServerOperations: Sendable {
    let connections: ConnectionRegistry
    let files: StoreThreads
    /// How many sockets of clients are open.
    let socketCount: @Sendable () -> Int
    /// Whether clients are served: not before the server listens, and no longer once it begins to end.
    let isServing: @Sendable () -> Bool
}

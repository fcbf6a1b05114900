import AnabranchCore
public import AnabranchHistory
public import NIOCore

/// The listener of the admin interface, and its limits (`Spec/Admin.md`, section 1).
public struct AdminSettings: Sendable {
    /// The name or address to listen on.
    public var host = "127.0.0.1"
    /// The TCP port; 0 lets the system choose one.
    public var port = 0
    /// True if the interface uses TLS, with the server's certificate.
    public var isSecure = false
    /// The most connections at one time. For each further one, a connection that has not shown the token yet is closed;
    /// if there is none, the new one itself.
    public var connectionsMax = 64
    /// The apps that users can be added to; nil if every app id names one.
    public var apps: Set<String>?
    /// The names of the providers of each app, by which its users can log in: the answer to a new user says which of
    /// the user's are not among them. An app that is not here has all.
    package var providers: [String: Set<String>] = [:]
    /// The most elements in one response to a listing. Further ones take further requests.
    public var listingCountMax = 1_000

    /// Settings with a port that the system chooses, on the loopback address, without TLS.
    public init() {}
}

/// An HTTP interface by which an operator looks into a running server and intervenes: on a listener of its own,
/// protected by a token (`Spec/Admin.md`).
public struct AdminInterface: Sendable {
    let settings: AdminSettings
    let token: AdminToken
    let catalog: any HistoryCatalog
    let accounts: any AccountStore
    let metrics: PrometheusMetrics
    let onListening: @Sendable (SocketAddress) -> Void
    /// Makes the web pages that the listener serves in addition to its endpoints; nil for none.
    package var makePages: (@Sendable (AdminAccess) -> any AdminPages)?

    /// An interface to a server with these stores.
    /// - Parameters:
    ///   - catalog: lists what is in the server's store.
    ///   - accounts: the users of the server's apps.
    ///   - metrics: the server's counters.
    ///   - onListening: called once with the address of the interface, before the server serves clients.
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
    let files: FileQueues
    /// The number of open sockets of clients.
    let socketCount: @Sendable () -> Int
    /// True while clients are served: from the moment the server listens until it begins to shut down.
    let isServing: @Sendable () -> Bool
    let doors: [any RecordDoor]
    let modes: AppModes
    /// The first second since 1970 at which clients refuse the certificate; nil if there is none.
    let certificateEnd: @Sendable () -> Int?
    /// The clock, in seconds since 1970.
    let unixSeconds: @Sendable () -> UInt64
}

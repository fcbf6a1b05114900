import AnabranchHistory
import Logging
import Metrics
import NIOCore
import NIOPosix
import ServiceLifecycle

/// A sync server for Realm clients: sockets in front, synced files behind (`Spec/Protocol.md`, `Spec/History.md`).
///
/// Serves while `run` runs. A graceful shutdown of its service group, or cancellation, ends it in order: no new
/// connections, what clients have uploaded is committed and acknowledged, WebSockets are closed, threads end.
public final class SyncServer: Service {
    private let settings: ServerSettings
    private let store: any HistoryStore
    private let authenticator: any Authenticator
    private let endpoints: any HTTPEndpoints
    private let rights: any Rights
    private let tls: TLSFiles?
    private let unixSeconds: @Sendable () -> UInt64
    private let logger: Logger
    private let onListening: @Sendable (SocketAddress) -> Void
    private let metrics: WireMetrics

    /// - Parameters:
    ///   - store: where the synced files are. It stays open when the server has ended.
    ///   - authenticator: decides who may connect.
    ///   - endpoints: what answers HTTP requests; nil if there is nothing but the sync protocol.
    ///   - rights: what clients may do.
    ///   - tls: certificate and key; nil to listen without TLS.
    ///   - unixSeconds: the clock, in seconds since 1970.
    ///   - onListening: told once where the server listens, as soon as it does.
    ///   - metrics: what the server counts with.
    public init(
        settings: ServerSettings, store: any HistoryStore, authenticator: any Authenticator,
        endpoints: (any HTTPEndpoints)? = nil, rights: any Rights = AllRights(), tls: TLSFiles? = nil, logger: Logger,
        metrics: any MetricsFactory = MetricsSystem.factory, unixSeconds: @escaping @Sendable () -> UInt64,
        onListening: @escaping @Sendable (SocketAddress) -> Void = { _ in }
    ) {
        self.metrics = WireMetrics(factory: metrics)
        self.settings = settings
        self.store = store
        self.authenticator = authenticator
        self.endpoints = endpoints ?? NoEndpoints()
        self.rights = rights
        self.tls = tls
        self.logger = logger
        self.unixSeconds = unixSeconds
        self.onListening = onListening
    }

    /// - Throws: why the server cannot listen.
    public func run() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: settings.eventLoopThreads)
        let table = ConnectionTable()
        let stores = StoreThreads(count: settings.storeThreads, hubs: makeHubs) { table.deliver($0) }
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await serve(on: group, table, stores))
        } catch {
            outcome = .failure(error)
        }
        try await stores.shutDown()
        try await group.shutdownGracefully()
        try outcome.get()
    }

    private func serve(on group: MultiThreadedEventLoopGroup, _ table: ConnectionTable, _ stores: StoreThreads)
        async throws
    {
        let sockets = Sockets(countMax: settings.connectionsMax)
        let listener = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { [self] channel in
                channel.eventLoop.makeCompletedFuture {
                    guard sockets.admit(channel) else { return channel.close(promise: nil) }
                    try open(channel, table, stores)
                }
            }
            .bind(host: settings.host, port: settings.port).get()
        if let address = listener.localAddress {
            logger.info("listening", metadata: ["address": "\(address)"])
            onListening(address)
        }
        try await withTaskCancellationOrGracefulShutdownHandler {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { [self] in await watch(table) }
                try await listener.closeFuture.get()
                group.cancelAll()
            }
        } onCancelOrGracefulShutdown: {
            listener.close(promise: nil)
        }
        logger.info("shutting down")
        await sockets.end(within: .seconds(settings.shutdownSecondsMax), on: group.any())
    }

    /// Once a second: what has changed on disk, or in the embedder's mind, takes effect.
    private func watch(_ table: ConnectionTable) async {
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            await tls?.refresh()
            if await rights.refresh() { table.forEach { $0.recheckRights() } }
        }
    }

    /// A new socket begins as HTTP; `FrontDoor` lets it become a WebSocket.
    private func open(_ channel: any Channel, _ table: ConnectionTable, _ stores: StoreThreads) throws {
        if let tls { try channel.pipeline.syncOperations.addHandler(tls.makeHandler()) }
        let door = FrontDoor(
            authenticator: authenticator, endpoints: endpoints, settings: settings, isSecure: tls != nil
        ) { [self] channel, visitor in
            let ident = table.newIdent()
            var logger = logger
            logger[metadataKey: "connection"] = "\(ident)"
            let connection = SyncConnection(
                ident, negotiation: visitor.handshake.negotiation, member: visitor.member, rights: rights,
                limits: settings.limits, metrics: metrics, logger: logger)
            let pulse = Pulse()
            let handler = SyncHandler(
                connection, visitor, pulse: pulse, settings: settings, table: table, stores: stores, logger: logger)
            try channel.pipeline.syncOperations.addHandler(pulse, position: .first)
            try channel.pipeline.syncOperations.addHandler(handler)
        }
        try FrontDoor.install(door, in: channel, frameBytesMax: settings.limits.messageBytesMax)
    }

    private func makeHubs() -> sending FileHubs {
        FileHubs(
            store: store, limits: settings.limits, backlogBytesMax: settings.backlogBytesMax,
            sharedBodiesBytesMax: settings.sharedBodiesBytesMax, metrics: metrics, logger: logger,
            unixSeconds: unixSeconds)
    }
}

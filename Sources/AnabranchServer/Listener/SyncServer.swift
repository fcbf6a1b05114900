import AnabranchHistory
import Logging
import Metrics
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization

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
    private let doorMetrics: DoorMetrics
    private let admin: AdminInterface?
    private let newFiles = AttemptCounter()
    /// The threads of the files, as long as the server runs.
    let stores = Mutex<StoreThreads?>(nil)

    /// - Parameters:
    ///   - store: where the synced files are. It stays open when the server has ended.
    ///   - authenticator: decides who may connect.
    ///   - endpoints: what answers HTTP requests; nil if there is nothing but the sync protocol.
    ///   - rights: what clients may do.
    ///   - tls: certificate and key; nil to listen without TLS.
    ///   - unixSeconds: the clock, in seconds since 1970.
    ///   - onListening: told once where the server listens, as soon as it does.
    ///   - metrics: what the server counts with.
    ///   - admin: how an operator looks in and intervenes; nil if nobody shall.
    public init(
        settings: ServerSettings, store: any HistoryStore, authenticator: any Authenticator,
        endpoints: (any HTTPEndpoints)? = nil, rights: any Rights = AllRights(), tls: TLSFiles? = nil, logger: Logger,
        metrics: any MetricsFactory = MetricsSystem.factory, admin: AdminInterface? = nil,
        unixSeconds: @escaping @Sendable () -> UInt64,
        onListening: @escaping @Sendable (SocketAddress) -> Void = { _ in }
    ) {
        self.metrics = WireMetrics(factory: metrics)
        doorMetrics = DoorMetrics(factory: metrics)
        self.admin = admin
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
        let stores = StoreThreads(
            count: settings.storeThreads, waitingBytesMax: settings.allWaitingBytesMax, hubs: makeHubs
        ) { table.deliver($0) }
        self.stores.withLock { $0 = stores }
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await serve(on: group, table, stores))
        } catch {
            outcome = .failure(error)
        }
        self.stores.withLock { $0 = nil }
        try await stores.shutDown()
        try await group.shutdownGracefully()
        try outcome.get()
    }

    private func serve(on group: MultiThreadedEventLoopGroup, _ table: ConnectionTable, _ stores: StoreThreads)
        async throws
    {
        let sockets = Sockets(
            countMax: settings.connectionsMax, countPerAddressMax: settings.connectionsPerAddressMax)
        let users = Crowd(countMax: settings.connectionsPerUserMax)
        let isServing = Flag()
        let adminListener = try await serveOperator(
            on: group, ServerOperations(table: table, stores: stores, sockets: sockets, isServing: isServing))
        let listener = try await listen(host: settings.host, port: settings.port, on: group) { [self] channel in
            doorMetrics.connectionsAccepted.increment()
            do throws(Sockets.Refusal) {
                try sockets.admit(channel)
            } catch {
                doorMetrics.turnedAway(error.rawValue)
                return channel.close(promise: nil)
            }
            try open(channel, users, table, stores)
        }
        isServing.isSet = true
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
        isServing.isSet = false
        await sockets.end(within: .seconds(settings.shutdownSecondsMax), on: group.any())
        try await adminListener?.close()
    }

    private func listen(
        host: String, port: Int, on group: MultiThreadedEventLoopGroup,
        _ accept: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> any Channel {
        try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try accept(channel) }
            }
            .bind(host: host, port: port).get()
    }

    /// The admin interface listens before the server does, and until the last client is gone.
    private func serveOperator(
        on group: MultiThreadedEventLoopGroup, _ operations: ServerOperations
    ) async throws -> (any Channel)? {
        guard let admin else { return nil }
        let visitors = Sockets(countMax: admin.settings.connectionsMax)
        let endpoints = AdminEndpoints(admin: admin, server: operations, logger: logger)
        let tls = admin.settings.isSecure ? self.tls : nil
        let listener = try await listen(host: admin.settings.host, port: admin.settings.port, on: group) {
            [self] channel in
            guard (try? visitors.admit(channel)) != nil else { return channel.close(promise: nil) }
            let pipeline = channel.pipeline.syncOperations
            if let tls { try pipeline.addHandler(tls.makeHandler()) }
            try pipeline.configureHTTPServerPipeline()
            // Its answers are not counted among the clients'.
            try pipeline.addHandler(
                HTTPHandler(
                    endpoints: endpoints, settings: settings, isSecure: tls != nil,
                    metrics: DoorMetrics(factory: NOOPMetricsHandler.instance)))
        }
        if let address = listener.localAddress {
            logger.info("admin interface listening", metadata: ["address": "\(address)"])
            admin.onListening(address)
        }
        return listener
    }

    /// Once a second: what has changed on disk, or in the embedder's mind, takes effect; and now and then, whose login
    /// has ended goes.
    private func watch(_ table: ConnectionTable) async {
        var seconds: Int64 = 0
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            await tls?.refresh()
            if await rights.refresh() { table.forEach { $0.recheckRights() } }
            seconds += 1
            if seconds % max(1, settings.loginCheckSecondsMax) == 0 { await checkLogins(table) }
        }
    }

    private func checkLogins(_ table: ConnectionTable) async {
        let logins = Set(await table.ask { $0.login }.compactMap(\.answer))
        guard !logins.isEmpty else { return }
        let ended = await authenticator.ended(among: logins)
        guard !ended.isEmpty else { return }
        let answers = await table.ask { handler in
            guard let login = handler.login, ended.contains(login) else { return false }
            handler.endLogin()
            return true
        }
        doorMetrics.ended(answers.count { $0.answer })
    }

    /// A new socket begins as HTTP; `FrontDoor` lets it become a WebSocket.
    private func open(
        _ channel: any Channel, _ users: Crowd, _ table: ConnectionTable, _ stores: StoreThreads
    ) throws {
        if let tls { try channel.pipeline.syncOperations.addHandler(tls.makeHandler()) }
        let door = FrontDoor(authenticator: authenticator, users: users, metrics: doorMetrics) {
            [self] channel, visitor in
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
        try door.install(in: channel, endpoints: endpoints, settings: settings, isSecure: tls != nil)
    }

    private func makeHubs() -> sending FileHubs {
        FileHubs(
            store: store, limits: settings.limits, backlogBytesMax: settings.backlogBytesMax,
            sharedBodiesBytesMax: settings.sharedBodiesBytesMax, newFiles: newFiles,
            newFilesPerMinuteMax: settings.newFilesPerMinuteMax, metrics: metrics, logger: logger,
            unixSeconds: unixSeconds)
    }
}

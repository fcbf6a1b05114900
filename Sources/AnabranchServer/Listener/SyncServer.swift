public import AnabranchHistory
import AnabranchProtocol
public import Foundation
public import Logging
public import Metrics
public import NIOCore
import NIOPosix
public import ServiceLifecycle
import Synchronization

/// A sync server for Realm clients: sockets on one side, synced files on the other (`Spec/Protocol.md`,
/// `Spec/History.md`).
///
/// Serves while `run` runs. A graceful shutdown of its service group, or cancellation, ends it in order: it accepts no
/// new connections, commits and acknowledges what clients have uploaded, closes the WebSockets and ends its threads.
public final class SyncServer: Service {
    let settings: ServerSettings
    let store: any HistoryStore
    let authenticator: any Authenticator
    private let routes: HTTPRoutes
    let wires: [any TextWire]
    let authorizer: any Authorizer
    let exports: AppExports?
    let tls: TLSFiles?
    let unixSeconds: @Sendable () -> UInt64
    let logger: Logger
    private let onListening: @Sendable (SocketAddress) -> Void
    let metrics: SyncMetrics
    let connectionMetrics: ConnectionMetrics
    let admin: AdminInterface?
    let refusedTokens = RefusedTokens()
    let refusals: RecentRefusals
    private let expiredTokens: ExpiredTokens
    private let modes: AppModes
    private let newFiles: UserQuota
    private let newClientFiles: UserQuota
    private let queryTime: UserQuota
    /// To send long messages while memory is short.
    let turns = UserTurns()
    /// The synced files; nil unless the server runs.
    let files = Mutex<FileQueues?>(nil)
    let doors = Mutex<[any RecordDoor]>([])
    private let listeningState = ListeningState()
    /// True while clients are served: from the moment when the server listens until its shutdown begins.
    let isServing = Atomic(false)

    /// Creates a server; `run` starts it.
    /// - Parameters:
    ///   - store: holds the synced files. It stays open when the server has ended.
    ///   - authenticator: decides who may connect.
    ///   - routes: answer the HTTP requests that open no WebSocket (`Spec/Server.md`, section 7); empty for the sync
    ///     protocol alone. No two have the same prefix.
    ///   - wires: serve WebSockets of text messages, in addition to Realm's (`Spec/Server.md`, section 8).
    ///   - authorizer: decides what users may read and write. By default, each user whom the authenticator admits may
    ///     read and write everything.
    ///   - exports: give the roles of apps of flexible sync; users of an app without an export may do everything.
    ///   - tls: certificate and key; nil to listen without TLS.
    ///   - metrics: makes the server's counters.
    ///   - admin: the interface for an operator; nil for none.
    ///   - unixSeconds: the clock, in seconds since 1970.
    ///   - onListening: called once with the address, as soon as the server listens; `listening()` can be awaited.
    public init(
        settings: ServerSettings, store: any HistoryStore, authenticator: any Authenticator,
        routes: [HTTPRoute] = [], wires: [any TextWire] = [], authorizer: any Authorizer = AllowAllAuthorizer(),
        exports: AppExports? = nil, tls: TLSFiles? = nil,
        logger: Logger = Logger(label: "anabranch"),
        metrics: any MetricsFactory = MetricsSystem.factory, admin: AdminInterface? = nil,
        unixSeconds: @escaping @Sendable () -> UInt64 = { UInt64(Date().timeIntervalSince1970) },
        onListening: @escaping @Sendable (SocketAddress) -> Void = { _ in }
    ) {
        self.metrics = SyncMetrics(factory: metrics)
        connectionMetrics = ConnectionMetrics(factory: metrics)
        self.admin = admin
        self.settings = settings
        expiredTokens = ExpiredTokens(unixSeconds: unixSeconds)
        refusals = RecentRefusals(unixSeconds: unixSeconds)
        modes = AppModes(settings, store: store, logger: logger)
        newFiles = UserQuota(perMinuteMax: settings.newFilesPerMinuteMax)
        newClientFiles = UserQuota(perMinuteMax: settings.newClientFilesPerMinuteMax)
        queryTime = UserQuota(perMinuteMax: settings.queryMillisecondsPerMinuteMax)
        self.store = store
        self.authenticator = authenticator
        self.routes = HTTPRoutes(routes)
        self.wires = wires
        self.authorizer = authorizer
        self.exports = exports
        self.tls = tls
        self.logger = logger
        self.unixSeconds = unixSeconds
        self.onListening = onListening
    }

    /// Serves until the task is cancelled or its service group shuts down.
    /// - Throws: `ListenError` if the server cannot listen.
    public func run() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: settings.eventLoopThreads)
        let connections = ConnectionRegistry()
        let environment: FileEnvironment
        do {
            environment = makeEnvironment(try await fileNames())
        } catch {
            listeningState.set(.failure(error))
            throw error
        }
        // One is left for short turns.
        let files = FileQueues(environment, threads: settings.workerThreads + 1) { connections.deliver($0) }
        self.files.withLock { $0 = files }
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await serve(on: group, connections, files))
            listeningState.set(.failure(SyncServerError.notRunning))
        } catch {
            outcome = .failure(error)
            listeningState.set(.failure(error))
        }
        self.files.withLock { $0 = nil }
        try await files.shutDown()
        try await group.shutdownGracefully()
        try outcome.get()
    }

    /// Waits until clients can connect.
    /// - Returns: the address, with the port that the system has chosen if the settings leave that to it.
    /// - Throws: the reason why `run` could not listen; `SyncServerError.notRunning` if it has ended;
    ///   `CancellationError`.
    @discardableResult
    public func listening() async throws -> SocketAddress { try await listeningState.outcome() }

    private func serve(
        on group: MultiThreadedEventLoopGroup, _ connections: ConnectionRegistry, _ files: FileQueues
    ) async throws {
        let channels = OpenChannels(
            countMax: settings.connectionsMax, countPerAddressMax: settings.connectionsPerAddressMax)
        let users = ConnectionLimit(countMax: settings.connectionsPerUserMax)
        let bodyMemory = budget("bodies", bytesMax: settings.bodyMemoryBytesMax)
        let outboxes = RequestOutboxes(to: files)
        let texts = textUpgrade(users: users, connections, memory: files.messageMemory)
        let operations = ServerOperations(
            connections: connections, files: files, socketCount: { channels.count },
            isServing: { [self] in isServing.load(ordering: .acquiring) }, doors: doors.withLock { $0 },
            modes: modes, certificateEnd: { [tls] in tls?.end }, unixSeconds: unixSeconds)
        let adminListener = try await listenForOperator(on: group, operations)
        let listener = try await listen(host: settings.host, port: settings.port, on: group) { [self] channel in
            connectionMetrics.connectionsAccepted.increment()
            let origin = ClientOrigin(of: channel, settings)
            do throws(OpenChannels.LimitError) {
                try channels.admit(channel, from: origin.isProxy ? nil : origin.address)
            } catch {
                connectionMetrics.turnedAway(error.rawValue)
                return channel.close(promise: nil)
            }
            if origin.isProxy, settings.usesProxyProtocol { try readProxyHeader(of: channel, origin, channels) }
            try open(channel, origin, channels, users, bodyMemory, connections, outboxes, texts)
        }
        store.listen { [weak files] path in
            if let path { files?.notify(path, .follow) } else { files?.follow() }
        }
        isServing.store(true, ordering: .releasing)
        if let address = listener.localAddress {
            logger.info("listening", metadata: ["address": "\(address.hostAndPort ?? "")"])
            listeningState.set(.success(address))
            onListening(address)
        }
        try await withTaskCancellationOrGracefulShutdownHandler {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { [self] in await refreshEverySecond(connections, files.environment.space) }
                group.addTask {
                    while (try? await Task.sleep(for: .seconds(1))) != nil {
                        files.writeProgress()
                        files.follow()
                    }
                }
                group.addTask { [self] in await maintainEveryDay(files) }
                group.addTask { [self] in await maintainStoreEveryDay(files) }
                group.addTask { [self] in await recordClockEveryMinute(files.environment.clock) }
                try await listener.closeFuture.get()
                group.cancelAll()
            }
        } onCancelOrGracefulShutdown: {
            listener.close(promise: nil)
        }
        logger.info("shutting down")
        isServing.store(false, ordering: .releasing)
        files.endLongMerges()
        await channels.end(within: .seconds(settings.shutdownSecondsMax), on: group.any())
        try await adminListener?.close()
    }

    func listen(
        host: String, port: Int, on group: MultiThreadedEventLoopGroup,
        _ accept: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> any Channel {
        do {
            return try await ServerBootstrap(group: group)
                .serverChannelOption(.backlog, value: 256)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .childChannelOption(.maxMessagesPerRead, value: 1)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture { try accept(channel) }
                }
                .bind(host: host, port: port).get()
        } catch {
            throw ListenError(host: host, port: port, error)
        }
    }

    private func readProxyHeader(
        of channel: any Channel, _ origin: ClientOrigin, _ channels: OpenChannels
    ) throws {
        let handler = ProxyHeaderHandler { [connectionMetrics] header in
            guard case .client(let address) = header else { return }
            origin.address = address
            do throws(OpenChannels.LimitError) { try channels.admit(address, until: channel.closeFuture) } catch {
                connectionMetrics.turnedAway(error.rawValue)
                channel.close(promise: nil)
            }
        } onError: { [connectionMetrics, logger] error in
            let proxy = origin.address?.hostAndPort ?? "unknown"
            connectionMetrics.refusalLines.log(
                "connection refused", from: origin.address?.client, ["reason": "\(error)", "proxy": "\(proxy)"],
                to: logger)
        }
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// Sets up a new socket: HTTP first, and the sync protocol once a handshake was accepted.
    private func open(
        _ channel: any Channel, _ origin: ClientOrigin, _ channels: OpenChannels, _ users: ConnectionLimit,
        _ bodyMemory: MemoryBudget, _ connections: ConnectionRegistry, _ outboxes: RequestOutboxes,
        _ texts: TextUpgrade?
    ) throws {
        if let tls { try channel.pipeline.syncOperations.addHandler(tls.makeHandler()) }
        let upgrade = WebSocketUpgrade(
            authenticator: authenticator, origin: origin, addresses: channels, users: users,
            basePath: settings.basePath, messageBytesMax: settings.limits.messageBytesMax,
            metrics: connectionMetrics, logger: logger, dialects: [.realm] + settings.forks,
            expiredTokens: expiredTokens, mode: modes.mode(ofApp:), refusals: refusals, text: texts
        ) { [self] channel, handshake in
            let id = connections.newID()
            var logger = logger
            logger[metadataKey: "connection"] = "\(id)"
            let connection = SyncConnection(
                id, negotiation: handshake.negotiation, principal: handshake.principal, authorizer: authorizer,
                names: outboxes.files.environment.names, limits: settings.limits,
                asksBeforeMarks: outboxes.files.environment.store.isShared, metrics: metrics, logger: logger,
                refusals: refusals)
            let silence = SilenceDetector(limit: .milliseconds(settings.limits.silenceMillisecondsMax))
            let stallLimit = TimeAmount.milliseconds(settings.limits.stallMillisecondsMax)
            let onStall = onStall(logger)
            let memory = MessageMemory(
                messageBytesMax: settings.limits.messageBytesMax,
                queryBytesMax: handshake.negotiation.mode == .flexible ? settings.limits.queryBytesMax : 0,
                limit: stallLimit,
                budget: outboxes.files.messageMemory,
                turns: turns.turns(of: handshake.principal.qualifiedName, until: channel.closeFuture)
            ) { onStall("sending the rest of a long message") }
            let stall = StallDetector(limit: stallLimit, requiredBytes: { memory.outboundBytesMin }) {
                onStall("reading")
            }
            let handler = SyncHandler(
                connection, handshake, silence: silence, memory: memory, settings: settings, connections: connections,
                outbox: outboxes.outbox(of: channel.eventLoop), logger: logger)
            try channel.pipeline.syncOperations.addHandlers([stall, silence, memory], position: .first)
            let pace = ReadThrottle { [connectionMetrics] in connectionMetrics.readingsDelayed.increment() }
            try channel.pipeline.syncOperations.addHandlers([pace, handler])
        }
        try HTTPHandler.install(
            in: channel, from: origin, settings: settings, isSecure: tls != nil, metrics: connectionMetrics,
            logger: logger, users: users, bodyMemory: bodyMemory, upgrade: upgrade,
            route: { [routes] head in routes.route(of: head) })
    }

    func budget(_ name: String, bytesMax: Int) -> MemoryBudget {
        MemoryBudget(bytesMax: bytesMax) { [connectionMetrics] in connectionMetrics.waitedForMemory(of: name) }
    }

    private func makeEnvironment(_ names: FileNames) -> FileEnvironment {
        let settings = settings
        var options = FileOptions()
        options.limits = settings.limits
        options.backlogBytesMax = settings.backlogBytesMax
        options.objectBytesMax = settings.objectBytesMax
        options.adoptsUnownedClientFiles = settings.adoptsUnownedClientFiles
        options.destructiveSchema = { settings.destructiveSchema(of: $0) }
        options.isFlexible = { [modes] in modes.isFlexible($0) }
        options.onFirstChange = { [modes] in modes.decide(by: $0) }
        options.onDeletion = { [modes] in modes.forget($0) }
        options.export = { [exports] path in exports?.export(of: String(decoding: path.bytes, as: UTF8.self)) }
        let doors = doors.withLock { $0 }
        options.observers = { path in doors.compactMap { $0.observer(of: path) } }
        options.newFiles = newFiles
        options.newClientFiles = newClientFiles
        options.queryTime = queryTime
        options.sharedBodiesBytesMax = settings.sharedBodiesBytesMax
        options.cachesBytesMax = settings.cachesBytesMax
        options.reservedBytes = settings.freeBytesMin
        options.storeBytesMax = settings.storeBytesMax
        options.clientClockSecondsMax = settings.clientClockSecondsMax
        options.history = settings.history
        return FileEnvironment(
            store: store, names: names, committerThreads: settings.committerThreads, options: options, metrics: metrics,
            logger: logger,
            budget: budget("uploads", bytesMax: settings.allWaitingBytesMax),
            messageMemory: budget("messages", bytesMax: settings.messageMemoryBytesMax), unixSeconds: unixSeconds)
    }
}

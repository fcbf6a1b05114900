import AnabranchFilesWire
import AnabranchHistory
import AnabranchInspector
import AnabranchServer
import AnabranchOverTheAirWire
import AnabranchSimperiumWire
import ArgumentParser
import CommandSupport
import Foundation
import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serve Realm clients until SIGTERM or SIGINT.",
        discussion: """
            Apps log in below /api/client/v2.0 and connect by WebSocket to /api/client/v2.0/app/<id>/realm-sync. The \
            configuration file names the apps and how their users log in; without apps nobody is let in, unless \
            user-without-token names the user of those without a token. --rules says who may read and write what; \
            a server that was told nothing of it does not start. With --dev, which works on \
            loopback addresses only, every app id is accepted, users log in anonymously or with e-mail address and \
            password, and clients that send no token are one fixed user.

            The first line on standard output says where the server listens. The log goes to standard error; the line \
            `ready` has the base URL for apps, and where the inspector is: pages that show data and history in a \
            browser (Spec/Inspector.md). \
            Everything acknowledged to a client is in the data directory, which one process at a time can use; or in \
            PostgreSQL with --store (Spec/Postgres.md), so that a spare server on another machine can take over.

            Each setting can also be in the environment (ANABRANCH_LISTEN for --listen) or in the file (listen: ...). \
            `anabranch config print` shows the result, `anabranch config check` what is wrong with it.

            EXAMPLES
              anabranch serve --dev --data ./data --listen 127.0.0.1:9090
              anabranch serve --config /etc/anabranch.yaml
              anabranch serve --config anabranch.yaml --rules everybody \\
                  --listen 0.0.0.0:9090 --insecure
              PGPASSWORD=… anabranch serve --config anabranch.yaml \\
                  --store postgres://anabranch@db.example.com/anabranch
            """)

    @OptionGroup var options: ConfigurationOptions

    func run() async throws {
        let sources = options.sources(), configuration = try Configuration(sources)
        let missing = configuration.missingPermissions
        guard missing.isEmpty else { throw InputError(description: missing.joined(separator: "\n")) }
        MemoryAllocation.giveBackWhatIsFree()
        let trail = AuditTrail(inDirectory: configuration.data)
        var logger = Logger(
            label: "anabranch", factory: { _ in AuditHandler(configuration.logFormat.handler(), trail) })
        logger.logLevel = configuration.logLevel
        logger.info("starting", metadata: ["version": "\(BuildInfo.version)", "commit": "\(BuildInfo.commit)"])
        for note in sources.overridden {
            logger.notice("the environment overrides the configuration file", metadata: ["note": "\(note)"])
        }
        for note in sources.misspelt {
            logger.notice("an environment variable is nearly a setting", metadata: ["note": "\(note)"])
        }
        announce(configuration, logger)
        var settings = configuration.server(cores: ProcessInfo.processInfo.activeProcessorCount)
        try raiseOpenFileLimit(for: &settings.connectionsMax, haveChunks: !configuration.files.isEmpty, logger)

        let metrics = PrometheusMetrics()
        metrics.show("anabranch_build_info", [("version", BuildInfo.version), ("commit", BuildInfo.commit)])
        // Before anything is made: a mistake leaves nothing behind.
        var authorizer: any Authorizer = AllowAllAuthorizer()
        if case .file(let path) = configuration.rules {
            authorizer = try await RuleFileAuthorizer(path: path, logger: logger)
        }
        let exports = try await AppExports(directories: configuration.exportPaths, logger: logger)
        let tls = try await NamedFiles.tls(configuration, logger)
        let listen = configuration.listen
        try await listen.check()
        let unixSeconds = { @Sendable in UInt64(max(1, Date().timeIntervalSince1970)) }
        let stores = try await ServedStores(configuration, now: unixSeconds(), logger)
        let (store, accounts) = (stores.files, stores.accounts)
        let apps = try await AppServices(
            settings: configuration.appServices, accounts: accounts, keys: stores.keys,
            emails: configuration.emailSenders, logger: logger, metrics: metrics, unixSeconds: unixSeconds)
        let simperium = simperium(configuration, apps, authorizer, logger, metrics, unixSeconds)
        let overTheAir = overTheAir(configuration, apps, authorizer, logger, unixSeconds)
        let files = files(configuration, store, apps, authorizer, logger, unixSeconds)
        let server = SyncServer(
            settings: settings, store: store, authenticator: apps,
            routes: [HTTPRoute(to: apps)] + (simperium?.routes ?? []) + (overTheAir?.routes ?? [])
                + (files?.routes ?? []),
            wires: simperium.map { [$0.wire] } ?? [],
            authorizer: authorizer, exports: exports, tls: tls, logger: logger, metrics: metrics,
            admin: try admin(configuration, store, accounts, metrics, logger),
            unixSeconds: unixSeconds,
            onListening: { [logger] address in
                let bound = ListenAddress(host: address.ipAddress ?? listen.host, port: address.port ?? listen.port)
                logger.notice("ready", metadata: Self.addresses(configuration, at: bound))
                print("listening on \(bound)")
                fflush(nil)
            })
        simperium?.wire.attach(to: server)
        overTheAir?.attach(to: server)
        files?.attach(to: server)
        let sweeping = Task { await files?.maintain() }
        defer { sweeping.cancel() }
        defer { try? FileManager.default.removeItem(atPath: configuration.adminAddressPath) }
        try await ServiceGroup(
            services: [server], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger
        ).run()
        try stores.close()
    }

    /// The addresses for apps and for a browser.
    private static func addresses(_ configuration: Configuration, at address: ListenAddress) -> Logger.Metadata {
        let scheme = configuration.tlsCertificate == nil ? "http" : "https"
        var addresses: Logger.Metadata = [
            "base-url": "\(configuration.publicURL ?? "\(scheme)://\(address.ofThisMachine)")"
        ]
        guard configuration.inspector != nil, configuration.adminListen != nil,
            let admin = try? AdminAddress(path: configuration.adminAddressPath)
        else { return addresses }
        addresses["inspector"] = "\(admin.url)"
        if configuration.adminToken == nil { addresses["token-file"] = "\(configuration.adminTokenPath)" }
        return addresses
    }

    /// The clock for the times of writes.
    private static let preciseSeconds = { @Sendable in Date().timeIntervalSince1970 }

    /// Simperium's wire, and the routes of its HTTP requests; nil if no app serves its clients.
    private func simperium(
        _ configuration: Configuration, _ apps: AppServices, _ authorizer: any Authorizer, _ logger: Logger,
        _ metrics: PrometheusMetrics, _ unixSeconds: @escaping @Sendable () -> UInt64
    ) -> (wire: SimperiumWire, routes: [HTTPRoute])? {
        guard !configuration.simperium.isEmpty else { return nil }
        var settings = SimperiumSettings()
        settings.apps = configuration.simperium
        let wire = SimperiumWire(
            settings: settings, authenticator: apps, authorizer: authorizer, logger: logger, metrics: metrics,
            unixSeconds: unixSeconds, preciseSeconds: Self.preciseSeconds)
        let data = HTTPRoute(
            "/1", to: SimperiumEndpoints(apps, wire), body: .whole(bytesMax: SimperiumEndpoints.bodyBytesMax))
        return (wire, [data, HTTPRoute("/sock", to: SockJSEndpoints(wire))])
    }

    /// The property-list wire; nil if no app serves its devices.
    private func overTheAir(
        _ configuration: Configuration, _ apps: AppServices, _ authorizer: any Authorizer, _ logger: Logger,
        _ unixSeconds: @escaping @Sendable () -> UInt64
    ) -> OverTheAirWire? {
        guard !configuration.overTheAir.isEmpty else { return nil }
        var settings = OverTheAirSettings()
        settings.apps = configuration.overTheAir.mapValues(\.app)
        settings.giveBackMemory = MemoryAllocation.giveBack
        return OverTheAirWire(
            settings: settings, services: apps, authorizer: authorizer, logger: logger, unixSeconds: unixSeconds,
            preciseSeconds: Self.preciseSeconds)
    }

    /// The contents of files; nil if no app has file spaces.
    private func files(
        _ configuration: Configuration, _ store: any HistoryStore & HistoryCatalog, _ apps: AppServices,
        _ authorizer: any Authorizer, _ logger: Logger, _ unixSeconds: @escaping @Sendable () -> UInt64
    ) -> FilesWire? {
        guard !configuration.files.isEmpty else { return nil }
        var settings = FilesSettings()
        settings.apps = configuration.files
        return FilesWire(
            settings: settings, store: FolderChunkStore(folder: FolderChunkStore.folder(in: configuration.data)),
            catalog: store, authenticator: apps, authorizer: authorizer, logger: logger, unixSeconds: unixSeconds,
            preciseSeconds: Self.preciseSeconds)
    }

    private func admin(
        _ configuration: Configuration, _ store: any HistoryCatalog, _ accounts: any AccountStore,
        _ metrics: PrometheusMetrics, _ logger: Logger
    ) throws -> AdminInterface? {
        guard let listen = configuration.adminListen else { return nil }
        var settings = AdminSettings()
        settings.host = listen.host
        settings.port = listen.port
        settings.isSecure = configuration.tlsCertificate != nil && !listen.isLoopback
        settings.apps = configuration.isDevelopment ? nil : Set(configuration.apps.keys)
        settings.providers =
            configuration.isDevelopment ? [:] : configuration.apps.mapValues { Set($0.providers.map(\.rawValue)) }
        let token =
            try configuration.adminToken.flatMap(AdminToken.init)
            ?? AdminToken(path: configuration.adminTokenPath, logger: logger)
        let scheme = settings.isSecure ? "https" : "http"
        let certificate = settings.isSecure ? configuration.tlsCertificate : nil
        var admin = AdminInterface(
            settings: settings, token: token, catalog: store, accounts: accounts, metrics: metrics,
            onListening: { address in
                let bound = ListenAddress(host: address.ipAddress ?? listen.host, port: address.port ?? listen.port)
                let url = "\(scheme)://\(bound.ofThisMachine)"
                if configuration.inspector != nil {
                    logger.notice("the inspector shows the server in a browser", metadata: ["url": "\(url)"])
                }
                do {
                    try AdminAddress(url: url, certificate: certificate)
                        .write(to: configuration.adminAddressPath)
                } catch {
                    logger.warning("the admin interface is not announced", metadata: ["error": "\(error)"])
                }
            })
        if let mode = configuration.inspector {
            admin.makePages = {
                Inspector(
                    of: $0, mode: mode, version: BuildInfo.version, administrators: configuration.inspectorUsers,
                    endedLogIns: configuration.endedLogInsPath)
            }
        }
        return admin
    }

    /// The number of files that the server itself has open: the databases, their readers, the admin interface.
    static let ownFilesMax = 384

    /// Raises the limit of open files, and lowers that of connections to the files that are left: a connection without
    /// one would hang, so it is refused like one above the limit.
    /// - Parameter haveChunks: whether a connection can have a chunk of a file space open as well.
    private func raiseOpenFileLimit(
        for connectionsMax: inout Int, haveChunks: Bool, _ logger: Logger
    ) throws {
        guard let limit = OpenFileLimit.raise() else { return }
        let rest = Self.connections(within: Int(clamping: limit), haveChunks: haveChunks)
        guard rest > 0 else {
            throw InputError(
                description: """
                    the system lets the server have \(limit) files open, and it needs \(Self.ownFilesMax) for itself: \
                    raise LimitNOFILE of the service, or ulimit -Hn
                    """)
        }
        guard connectionsMax > rest else { return }
        logger.warning(
            "fewer connections than configured, because of the limit of open files: raise it, or lower connections",
            metadata: ["configured": "\(connectionsMax)", "connections": "\(rest)", "files": "\(limit)"])
        connectionsMax = rest
    }

    /// The number of connections for which there are files.
    static func connections(within limit: Int, haveChunks: Bool) -> Int {
        (limit - ownFilesMax) / (haveChunks ? 2 : 1)
    }

    private func announce(_ configuration: Configuration, _ logger: Logger) {
        if let user = configuration.appServices.userWithoutToken {
            logger.warning(
                "clients without a token are let in",
                metadata: ["listen": "\(configuration.listen)", "user": "\(user)"])
        }
        if configuration.isDevelopment {
            logger.warning("development mode: every app id is accepted, and everybody may log in")
        } else if configuration.isClosed {
            logger.warning(
                """
                nobody is let in, because no apps are configured: name them in a file for --config, or start with \
                --dev to develop
                """)
        }
        if !configuration.listen.isLoopback, configuration.tlsCertificate == nil {
            logger.warning("tokens and passwords travel in the open", metadata: ["listen": "\(configuration.listen)"])
        }
    }
}

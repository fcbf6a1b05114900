import AnabranchHistory
import AnabranchSQLite
import AnabranchServer
import ArgumentParser
import Foundation
import Logging
import ServiceLifecycle

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serve Realm clients until SIGTERM or SIGINT.",
        discussion: """
            Applications log in below /api/client/v2.0 and connect by WebSocket to \
            /api/client/v2.0/app/<id>/realm-sync. Which apps there are, and how their users log in, stands in the \
            configuration file. With --dev, on loopback addresses, there are all apps, users log in anonymously or with \
            e-mail address and password, and whoever connects without a token, or to /realm-sync, is one fixed user. \
            With neither, clients that speak only the sync protocol are let in with any token.

            The first line on standard output says where the server listens; the log goes to standard error. \
            Everything acknowledged to a client is in the data directory, which one process at a time can use.

            Each setting can also stand in the environment (ANABRANCH_LISTEN for --listen) or in the file (listen: ...). \
            `anabranch config print` shows what comes of them.

            EXAMPLES
              anabranch serve --data ./data --listen 127.0.0.1:9090
              anabranch serve --dev --data ./data --listen 127.0.0.1:9090
              anabranch serve --config /etc/anabranch.yaml
              anabranch serve --config anabranch.yaml --listen 0.0.0.0:9090 --insecure
            """)

    @OptionGroup var options: ConfigurationOptions

    func run() async throws {
        let configuration = try options.configuration()
        do {
            try await serve(configuration)
        } catch let error as HistoryError {
            try fail(error.reason)
        } catch let error as AccountError {
            try fail(error.reason)
        } catch let error as FileError {
            try fail(error.description)
        }
    }

    private func fail(_ reason: String) throws {
        FileHandle.standardError.write(Data("serve: \(reason)\n".utf8))
        throw ExitCode(1)
    }

    private func serve(_ configuration: Configuration) async throws {
        var logger = Logger(label: "anabranch", factory: { StreamLogHandler.standardError(label: $0) })
        logger.logLevel = configuration.logLevel
        announce(configuration, logger)

        let store = try SQLiteStore(directory: configuration.data)
        let accounts = try SQLiteAccountStore(directory: configuration.data)
        let unixSeconds = { @Sendable in UInt64(max(1, Date().timeIntervalSince1970)) }
        let door = try await AppServices(
            settings: configuration.appServices, accounts: accounts,
            keys: try await KeyFile(path: configuration.keyPath, now: unixSeconds(), logger: logger), logger: logger,
            unixSeconds: unixSeconds)
        var rights: any Rights = AllRights()
        if let path = configuration.rules { rights = try await RightsFile(path: path, logger: logger) }
        let listen = configuration.listen
        var settings = ServerSettings(cores: ProcessInfo.processInfo.activeProcessorCount)
        settings.host = listen.host
        settings.port = listen.port
        let server = SyncServer(
            settings: settings, store: store, authenticator: configuration.isOpen ? OpenDoor() : door, endpoints: door,
            rights: rights,
            tls: try await tls(configuration, logger), logger: logger, unixSeconds: unixSeconds,
            onListening: { address in
                print("listening on \(address.ipAddress ?? listen.host):\(address.port ?? listen.port)")
                fflush(nil)
            })
        try await ServiceGroup(
            services: [server], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger
        ).run()
        try accounts.close()
        try store.close()
    }

    private func tls(_ configuration: Configuration, _ logger: Logger) async throws -> TLSFiles? {
        guard let certificate = configuration.tlsCertificate, let key = configuration.tlsKey else { return nil }
        do {
            return try await TLSFiles(certificatePath: certificate, keyPath: key, logger: logger)
        } catch {
            try fail("certificate \(certificate) and key \(key) cannot be used: \(error)")
            return nil
        }
    }

    private func announce(_ configuration: Configuration, _ logger: Logger) {
        if let user = configuration.appServices.userWithoutToken {
            logger.warning(
                "clients without a token are let in",
                metadata: ["listen": "\(configuration.listen)", "user": "\(user)"])
        }
        if configuration.isDevelopment {
            logger.warning("development mode: every app id is accepted, and everybody may log in")
        } else if configuration.isOpen {
            logger.warning(
                "no apps are configured: nobody can log in, and every token is accepted, also none",
                metadata: ["listen": "\(configuration.listen)"])
        }
        if !configuration.listen.isLoopback, configuration.tlsCertificate == nil {
            logger.warning("tokens and passwords travel in the open", metadata: ["listen": "\(configuration.listen)"])
        }
    }
}

/// The flags of a server.
struct ConfigurationOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The configuration file, in YAML.", valueName: "file"))
    var config: String?

    @Option(help: ArgumentHelp("The directory of the data; made if there is none. (default: ./data)", valueName: "dir"))
    var data: String?

    @Option(
        help: ArgumentHelp(
            "Where to listen; port 0 lets the system choose. (default: 127.0.0.1:9090)", valueName: "host:port"))
    var listen: String?

    @Flag(help: "Let everybody in, on a loopback address: for development.")
    var dev = false

    @Flag(help: "Listen without TLS on an address that is not a loopback address.")
    var insecure = false

    @Option(
        help: ArgumentHelp(
            "How clients reach the server: scheme, host and port. (default: what their Host header says)",
            valueName: "url"))
    var publicURL: String?

    @Option(help: ArgumentHelp("The server's certificate, in PEM, for TLS 1.2 and 1.3.", valueName: "file"))
    var tlsCertificate: String?

    @Option(help: ArgumentHelp("The private key of the certificate.", valueName: "file"))
    var tlsKey: String?

    @Option(
        help: ArgumentHelp(
            "Who may read and write what. (default: everybody everything)", valueName: "file"))
    var rules: String?

    @Option(help: "What to log: trace, debug, info, notice, warning, error or critical. (default: info)")
    var logLevel: String?

    func configuration() throws -> Configuration {
        var flags: [String: String] = [:]
        flags["data"] = data
        flags["listen"] = listen
        flags["dev"] = dev ? "true" : nil
        flags["insecure"] = insecure ? "true" : nil
        flags["public-url"] = publicURL
        flags["tls-certificate"] = tlsCertificate
        flags["tls-key"] = tlsKey
        flags["rules"] = rules
        flags["log-level"] = logLevel
        do {
            return try Configuration(file: config, environment: ProcessInfo.processInfo.environment, flags: flags)
        } catch let error as ConfigurationError {
            throw ValidationError(error.description)
        }
    }
}

extension Configuration {
    /// Nothing says who may come in. Beyond loopback addresses such a server needs --insecure.
    var isOpen: Bool { !isDevelopment && apps.isEmpty && userWithoutToken == nil }

    /// The keys of the server's own tokens.
    var keyPath: String { URL(fileURLWithPath: data, isDirectory: true).appendingPathComponent("keys.json").path }
}

/// `anabranch config print`: what flags, environment and file come to.
struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Look at the configuration.", subcommands: [Print.self])

    struct Print: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print the effective configuration, as a file that would have the same effect.",
            discussion: """
                EXAMPLES
                  anabranch config print --config anabranch.yaml
                  ANABRANCH_LISTEN='[::1]:9090' anabranch config print
                """)

        @OptionGroup var options: ConfigurationOptions

        func run() throws { print(try options.configuration().yaml, terminator: "") }
    }
}

/// `anabranch key rotate`: a new key for tokens.
struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "Manage the keys that sign tokens.", subcommands: [Rotate.self])

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a new key for tokens.",
            discussion: """
                A running server signs with it at once, and accepts what the former keys have signed until that has \
                expired, so nobody has to log in again.

                EXAMPLES
                  anabranch key rotate --data /var/lib/anabranch
                """)

        @OptionGroup var options: ConfigurationOptions

        func run() throws {
            let configuration = try options.configuration()
            let ident = try KeyFile.rotate(
                path: configuration.keyPath, now: UInt64(max(1, Date().timeIntervalSince1970)),
                lifetimeSeconds: configuration.appServices.sessionSeconds)
            print("signing with key \(ident)")
        }
    }
}

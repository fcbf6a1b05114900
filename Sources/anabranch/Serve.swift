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
            Clients connect by WebSocket to /realm-sync or to /api/client/v2.0/app/<id>/realm-sync. Tokens are not \
            checked, so the server listens on loopback addresses only, unless --insecure says that whoever can reach \
            the address may read and write everything.

            The first line on standard output says where the server listens; the log goes to standard error. \
            Everything acknowledged to a client is in the data directory, which one process at a time can use.

            EXAMPLES
              anabranch serve --data ./data --listen 127.0.0.1:9090
              anabranch serve --data /var/lib/anabranch --listen 0.0.0.0:9090 --insecure
              anabranch serve --data ./data --listen '[::1]:0' --log-level debug
            """)

    @Option(help: ArgumentHelp("The directory of the data; made if there is none.", valueName: "dir"))
    var data = "./data"

    @Option(
        help: ArgumentHelp("Where to listen; port 0 lets the system choose.", valueName: "host:port"))
    var listen = ListenAddress(host: "127.0.0.1", port: 9090)

    @Flag(help: "Accept everybody on an address that is not a loopback address.")
    var insecure = false

    @Option(help: "What to log: trace, debug, info, notice, warning, error or critical.")
    var logLevel = Logger.Level.info

    func validate() throws {
        if !listen.isLoopback, !insecure {
            throw ValidationError(
                "\(listen.host) is not a loopback address, and tokens are not checked: "
                    + "pass --insecure if everybody who can reach it may read and write everything.")
        }
    }

    func run() async throws {
        var logger = Logger(label: "anabranch", factory: { StreamLogHandler.standardError(label: $0) })
        logger.logLevel = logLevel
        var settings = ServerSettings(cores: ProcessInfo.processInfo.activeProcessorCount)
        settings.host = listen.host
        settings.port = listen.port

        let store = try SQLiteStore(directory: data)
        logger.warning(
            "tokens are not checked: every client is accepted",
            metadata: ["listen": "\(listen)", "reachable_from": listen.isLoopback ? "this machine" : "other machines"])
        let server = SyncServer(
            settings: settings, store: store, authenticator: OpenDoor(), logger: logger,
            unixSeconds: { UInt64(max(1, Date().timeIntervalSince1970)) },
            onListening: { address in
                print("listening on \(address.ipAddress ?? listen.host):\(address.port ?? listen.port)")
                fflush(nil)
            })
        try await ServiceGroup(
            services: [server], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger
        ).run()
        try store.close()
    }
}

/// `host:port`; an IPv6 address stands in brackets.
struct ListenAddress: ExpressibleByArgument, CustomStringConvertible, Sendable {
    let host: String
    let port: Int

    init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    init?(argument: String) {
        guard let colon = argument.lastIndex(of: ":"),
            let port = UInt16(argument[argument.index(after: colon)...])
        else { return nil }
        var host = argument[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.init(host: String(host), port: Int(port))
    }

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    var defaultValueDescription: String { description }

    /// Whether only this machine can reach it. Names other than `localhost` may mean anything.
    var isLoopback: Bool {
        if host == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        return parts.count == 4 && parts[0] == 127 && !parts.contains(nil)
    }
}

extension Logger.Level: @retroactive ExpressibleByArgument {}

import AnabranchHistory
import AnabranchSQLite
import AnabranchServer
import Foundation
import Logging
import ServiceLifecycle

/// A shop whose orders come from devices, perhaps hours after they were written there: `ServerFunction DIRECTORY
/// [PORT]`. The server decides which of them can be fulfilled.
@main
struct ServerFunction {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard let directory = arguments.first else {
            print("usage: ServerFunction DIRECTORY [PORT]")
            exit(64)
        }
        let store = try SQLiteStore(directory: directory)
        let server = makeServer(store: store, port: arguments.dropFirst().first.flatMap { Int($0) } ?? 9090)
        let group = ServiceGroup(
            services: [server, OrderDesk(server: server)],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: Logger(label: "shop")
        )
        try await group.run()
    }

    /// The server, as the program and its tests use it. Everybody who reaches the port may order.
    static func makeServer(store: any HistoryStore, port: Int) -> SyncServer {
        var settings = ServerSettings(cores: 2)
        settings.host = "127.0.0.1"
        settings.port = port
        return SyncServer(settings: settings, store: store, authenticator: AllowAllAuthenticator())
    }
}

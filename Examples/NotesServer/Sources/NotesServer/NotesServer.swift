import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchServer
import Foundation
import Logging
import ServiceLifecycle

/// A program with a sync server in it: `NotesServer [--apps] DIRECTORY [PORT]`.
@main
struct NotesServer {
    static func main() async throws {
        var arguments = CommandLine.arguments.dropFirst()
        let isForApps = arguments.first == "--apps"
        if isForApps { arguments.removeFirst() }
        guard let directory = arguments.first else {
            print("usage: NotesServer [--apps] DIRECTORY [PORT]")
            exit(64)
        }
        let port = arguments.dropFirst().first.flatMap { Int($0) } ?? 9090
        if isForApps {
            let server = try await AppServer.make(directory: directory, port: port)
            return try await run([server])
        }
        let store = try SQLiteStore(directory: directory)
        let server = makeServer(store: store, port: port)
        try await run([server, WordCounter(server: server)])
    }

    /// Runs services until SIGTERM or SIGINT.
    private static func run(_ services: [any Service]) async throws {
        let group = ServiceGroup(
            services: services,
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: Logger(label: "notes")
        )
        try await group.run()
    }

    /// The server, as the program and its tests use it.
    static func makeServer(store: any HistoryStore, port: Int) -> SyncServer {
        var settings = ServerSettings(cores: 2)
        settings.host = "127.0.0.1"
        settings.port = port
        let inbox = NotesInbox()
        let server = SyncServer(
            settings: settings,
            store: store,
            authenticator: Tokens(users: ["token-of-ann": "ann", "token-of-ben": "ben"]),
            routes: [HTTPRoute("/notes", to: inbox)],
            authorizer: CallbackAuthorizer { principal, partition in
                guard partition == PartitionValue.string("team").bytes else { return .none }
                return principal.user == "ann" ? .write : .read
            }
        )
        inbox.attach(to: server)
        return server
    }
}

/// Lets those in who have a token that the program knows.
struct Tokens: Authenticator {
    let users: [String: String]

    func admit(_ credentials: Credentials) async -> Admission {
        guard credentials.app == "notes" else { return .userRefused(reason: "another app") }
        guard let user = users[credentials.token] else { return .tokenRefused(reason: "unknown token") }
        return .admitted(Principal(app: credentials.app, user: user))
    }
}

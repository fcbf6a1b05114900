import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchServer
import AnabranchTestClient
import Foundation
import Logging
import Metrics
import NIOCore
import Synchronization
import Testing

@testable import AnabranchSimperiumWire

/// A server with Simperium's wire on a loopback port, and accounts.
struct WireRig: Sendable {
    static let app = "my-app"

    let port: Int
    let services: AppServices
    let server: SyncServer
    let wire: SimperiumWire
    let clock: Clock

    /// The server's clock.
    final class Clock: Sendable {
        private let seconds: Mutex<UInt64>

        /// - Parameter seconds: since 1970.
        init(_ seconds: UInt64 = UInt64(Date().timeIntervalSince1970)) { self.seconds = Mutex(seconds) }

        var now: UInt64 { seconds.withLock { $0 } }

        func advance(by seconds: UInt64) { self.seconds.withLock { $0 += seconds } }
    }

    /// The state that outlives the server.
    final class Disk: Sendable {
        let store: any HistoryStore
        let accounts: any AccountStore
        let folder: URL
        let clock = Clock()
        /// The clock of writes, in place of the server's own.
        let preciseSeconds: (@Sendable () -> Double)?

        /// - Parameters:
        ///   - isDurable: true for files, false for memory.
        ///   - isShared: whether several servers write to the memory at the same time.
        ///   - preciseSeconds: the clock of writes, in seconds since 1970; nil for the server's own.
        init(
            isDurable: Bool = false, isShared: Bool = false, preciseSeconds: (@Sendable () -> Double)? = nil
        ) throws {
            self.preciseSeconds = preciseSeconds
            folder = try Self.makeFolder()
            store = isDurable ? try SQLiteStore(directory: folder.path) : InMemoryStore(isShared: isShared)
            accounts = InMemoryAccountStore()
        }

        /// The disk of the same accounts when a backup has taken the place of the store.
        init(restoring backup: InMemoryStore, of disk: Disk) throws {
            folder = try Self.makeFolder()
            var random = SystemRandomNumberGenerator()
            backup.renewSalts(using: &random)
            store = backup
            accounts = disk.accounts
            preciseSeconds = disk.preciseSeconds
        }

        private static func makeFolder() throws -> URL {
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("simperium-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            return folder
        }

        deinit { try? FileManager.default.removeItem(at: folder) }
    }

    /// Runs a server for as long as `body` takes.
    static func run<Result>(
        on disk: Disk? = nil, authorizer: any Authorizer = AllowAllAuthorizer(),
        metrics: any MetricsFactory = NOOPMetricsHandler.instance,
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        _ change: (inout SimperiumSettings) -> Void = { _ in }, _ body: (WireRig) async throws -> Result
    ) async throws -> Result {
        let disk = try disk ?? Disk()
        let clock = disk.clock
        let keys = try await KeyFile(
            path: disk.folder.appendingPathComponent("keys.json").path, now: clock.now, logger: logger)
        var accounts = AppServicesSettings()
        accounts.apps[app] = AppSettings(providers: [.emailPassword])
        accounts.loginsPerMinuteMax = .max
        let services = try await AppServices(
            settings: accounts, accounts: disk.accounts, keys: keys, passwordCost: 1, logger: logger,
            metrics: NOOPMetricsHandler.instance, unixSeconds: { clock.now })
        var settings = SimperiumSettings()
        settings.apps[app] = SimperiumApp()
        // However long a test takes, no copy is put right but in those that are about it.
        settings.healDelay = .seconds(3_600)
        change(&settings)
        let wire = SimperiumWire(
            settings: settings, authenticator: services, authorizer: authorizer, logger: logger,
            metrics: metrics, unixSeconds: { clock.now }, preciseSeconds: disk.preciseSeconds)
        var serverSettings = ServerSettings(cores: 2)
        serverSettings.shutdownSecondsMax = 1
        serverSettings.lingerSecondsMax = 1
        serverSettings.connectionsPerUserMax = 1_000
        let (ports, onPort) = AsyncStream.makeStream(of: Int.self)
        let server = SyncServer(
            settings: serverSettings, store: disk.store, authenticator: AllowAllAuthenticator(), wires: [wire],
            authorizer: authorizer, logger: logger, metrics: NOOPMetricsHandler.instance, unixSeconds: { clock.now },
            onListening: { onPort.yield($0.port ?? 0) })
        wire.attach(to: server)
        let task = Task { try await server.run() }
        var iterator = ports.makeAsyncIterator()
        let rig = WireRig(
            port: await iterator.next() ?? 0, services: services, server: server, wire: wire, clock: clock)
        do {
            let result = try await body(rig)
            task.cancel()
            try await task.value
            return result
        } catch {
            task.cancel()
            try? await task.value
            throw error
        }
    }

    /// Does something while the file of a user cannot be read or written; what asks for it waits.
    func whileBusy(with user: String, _ body: () async throws -> Void) async throws {
        let path = VirtualPath(app: Self.app, partition: SimperiumWire.partition(of: user)), server = server
        let (beginnings, begin) = AsyncStream.makeStream(of: Void.self), end = DispatchSemaphore(value: 0)
        let write = HeadWrite(at: 0) { _, _ in
            begin.yield()
            end.wait()
            return []
        }
        async let written = server.write([write], atHeadOf: path)
        for await _ in beginnings { break }
        let result: Result<Void, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        end.signal()
        _ = try await written
        try result.get()
    }

    // MARK: Users

    /// Makes a user, or lets one in again.
    func logIn(_ name: String = "ann@example.com", isNew: Bool = true) async throws -> AppServices.PlainLogin {
        try await services.logIn(name, password: "secret-word", to: Self.app, isNew: isNew, from: nil)
    }

    // MARK: Clients

    func connect(path: String = "/sock/1/my-app/websocket") async throws -> TextClient {
        try await TextClient(port: port, path: path)
    }

    /// A client of Realm's wire on the file of a user.
    func realmClient(_ user: String) async throws -> TestClient {
        let client = TestClient(app: Self.app, partition: SimperiumWire.partition(of: user))
        try await client.connect(to: "ws://127.0.0.1:\(port)", token: "any")
        return client
    }
}

/// The frames of clients.
enum Frame {
    static func opening(
        _ token: String, channel: String = "0:", bucket: String = "note", client: String = "node-1",
        library: String = "node-simperium", more: [String: JSONValue] = [:]
    ) -> String {
        var members: [String: JSONValue] = [
            "name": .string(bucket), "clientid": .string(client), "api": "1.1", "token": .string(token),
            "app_id": .string(WireRig.app), "library": .string(library), "version": "0.0.1",
        ]
        members.merge(more) { $1 }
        return "\(channel)init:\(JSONValue.object(members).encoded)"
    }
}

import AnabranchBridge
import AnabranchCapture
import AnabranchClient
import AnabranchHistory
import AnabranchServer
import AnabranchTesting
import Foundation
import Logging
import NIOCore
import Testing

/// A server in this process, a database, and a folder for replicas.
final class BridgeWorld {
    let folder: URL
    let port: Int
    let url: String
    /// The application's own connection.
    let app: Application
    /// True if the file is synchronized by subscriptions.
    private let isFlexible: Bool
    private var replicas: [SyncedReplica] = []
    private var clients: [SyncClient] = []
    private var bridges: [TableBridge] = []

    private init(_ folder: URL, _ port: Int, _ url: String, isFlexible: Bool) throws {
        (self.folder, self.port, self.url, self.isFlexible) = (folder, port, url, isFlexible)
        app = try Application(url)
    }

    /// - Parameters:
    ///   - schema: the statements that make the application's tables.
    ///   - tables: those that are bridged.
    static func run(
        _ schema: String = "", _ tables: [String] = [], on postgres: TestPostgres? = nil, isFlexible: Bool = false,
        _ body: (BridgeWorld) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("bridge-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let url = try await onOwnThread {
            let server = try postgres ?? TestPostgres.shared.get()
            return server.url(try server.makeDatabase())
        }
        var settings = ServerSettings(cores: 2)
        settings.port = 0
        settings.lingerSecondsMax = 1
        settings.shutdownSecondsMax = 2
        settings.flexibleApps = ["flex"]
        let server = SyncServer(
            settings: settings, store: InMemoryStore(), authenticator: AllowAllAuthenticator(),
            authorizer: AllowAllAuthorizer(),
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            defer { group.cancelAll() }
            let port = try #require(try await server.listening().port)
            let world = try BridgeWorld(folder, port, url, isFlexible: isFlexible)
            try world.app.run(schema)
            if !tables.isEmpty { try world.install(tables) }
            let result: Result<Void, any Error>
            do { result = .success(try await body(world)) } catch { result = .failure(error) }
            for client in world.clients { await client.stop() }
            for bridge in world.bridges { try? await bridge.close() }
            for replica in world.replicas { try? await replica.close() }
            try result.get()
        }
    }

    var database: BridgeDatabase { BridgeDatabase(url) }

    @discardableResult func install(_ tables: [String]) throws -> [String] {
        try database.install(tables.map { ($0, nil) })
    }

    /// A bridge with a replica of its own.
    func bridge(
        _ name: String = "a", silence: Double = 30, allowsDeletions: Bool = false, file: String? = nil
    ) async throws -> TableBridge {
        let bridge = try TableBridge(
            database: url, replica: folder.appending(path: "\(name).replica").path(), name: name, file: file,
            silence: silence, allowsDeletions: allowsDeletions)
        bridges.append(bridge)
        try await connect(bridge.replica)
        return bridge
    }

    /// A device.
    func device(_ name: String = "device") async throws -> SyncedReplica {
        let replica = try SyncedReplica(path: folder.appending(path: "\(name).device").path())
        replicas.append(replica)
        try await connect(replica)
        try await replica.waitForDownload()
        return replica
    }

    private func connect(_ replica: SyncedReplica) async throws {
        let route = FixedRoute(server: "ws://127.0.0.1:\(port)", app: isFlexible ? "flex" : "parts")
        let client = SyncClient(SyncConfiguration(route, mode: isFlexible ? .flexible : .partition))
        if isFlexible {
            try await client.add(replica)
        } else {
            try await client.add(replica, partition: #""rows""#)
        }
        clients.append(client)
    }

    /// The differences between rows and objects.
    func differences(_ replica: SyncedReplica) async throws -> [String] {
        let state = try await replica.snapshot().state
        var found: [String] = []
        _ = try database.compare(with: state) { found.append("\($0.table) \($0.key) \($0.kind) \($0.reason ?? "")") }
        return found
    }
}

extension SyncedReplica {
    /// Writes, and returns when the server has it.
    func change(_ body: @Sendable (WriteTransaction) throws -> Void) async throws {
        try write(body)
        try await waitForUpload()
    }

    /// The server's state by now: the values of a property, in the order of the keys, as texts.
    func values(_ className: String, _ property: String) async throws -> [String] {
        try await waitForDownload()
        return try read { transaction in
            try transaction.objects(className).map { object in
                let isKey = transaction.state.schema(ofClass: Array(className.utf8))?.key?.name == Array(property.utf8)
                let value = isKey ? Payload.null : try object.value(property)
                return "\(object.key.map { StateValue($0).text } ?? "") \(StateValue(value).text)"
            }
        }
    }
}

extension StateValue {
    fileprivate init(_ payload: Payload) {
        switch payload {
        case .int(let value): self = .int(value)
        case .string(let value): self = .string(value)
        case .bool(let value): self = .bool(value)
        case .double(let value): self = .double(value)
        case .uuid(let value): self = .uuid(value)
        default: self = .null
        }
    }

    fileprivate var text: String {
        switch self {
        case .int(let value): "\(value)"
        case .string(let value): String(decoding: value, as: UTF8.self)
        case .bool(let value): "\(value)"
        case .double(let value): "\(value)"
        case .uuid(let value): "\(value)"
        default: "∅"
        }
    }
}

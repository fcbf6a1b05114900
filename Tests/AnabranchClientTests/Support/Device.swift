import AnabranchClient
import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchTesting
import Foundation
import Synchronization
import Testing

/// A replica in a file of its own, and a client of a server in this process.
struct Device: Sendable {
    static let flexibleApp = "flex"

    let replica: SyncedReplica
    let client: SyncClient
    let mode: SyncMode

    /// - Parameters:
    ///   - path: a file; what is there is opened.
    ///   - route: nil for the server's own app, without users.
    init(
        _ path: String, port: Int, _ mode: SyncMode = .partition, route: (any RouteProvider)? = nil,
        transport: any Transport = NIOTransport(), now: @escaping @Sendable () -> ChangesetTime = { .now }
    ) throws {
        replica = try SyncedReplica(path: path, now: now)
        self.mode = mode
        let app = mode == .flexible ? Self.flexibleApp : "parts"
        let url = "ws://127.0.0.1:\(port)/api/client/v2.0/app/\(app)/realm-sync?baas_at="
        client = SyncClient(SyncConfiguration(route ?? FixedRoute(url), mode: mode, transport: transport))
    }

    /// Synchronizes the replica from now on, with all tasks in flexible sync.
    func connect(_ resetMode: ResetMode = .recoverOrDiscard) async throws {
        try await subscribe()
        if mode == .flexible {
            try await client.add(replica, resetMode: resetMode)
        } else {
            try await client.add(replica, partition: #""tasks""#, resetMode: resetMode)
        }
    }

    /// In flexible sync a server refuses a query of a class that it does not know, and undoes what is written before
    /// it is subscribed to.
    private func subscribe() async throws {
        guard mode == .flexible, await replica.record.subscriptions == nil else { return }
        try await replica.write { try Self.declare($0) }
        try await replica.subscribe([Subscription("Task")])
    }

    /// Everything of this device is on the server, and the other way round.
    func settle() async throws {
        try await replica.waitForUpload()
        try await replica.waitForDownload()
        if mode == .flexible { try await replica.waitForSubscriptions() }
    }

    func close() async throws {
        await client.stop()
        try await replica.close()
    }

    // MARK: Tasks

    func put(_ key: Int, _ text: String = "") async throws {
        try await subscribe()
        try await replica.write { tx in
            try Self.declare(tx)
            try tx.create("Task", key: .int(Int64(key)), ["text": .string(Array(text.utf8))])
        }
    }

    /// Adds one to the number of a task.
    func count(_ key: PrimaryKey = 0) async throws {
        try await subscribe()
        try await replica.write { tx in
            try Self.declare(tx)
            try (tx.object("Task", key: key) ?? tx.create("Task", key: key)).add(1, to: "number")
        }
    }

    static func declare(_ tx: WriteTransaction) throws {
        try tx.addClass("Task", key: "_id", .int)
        try tx.addColumn("text", .string, to: "Task")
        try tx.addColumn("number", .int, to: "Task")
    }

    /// The keys of all tasks.
    var tasks: [Int64] { get async throws { try await replica.read { tx in try Self.tasks(tx) } } }

    static func tasks(_ tx: WriteTransaction) throws -> [Int64] {
        guard tx.classNames.contains("Task") else { return [] }
        return try tx.objects("Task").compactMap { if case .int(let key)? = $0.key { key } else { nil } }
    }

    func number(_ key: PrimaryKey = 0) async throws -> Payload? {
        try await replica.read { tx in try tx.object("Task", key: key)?.value("number") }
    }

    var state: StateDigest { get async throws { try StateDigest(of: try await replica.snapshot().state) } }
}

/// The first event that is meant.
func first<Value>(_ events: AsyncStream<ReplicaEvent>, _ value: (ReplicaEvent) -> Value?) async throws -> Value {
    for await event in events {
        if let value = value(event) { return value }
    }
    throw CancellationError()
}

extension ReplicaEvent {
    /// The reason why nothing more happens.
    var stop: SyncError? { if case .status(.stopped(let error)) = self { error } else { nil } }
    var undone: ErrorMessage? { if case .writesUndone(let error) = self { error } else { nil } }
    var report: ResetReport? { if case .resetEnded(let report) = self { report } else { nil } }
    var isOffline: Bool? { if case .status(.offline) = self { true } else { nil } }
}

/// A folder for as long as `body` takes.
func withFolder<Result>(
    _ body: (_ path: @escaping @Sendable (String) -> String) async throws -> Result
) async throws -> Result {
    let folder = URL(filePath: TestFolder.parent).appending(path: "devices-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    return try await body { name in folder.appending(path: name).path }
}

/// Expects an error of the synchronization.
func syncFails(
    _ code: SyncError.Code, at place: SourceLocation = #_sourceLocation, by body: @Sendable () async throws -> Void
) async {
    let error = await thrown(SyncError.self, by: body)
    #expect(error?.code == code, "\(String(describing: error))", sourceLocation: place)
}

/// Connections that break: the first one after one message in either direction, the next one after two, and so on.
final class BreakingTransport: Transport {
    private let count = Mutex(0)

    /// How many connections there were.
    var connections: Int { count.withLock { $0 } }

    func connect(_ request: WebSocketRequest) async throws -> any TransportConnection {
        let number = count.withLock { count in
            count += 1
            return count
        }
        return Connection(try await NIOTransport().connect(request), messages: number)
    }

    private final class Connection: TransportConnection {
        private let inner: any TransportConnection
        private let left: Mutex<Int>

        init(_ inner: any TransportConnection, messages: Int) {
            self.inner = inner
            left = Mutex(messages)
        }

        var chosenProtocol: String { inner.chosenProtocol }

        private func spend() async throws {
            let isOver = left.withLock { left in
                left -= 1
                return left < 0
            }
            guard isOver else { return }
            await inner.close()
            throw TransportError(.disconnected, "the connection breaks")
        }

        func send(_ message: [UInt8]) async throws {
            try await spend()
            try await inner.send(message)
        }

        func receive() async throws -> [UInt8] {
            let message = try await inner.receive()
            try await spend()
            return message
        }

        func close() async { await inner.close() }
    }
}

import AnabranchCore
import AnabranchHistory
import Foundation
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import AnabranchServer

/// A server with App Services on a port that the system chooses, with a clock that tests turn and a log that they read.
struct AppServicesRig {
    let port: Int
    let adminPort: Int
    let services: AppServices
    let accounts: any AccountStore
    let clock: Clock
    let log: LogLines
    let keyPath: String

    /// Seconds since 1970, and only as `advance` says.
    final class Clock: Sendable {
        private struct State {
            var seconds: UInt64 = 1_800_000_000
            var looks = 0
            var event: @Sendable () -> Void = {}
        }

        private let state = Mutex(State())

        var now: UInt64 {
            let (seconds, event) = state.withLock { state in
                state.looks -= 1
                return (state.seconds, state.looks == -1 ? state.event : {})
            }
            event()
            return seconds
        }

        func advance(by seconds: UInt64) { state.withLock { $0.seconds += seconds } }

        func setBack(by seconds: UInt64) { state.withLock { $0.seconds -= seconds } }

        /// Has something happen when the clock has been looked at so many times and is looked at again.
        func whenAsked(again looks: Int, _ event: @escaping @Sendable () -> Void) {
            state.withLock { state in
                state.looks = looks
                state.event = event
            }
        }
    }

    static var development: AppServicesSettings {
        var settings = AppServicesSettings()
        settings.otherApps = AppSettings(providers: [.anonymous, .emailPassword, .apiKey])
        settings.loginsPerMinuteMax = .max
        settings.promptRefusalsPerMinuteMax = .max
        return settings
    }

    /// Runs a server for as long as `body` runs.
    @discardableResult
    static func run<Result>(
        _ settings: AppServicesSettings = development, emails: [String: any EmailHook] = [:], passwordCost: Int = 1,
        store: any HistoryStore = InMemoryStore(), doors: [any RecordDoor] = [], apps: Set<String>? = nil,
        change: (inout ServerSettings) -> Void = { _ in },
        _ body: (AppServicesRig) async throws -> Result
    ) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("server-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let log = LogLines(), clock = Clock(), accounts = InMemoryAccountStore()
        let keyPath = folder.appendingPathComponent("keys.json").path
        let keys = try await KeyFile(path: keyPath, now: clock.now, logger: log.logger)
        let metrics = PrometheusMetrics()
        let services = try await AppServices(
            settings: settings, accounts: accounts, keys: keys, emails: emails, passwordCost: passwordCost,
            logger: log.logger,
            metrics: metrics, unixSeconds: { clock.now })
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        var adminSettings = AdminSettings()
        adminSettings.apps = apps
        let admin = AdminInterface(
            settings: adminSettings, token: try #require(AdminToken(adminToken)),
            catalog: try #require(store as? any HistoryCatalog), accounts: accounts, metrics: metrics,
            onListening: { listening.yield($0.port ?? 0) })
        var serverSettings = ServerSettings(cores: 1)
        serverSettings.shutdownSecondsMax = 1
        change(&serverSettings)
        let server = SyncServer(
            settings: serverSettings, store: store, authenticator: services, routes: [HTTPRoute(to: services)],
            logger: log.logger, metrics: metrics, admin: admin, unixSeconds: { clock.now },
            onListening: { listening.yield($0.port ?? 0) })
        for door in doors { server.attach(door) }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            var listeners = ports.makeAsyncIterator()
            let adminPort = try #require(await listeners.next()), port = try #require(await listeners.next())
            let rig = AppServicesRig(
                port: port, adminPort: adminPort, services: services, accounts: accounts, clock: clock, log: log,
                keyPath: keyPath)
            let result = try await body(rig)
            group.cancelAll()
            return result
        }
    }

    // MARK: The operator

    static let adminToken = "the operator's token".replacing(" ", with: "-")

    /// A request to the admin interface.
    func admin(
        _ method: String, _ path: String, token: String? = adminToken, _ body: String = ""
    ) async throws -> Response {
        let authorization = token.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        let head = """
            \(method) \(path) HTTP/1.1\r
            Host: 127.0.0.1\r
            Connection: close\r
            Content-Length: \(body.utf8.count)\r
            \(authorization)\r

            """
        return try Response(try await exchange(Array((head + body).utf8), port: adminPort))
    }

    func admin(_ path: String, _ body: JSONValue) async throws -> Response {
        try await admin("POST", path, body.encoded)
    }

    // MARK: HTTP

    /// The server has closed the connection, after this text.
    struct NoAnswer: Error {
        var text: String
    }

    struct Response {
        var status: Int
        var headers: [String: String]
        var body: String

        var json: JSONValue? { try? JSONValue(parsing: body.utf8) }

        init(_ bytes: [UInt8]) throws {
            let text = String(decoding: bytes, as: UTF8.self)
            guard let end = text.range(of: "\r\n\r\n") else { throw NoAnswer(text: text) }
            let lines = text[..<end.lowerBound].components(separatedBy: "\r\n")
            status = try #require(lines[0].split(separator: " ").dropFirst().first.flatMap { Int($0) })
            let fields = lines.dropFirst().map { line in
                (line.prefix { $0 != ":" }.lowercased(), line.drop { $0 != ":" }.dropFirst().drop { $0 == " " })
            }
            headers = Dictionary(fields.map { ($0.0, String($0.1)) }) { $0 + ", " + $1 }
            body = String(text[end.upperBound...])
        }
    }

    /// One request on a connection of its own, with the headers of a client.
    func request(
        _ method: String, _ path: String, token: String? = nil, _ body: String = ""
    ) async throws -> Response {
        var head = "\(method) \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n"
        if !path.hasSuffix("/location") {
            head += "Content-Type: application/json;charset=utf-8\r\nAccept: application/json\r\n"
        }
        if let token { head += "Authorization: Bearer \(token)\r\n" }
        if method != "GET" { head += "Content-Length: \(body.utf8.count)\r\n" }
        return try Response(try await exchange(head + "\r\n" + body))
    }

    func post(_ path: String, token: String? = nil, _ body: JSONValue) async throws -> Response {
        try await request("POST", path, token: token, body.encoded)
    }

    /// Registers somebody and logs in.
    func newUser(_ email: String, app: String = "demo") async throws -> Login {
        let providers = "/api/client/v2.0/app/\(app)/auth/providers/local-userpass"
        let password: JSONValue = "correct horse"
        _ = try await post("\(providers)/register", ["email": .string(email), "password": password])
        return try Login(
            try await post("\(providers)/login", ["username": .string(email), "password": password]))
    }

    struct Login {
        let access: String, refresh: String, user: String

        init(_ response: Response) throws {
            try #require(response.status == 200, "\(response.body)")
            access = try #require(response.json?["access_token"]?.string)
            refresh = try #require(response.json?["refresh_token"]?.string)
            user = try #require(response.json?["user_id"]?.string)
        }
    }

    // MARK: OpenChannels

    /// Sends bytes and returns what the server says until it closes.
    func exchange(_ text: String) async throws -> [UInt8] { try await exchange(Array(text.utf8)) }

    func exchange(_ bytes: [UInt8], port: Int? = nil) async throws -> [UInt8] {
        try await connect(port: port) { socket in
            try await socket.send(bytes)
            return try await socket.readToEnd()
        }
    }

    func connect<Result: Sendable>(
        port: Int? = nil, _ body: (RawSocket) async throws -> Result
    ) async throws -> Result {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: port ?? self.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            try await body(RawSocket(inbound: inbound, outbound: outbound))
        }
    }

    /// The request of a handshake.
    func handshake(
        app: String = "demo", token: String, versions: ClosedRange<Int> = 2...14, separator: String = "#"
    ) -> String {
        let offers = versions.reversed().map { "com.mongodb.realm-sync\(separator)\($0)" }.joined(separator: ", ")
        return """
            GET /api/client/v2.0/app/\(app)/realm-sync?baas_at=\(token) HTTP/1.1\r
            Host: 127.0.0.1:\(port)\r
            Upgrade: websocket\r
            Connection: Upgrade\r
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
            Sec-WebSocket-Version: 13\r
            Sec-WebSocket-Protocol: \(offers)\r
            User-Agent: RealmSync/14.14.0 (Linux)\r
            \r

            """
    }

    /// The result of a handshake: the HTTP status, and the code of the close frame if there is one at once.
    func handshakeOutcome(
        app: String = "demo", token: String, versions: ClosedRange<Int> = 2...14, separator: String = "#"
    ) async throws -> (status: Int, closeCode: Int?) {
        let request = handshake(app: app, token: token, versions: versions, separator: separator)
        // A close frame of our own makes the server end in any case.
        let bytes = try await exchange(Array(request.utf8) + Self.frame(0x88, [0x03, 0xe8]))
        let text = String(decoding: bytes, as: UTF8.self)
        let status = try #require(text.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        guard status == 101 else { return (status, nil) }
        return (status, Self.closeCode(in: bytes))
    }

    /// The code of the close frame that ends what the server said.
    static func closeCode(in bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4, bytes[bytes.count - 4] == 0x88, bytes[bytes.count - 3] == 2 else { return nil }
        return Int(bytes[bytes.count - 2]) << 8 | Int(bytes[bytes.count - 1])
    }

    /// A frame as clients send it, masked with zeros.
    static func frame(_ first: UInt8, _ payload: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = [first]
        switch payload.count {
        case ..<126: bytes.append(0x80 | UInt8(payload.count))
        case ..<65_536: bytes += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
        default: bytes += [0x80 | 127] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
        }
        return bytes + [0, 0, 0, 0] + payload
    }
}

struct RawSocket {
    let inbound: NIOAsyncChannelInboundStream<ByteBuffer>
    let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>

    func send(_ bytes: [UInt8]) async throws { try await outbound.write(ByteBuffer(bytes: bytes)) }

    /// Everything until the server closes, or has nothing to say after `isEnough`.
    func readToEnd(isEnough: ([UInt8]) -> Bool = { _ in false }) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        do {
            for try await part in inbound {
                bytes += Array(buffer: part)
                if isEnough(bytes) { break }
            }
        } catch is IOError {
            // A reset after the last word is an end as well.
        }
        return bytes
    }
}

/// A log in memory.
final class LogLines: Sendable {
    private let lines = Watched<[String]>([])

    var text: String { lines.withLock { $0.joined(separator: "\n") } }

    /// Returns once a line has these words.
    func wait(for words: String) async { await lines.wait { lines in lines.contains { $0.contains(words) } } }

    var logger: Logger {
        Logger(label: "test") { [self] _ in
            Handler { line in self.lines.withLock { $0.append(line) } }
        }
    }

    private struct Handler: LogHandler {
        let write: @Sendable (String) -> Void
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        init(_ write: @escaping @Sendable (String) -> Void) { self.write = write }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            write("\(event.level) \(event.message) \(metadata.merging(event.metadata ?? [:]) { $1 })")
        }
    }
}

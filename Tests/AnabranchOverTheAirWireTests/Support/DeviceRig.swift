import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import AnabranchTestClient
import Foundation
import Logging
import Metrics
import NIOCore
import NIOHTTP1
import Synchronization
import Testing

@testable import AnabranchOverTheAirWire

/// A server with the property-list wire on a loopback port, and one user.
struct DeviceRig: Sendable {
    static let app = "my-app"
    static let contacts = "example.contacts", notes = "example.notes"

    let port: Int
    let services: AppServices
    let wire: OverTheAirWire
    let clock: Clock
    let user: String

    /// The server's clock.
    final class Clock: Sendable {
        private let seconds = Mutex(UInt64(Date().timeIntervalSince1970)), fraction = Mutex(0.0)

        var now: UInt64 { seconds.withLock { $0 } }

        /// With the fraction of the second.
        var preciseNow: Double { Double(now) + fraction.withLock { $0 } }

        func setFraction(_ fraction: Double) { self.fraction.withLock { $0 = fraction } }

        func advance(by seconds: UInt64) { self.seconds.withLock { $0 += seconds } }

        func setBack(by seconds: UInt64) { self.seconds.withLock { $0 -= seconds } }
    }

    static func dataclasses(commit: String = "server") throws -> [Dataclass] {
        let contacts = """
            {"dataclass": "\(Self.contacts)", "commit": "\(commit)", "entities": {
              "contact": {"class": "Contact", "identity": [["name", "company"], ["email"]],
                "fields": {"name": {"property": "name", "type": "string"},
                  "company": {"property": "company", "type": "string"},
                  "email": {"property": "email", "type": "string"}, "born": {"property": "born", "type": "date"},
                  "number": {"property": "serial", "type": "string-integer"},
                  "weight": {"property": "weight", "type": "real"}, "image": {"property": "image", "type": "data"}},
                "relationships": {"groups": {"property": "groups", "entity": "group", "many": true}},
                "container": "groups", "date": "born"},
              "group": {"class": "Group", "identity": [["name"]],
                "fields": {"name": {"property": "name", "type": "string"}}}}}
            """
        let notes = """
            {"dataclass": "\(Self.notes)", "entities": {"note": {"class": "Note", "key_type": "string",
              "fields": {"text": {"property": "text", "type": "string"}}}}}
            """
        return [try Dataclass(parsing: Array(contacts.utf8)), try Dataclass(parsing: Array(notes.utf8))]
    }

    /// Runs a server for as long as `body` takes.
    static func run<Result>(
        authorizer: any Authorizer = AllowAllAuthorizer(), _ change: (inout OverTheAirSettings) -> Void = { _ in },
        _ body: (DeviceRig) async throws -> Result
    ) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ota-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let clock = Clock()
        let keys = try await KeyFile(
            path: folder.appendingPathComponent("keys.json").path, now: clock.now, logger: logger)
        var accounts = AppServicesSettings()
        accounts.apps[app] = AppSettings(providers: [.emailPassword])
        accounts.loginsPerMinuteMax = .max
        let services = try await AppServices(
            settings: accounts, accounts: InMemoryAccountStore(), keys: keys, passwordCost: 1, logger: logger,
            metrics: NOOPMetricsHandler.instance, unixSeconds: { clock.now })
        var settings = OverTheAirSettings()
        settings.apps[app] = OverTheAirApp(url: "/ota", dataclasses: try dataclasses())
        change(&settings)
        let wire = OverTheAirWire(
            settings: settings, services: services, authorizer: authorizer, logger: logger,
            unixSeconds: { clock.now }, preciseSeconds: { clock.preciseNow })
        var serverSettings = ServerSettings(cores: 2)
        serverSettings.shutdownSecondsMax = 1
        serverSettings.lingerSecondsMax = 1
        let (ports, onPort) = AsyncStream.makeStream(of: Int.self)
        let server = SyncServer(
            settings: serverSettings, store: InMemoryStore(), authenticator: AllowAllAuthenticator(),
            routes: wire.routes, logger: logger, metrics: NOOPMetricsHandler.instance, unixSeconds: { clock.now },
            onListening: { onPort.yield($0.port ?? 0) })
        wire.attach(to: server)
        let task = Task { try await server.run() }
        var iterator = ports.makeAsyncIterator()
        let port = await iterator.next() ?? 0
        do {
            let user = try await logIn(services).user
            let result = try await body(
                DeviceRig(port: port, services: services, wire: wire, clock: clock, user: user))
            task.cancel()
            try await task.value
            return result
        } catch {
            task.cancel()
            try? await task.value
            throw error
        }
    }

    private static func logIn(_ services: AppServices) async throws -> (user: String, token: String) {
        let path = "/api/client/v2.0/app/\(app)/auth/providers/local-userpass"
        for (name, body) in [
            ("register", #"{"email": "ann@example.com", "password": "secret-word"}"#),
            ("login", #"{"username": "ann@example.com", "password": "secret-word"}"#),
        ] {
            let response = await services.respond(
                to: EndpointRequest(method: .POST, path: "\(path)/\(name)", body: .whole(Array(body.utf8))))
            guard name == "login", case .whole(let bytes) = response.body else { continue }
            let login = try JSONValue(parsing: bytes)
            return (try #require(login["user_id"]?.string), try #require(login["access_token"]?.string))
        }
        throw CancellationError()
    }

    /// A token of the user; a new one, since the clock may have gone on.
    func token() async throws -> String { try await Self.logIn(services).token }

    var partition: PartitionValue { .string("ota/\(user)") }

    /// The file with the records of the user.
    var path: VirtualPath { VirtualPath(app: Self.app, partition: partition) }

    /// A client of Realm's wire on the same file.
    func realmClient() async throws -> TestClient {
        let client = TestClient(app: Self.app, partition: partition)
        try await client.connect(to: "ws://127.0.0.1:\(port)", token: "any")
        return client
    }

    /// A request as it comes to the URL.
    func ask(
        _ body: [UInt8], method: HTTPMethod = .POST, path: String = "/ota", authorization: String? = nil,
        cookie: String? = nil, isSecure: Bool = false
    ) async throws -> EndpointResponse {
        var headers: HTTPHeaders = [:]
        let token = try await token()
        headers.add(name: "Authorization", value: authorization ?? "Bearer \(token)")
        if let cookie { headers.add(name: "Cookie", value: "other=1; \(cookie)") }
        let endpoints = OverTheAirEndpoints(wire, app: Self.app, try #require(wire.settings.apps[Self.app]))
        return await endpoints.respond(
            to: EndpointRequest(
                method: method, path: path, headers: headers, body: .whole(body), isSecure: isSecure))
    }
}

/// A device whose messages a test writes.
struct Talker {
    let rig: DeviceRig
    var name: String
    var form = PropertyList.Form.xml
    var userID: String
    var cookie: String?
    var sequence = 0
    var commands = 0
    /// The last message as it was sent.
    private(set) var last: [UInt8] = []

    init(_ rig: DeviceRig, _ name: String = "device", _ form: PropertyList.Form = .xml) {
        (self.rig, self.name, self.form, userID) = (rig, name, form, rig.user)
    }

    /// Begins another session.
    mutating func begin() { (cookie, sequence, commands) = (nil, 0, 0) }

    mutating func item(_ command: Command, hasMore: Bool = false) -> MessageItem {
        commands += 1
        return command.item(commands, hasMore: hasMore)
    }

    mutating func send(_ commands: Command..., responses: [MessageItem] = [], isFinal: Bool = false) async throws
        -> Message
    {
        var body = responses
        for command in commands { body.append(item(command)) }
        return try await send(body, isFinal: isFinal)
    }

    mutating func send(_ body: [MessageItem], isFinal: Bool = false) async throws -> Message {
        sequence += 1
        var header = Message.Header(deviceID: name, service: "sync", userID: userID, sequence: sequence)
        header.isFinal = isFinal
        last = try Message(header: header, body: body).encoded(as: form)
        return try await post(last)
    }

    /// Sends bytes, and reads the answer.
    mutating func post(_ bytes: [UInt8]) async throws -> Message {
        let response = try await rig.ask(bytes, cookie: cookie)
        #expect(response.status == .ok)
        let type = form == .xml ? "text/xml" : "application/octet-stream"
        #expect(response.headers.first(name: "Content-Type") == type)
        if let text = response.headers.first(name: "Set-Cookie") {
            cookie = String(text.split(separator: ";")[0])
        }
        guard case .whole(let answer) = response.body else { throw CancellationError() }
        #expect(PropertyList.Form(sniffing: answer) == form)
        return try Message(parsing: answer, limits: .answers)
    }

    /// Says what the device is.
    static let info = Command.put(uri: "deviceinfo", value: ["model": "test"], itemType: nil)

    /// A whole slow sync of a device without anchors.
    /// - Returns: the answer to it.
    mutating func slow(
        _ uri: String, _ name: String, _ records: PropertyListDictionary = [:], last: String? = nil
    ) async throws -> Message {
        begin()
        return try await send(
            Self.info, .start(uri: uri, .with(.slow, next: name, last: last)),
            .changes(uri: uri, Changes(.records, records)))
    }

    /// A fast sync in one round trip.
    mutating func fast(
        _ uri: String, _ name: String, last: String, anchor: String?, _ type: Changes.ItemType = .changes,
        _ items: PropertyListDictionary = [:]
    ) async throws -> Message {
        begin()
        return try await send(
            .start(uri: uri, .with(.fast, next: name, last: last, anchor: anchor)),
            .changes(uri: uri, Changes(type, items)))
    }
}

extension Anchors {
    static func with(
        _ mode: Mode, next: String, last: String? = nil, anchor: String? = nil, _ direction: Direction? = nil
    ) -> Anchors {
        var anchors = Anchors()
        (anchors.mode, anchors.nextDeviceAnchor, anchors.lastDeviceAnchor) = (mode, next, last)
        (anchors.lastServerAnchor, anchors.direction) = (anchor, direction)
        return anchors
    }
}

extension Message {
    /// The codes of the response to a command.
    func codes(_ sequence: Int) -> [StatusCode] {
        body.first { $0.isResponse && $0.sequence == sequence }?.result?.map(\.knownCode) ?? []
    }

    func response(_ sequence: Int) -> MessageItem? { body.first { $0.isResponse && $0.sequence == sequence } }

    /// The items that the server sends of a dataclass.
    func pushed(_ uri: String) -> PropertyListDictionary {
        let command = body.first {
            !$0.isResponse && $0.name == "sync-changes" && $0.params["uri"] == .string(uri)
        }
        return command?.params["items"]?.dictionary ?? [:]
    }

    /// The anchor of a commit, or the last checkpoint.
    func anchor(_ uri: String) -> String? {
        let commands = body.filter { !$0.isResponse && $0.params["uri"] == .string(uri) }
        return commands.compactMap { $0.params["anchors"]?["next_server_anchor"]?.string }.last
    }

    func commands(_ name: String) -> [MessageItem] { body.filter { !$0.isResponse && $0.name == name } }
}

import AnabranchChunks
import AnabranchClient
import AnabranchCore
import AnabranchFilesWire
import AnabranchHistory
import AnabranchServer
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import Synchronization
import Testing

@testable import AnabranchFiles

/// A server with the wire of files on a loopback port, with a clock that tests turn.
struct FilesRig: Sendable {
    static let app = "my-app"
    static let path = VirtualPath(app: app, partition: "files")

    let server: SyncServer
    let wire: FilesWire
    let store: FolderChunkStore
    let port: Int
    let clock: Clock
    let folder: URL

    final class Clock: Sendable {
        private let seconds = Mutex(UInt64(Date().timeIntervalSince1970)), fraction = Mutex(0.0)

        var now: UInt64 { seconds.withLock { $0 } }

        /// With the fraction of the second.
        var preciseNow: Double { Double(now) + fraction.withLock { $0 } }

        func setFraction(_ fraction: Double) { self.fraction.withLock { $0 = fraction } }

        func advance(by seconds: UInt64) { self.seconds.withLock { $0 += seconds } }
    }

    /// Lets everybody in whose token is not empty, as the user that it names.
    private struct TokenIsUser: Authenticator {
        func admit(_ credentials: Credentials) async -> Admission {
            credentials.token.isEmpty
                ? .tokenRefused(reason: "none") : .admitted(Principal(app: credentials.app, user: credentials.token))
        }
    }

    /// Runs a server for as long as `body` takes.
    /// - Parameters:
    ///   - endedUsesMax: `FilesSettings.endedUsesMax`.
    ///   - authorizer: by the names of users.
    ///   - freeBytesMin: `ServerSettings.freeBytesMin`.
    ///   - wrap: puts something around the store of chunks.
    static func run<Result>(
        quotaBytes: Int64 = 10 << 30, endedUsesMax: Int = 10_000,
        authorizer: any Authorizer = AllowAllAuthorizer(), in folder: URL? = nil,
        history: any HistoryStore & HistoryCatalog = InMemoryStore(), freeBytesMin: Int = 256 << 20,
        wrap: (FolderChunkStore) -> any ChunkStore = { $0 }, _ body: (FilesRig) async throws -> Result
    ) async throws -> Result {
        let made = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID().uuidString)")
        let folder = folder ?? made
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: made) }
        var settings = FilesSettings()
        settings.apps[app] = FilesApp()
        settings.apps[app]?.quotaBytes = quotaBytes
        settings.endedUsesMax = endedUsesMax
        let clock = Clock(), logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let chunks = FolderChunkStore(folder: folder.appendingPathComponent("chunks").path)
        let authenticator = TokenIsUser()
        let wire = FilesWire(
            settings: settings, store: wrap(chunks), catalog: history, authenticator: authenticator,
            authorizer: authorizer,
            logger: logger, unixSeconds: { clock.now }, preciseSeconds: { clock.preciseNow })
        var serverSettings = ServerSettings(cores: 2)
        serverSettings.handshakeSecondsMax = 30 * 60
        serverSettings.lingerSecondsMax = 1
        serverSettings.shutdownSecondsMax = 1
        serverSettings.connectionsPerUserMax = 1_000
        serverSettings.connectionsPerAddressMax = .max
        serverSettings.freeBytesMin = freeBytesMin
        let server = SyncServer(
            settings: serverSettings, store: history, authenticator: authenticator, routes: wire.routes,
            authorizer: authorizer, logger: logger, unixSeconds: { clock.now })
        wire.attach(to: server)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            defer { group.cancelAll() }
            let port = try #require(try await server.listening().port)
            return try await body(
                FilesRig(server: server, wire: wire, store: chunks, port: port, clock: clock, folder: folder))
        }
    }

    // MARK: HTTP

    /// Sends a request for a user.
    func send(
        _ method: String, _ name: String, user: String = "ann", body: [UInt8] = [], query: String = "path=%22files%22",
        headers: [(String, String)] = []
    ) async throws -> HTTPAnswer {
        var sender = NIOHTTPSender()
        sender.answerBytesMax = 5 << 20
        var call = HTTPCall(
            method: method, url: "http://127.0.0.1:\(port)/files/\(Self.app)/\(name)?\(query)", body: body)
        call.headers = headers.map { (name: $0.0, value: $0.1) }
        if !user.isEmpty { call.headers.append((name: "Authorization", value: "Bearer \(user)")) }
        return try await sender.send(call)
    }

    /// The status of a request.
    func status(
        _ method: String, _ name: String, user: String = "ann", body: [UInt8] = [], query: String = "path=%22files%22"
    ) async throws -> Int {
        try await send(method, name, user: user, body: body, query: query).status
    }

    func missing(_ chunks: [ChunkHash], user: String = "ann") async throws -> [String] {
        let asked = JSONValue.array(chunks.map { .string($0.description) })
        let answer = try await send("POST", "chunks/missing", user: user, body: Array(asked.encoded.utf8))
        #expect(answer.status == 200)
        return try JSONValue(parsing: answer.body).array?.compactMap(\.string) ?? []
    }

    // MARK: Devices

    /// A device with a space that syncs.
    func device(
        _ name: String, in folder: URL? = nil, partition: String = "files", clockSeconds: Double = 0,
        contentPort: Int? = nil, change: (inout SpaceSettings) -> Void = { _ in }
    ) async throws -> SpaceDevice {
        try await SpaceDevice(
            name, folder ?? self.folder.appendingPathComponent("\(name)-\(UUID().uuidString)"), port: port,
            partition: partition, clockSeconds: clockSeconds, contentPort: contentPort, change)
    }
}

/// A store with a space, and a client of a server in this process.
struct SpaceDevice: Sendable {
    let store: SyncedStore
    let space: FileSpace
    let client: SyncClient
    let folder: URL
    private let partition: PartitionValue

    /// - Parameters:
    ///   - clockSeconds: by how much its clock is ahead.
    ///   - contentPort: where contents are kept; nil for `port`.
    init(
        _ name: String, _ folder: URL, port: Int, partition: String = "files", clockSeconds: Double = 0,
        contentPort: Int? = nil, _ change: (inout SpaceSettings) -> Void = { _ in }
    ) async throws {
        self.folder = folder
        self.partition = .string(partition)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let replica = try SyncedReplica(path: folder.appendingPathComponent("store").path) {
            ChangesetTime(secondsSince1970: Date().timeIntervalSince1970 + clockSeconds)
        }
        store = try await SyncedStore(replica, [])
        var settings = SpaceSettings()
        settings.deviceName = name
        settings.now = { Date(timeIntervalSinceNow: clockSeconds) }
        change(&settings)
        space = try await FileSpace(
            store, folder: folder.appendingPathComponent("contents").path,
            service: FileService(
                server: "http://127.0.0.1:\(contentPort ?? port)", app: FilesRig.app, partition: .string(partition),
                token: "ann"),
            settings: settings)
        client = SyncClient(
            SyncConfiguration(FixedRoute(server: "ws://127.0.0.1:\(port)", app: FilesRig.app, token: "ann")))
    }

    func connect() async throws { try await client.add(store, partition: partition) }

    func disconnect() async { await client.remove(store) }

    /// Has the server and this device know the same.
    func synchronize() async throws {
        try await space.waitForUpload()
        try await store.wait(for: .download)
    }

    func close() async throws {
        try await space.close()
        await client.stop()
        try await store.close()
    }

    // MARK: Short forms

    func put(_ path: String, _ text: String) async throws {
        let path = try SpacePath(path)
        let file: SpaceFile
        do { file = try space.open(path) } catch { file = try await space.create(path) }
        if file.size > 0 { _ = try await file.read() }
        try await file.write(string: text)
        file.close()
    }

    func text(_ path: String) async throws -> String {
        let file = try space.open(try SpacePath(path))
        defer { file.close() }
        return try await file.readString()
    }

    /// All paths with the texts of files; folders end with a slash.
    func tree() async throws -> [String: String] {
        var tree: [String: String] = [:]
        for entry in try space.everything() {
            tree["\(entry.path)" + (entry.isFolder ? "/" : "")] =
                entry.isFolder ? "" : try await text("\(entry.path)")
        }
        return tree
    }
}

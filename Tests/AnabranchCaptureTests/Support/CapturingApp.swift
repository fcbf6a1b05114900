@testable import AnabranchCapture
import AnabranchClient
import AnabranchHistory
import AnabranchServer
import Foundation
import Logging
import NIOCore
import Testing

/// An application with a database of its own, a connection to it, and the capture that runs beside.
final class CapturingApp {
    let path: String
    /// The application's own connection.
    let db: SQLConnection
    private(set) var capture: RowCapture?
    private var client: SyncClient?
    private let port: Int
    /// The partition that it is synchronized with from the next `open` on, as text of JSON.
    var partition: String
    /// True if it is synchronized by subscriptions.
    var isFlexible = false
    /// True if rows win over the objects that they are matched with.
    var rowsWin = false

    init(_ name: String, in world: CaptureWorld, _ schema: String, partition: String = "rows") throws {
        self.partition = "\"\(partition)\""
        path = world.folder.appendingPathComponent("\(name).sqlite").path
        port = world.port
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        db = try SQLConnection(path: path)
        try db.execute(schema)
    }

    var database: CapturedDatabase { get throws { try CapturedDatabase(path: path) } }

    func install(_ tables: [String], rules: [String: TableRule] = [:]) throws {
        try database.install(tables, rules: rules)
    }

    /// Has capture run from now on, with the server or without.
    func open(online: Bool = true) async throws {
        if capture == nil { capture = try RowCapture(database: path, replica: path + ".replica", rowsWin: rowsWin) }
        if !online {
            await client?.stop()
            client = nil
        } else if client == nil, let capture {
            let route = FixedRoute(server: "ws://127.0.0.1:\(port)", app: isFlexible ? "flex" : "parts")
            let client = SyncClient(SyncConfiguration(route, mode: isFlexible ? .flexible : .partition))
            if isFlexible {
                try await client.add(capture.replica)
            } else {
                try await client.add(capture.replica, partition: partition)
            }
            self.client = client
        }
    }

    /// One exchange with the server.
    @discardableResult
    func synchronize() async throws -> CaptureProgress {
        if capture == nil { try await open() }
        return try await #require(capture).synchronize()
    }

    func close() async throws {
        await client?.stop()
        try await capture?.close()
        (client, capture) = (nil, nil)
    }

    /// Has the process end when the replica has made a transaction of which the map does not know yet.
    func endInTheMiddleOfAStep() async throws {
        try db.execute(
            """
            CREATE TRIGGER stop BEFORE INSERT ON sync_state WHEN NEW.name = 'collected'
            BEGIN SELECT RAISE(ABORT, 'it ends'); END
            """)
        await #expect(throws: CaptureError.self) { try await #require(capture).pass() }
        try await close()
        try db.execute("DROP TRIGGER stop")
    }

    func removeReplica() throws {
        let replica = URL(filePath: path + ".replica"), folder = replica.deletingLastPathComponent()
        for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        where file.lastPathComponent.hasPrefix(replica.lastPathComponent) {
            try FileManager.default.removeItem(at: file)
        }
    }

    /// Rows as texts, with `|` between values.
    func rows(_ sql: String) throws -> [String] {
        try db.rows(sql).map { row in
            row.map { value in
                switch value {
                case .null: "∅"
                case .int(let number): "\(number)"
                case .real(let number): "\(number)"
                case .text(let bytes): String(decoding: bytes, as: UTF8.self)
                case .blob(let bytes): "x" + bytes.map { String($0, radix: 16) }.joined()
                }
            }.joined(separator: "|")
        }
    }

    /// The objects of the rows of a table, in the order of their numbers.
    func objects(_ table: String) throws -> [String] {
        try rows(
            """
            SELECT hex(guid) FROM \(table) JOIN sync_row ON key = \(table).id
            AND tbl = (SELECT id FROM sync_table WHERE name = '\(table)') ORDER BY \(table).id
            """)
    }

    /// The entries of the history that the server has not confirmed, or that are own ones.
    func waitingCount() throws -> Int64? { try db.value("SELECT count(*) FROM sync_pending")?.int }

    func uncollected() throws -> Int64? {
        try db.value(
            """
            SELECT count(*) FROM sync_history
            WHERE id > (SELECT value FROM sync_state WHERE name = 'collected') AND action > 0
            """)?.int
    }
}

/// A server in this process, and a folder.
struct CaptureWorld {
    let folder: URL
    let port: Int

    static func run<Result>(_ body: (CaptureWorld) async throws -> Result) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("capture-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var settings = ServerSettings(cores: 2)
        settings.port = 0
        settings.lingerSecondsMax = 1
        settings.shutdownSecondsMax = 2
        settings.flexibleApps = ["flex"]
        let server = SyncServer(
            settings: settings, store: InMemoryStore(), authenticator: AllowAllAuthenticator(),
            authorizer: AllowAllAuthorizer(),
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            defer { group.cancelAll() }
            return try await body(CaptureWorld(folder: folder, port: try #require(try await server.listening().port)))
        }
    }

    /// Two databases with the same schema, in which capture is installed.
    static func pair(
        _ schema: String, _ tables: [String], rules: [String: TableRule] = [:],
        _ body: (CapturingApp, CapturingApp) async throws -> Void
    ) async throws {
        try await run { world in
            let a = try CapturingApp("a", in: world, schema), b = try CapturingApp("b", in: world, schema)
            for app in [a, b] { try app.install(tables, rules: rules) }
            try await body(a, b)
            for app in [a, b] { try await app.close() }
        }
    }
}

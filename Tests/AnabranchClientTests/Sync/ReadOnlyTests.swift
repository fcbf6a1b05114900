import AnabranchClient
import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting
import Foundation
import Synchronization
import Testing

/// Users who may only read, whose files begin with the schema of their app: whatever of it the server has, and whatever
/// a client reset would do, they read on, and only data are refused (`Spec/Server.md`, section 3).
@Suite(.timeLimit(.minutes(30))) struct ReadOnlyTests {
    /// The app's part of the server's schema.
    enum Schema: CaseIterable {
        case same, part, more

        func declare(_ tx: WriteTransaction) throws {
            try tx.addClass("Task", key: "_id", .int)
            guard self != .part else { return }
            try tx.addColumn("text", .string, to: "Task")
            try tx.addColumn("number", .int, to: "Task")
            guard self == .more else { return }
            try tx.addColumn("more", .string, isNullable: true, to: "Task")
            try tx.addClass("Other", key: "_id", .int)
            try tx.addColumn("x", .int, to: "Other")
        }
    }

    private static let modes: [ResetMode] = [.manual, .discardLocal, .recover, .recoverOrDiscard]

    private static func write(_ key: Int64, on server: SyncServer, _ mode: SyncMode) async throws {
        let path =
            mode == .flexible
            ? VirtualPath(app: Device.flexibleApp) : VirtualPath(app: "parts", partition: .string("tasks"))
        try await server.write(to: path) { tx in
            try Device.declare(tx)
            try tx.create("Task", key: .int(key), ["text": .string(Array("of the server".utf8))])
        }
    }

    /// A role that reads everything, and writes nothing.
    private static func readOnlyApp(in folder: String) async throws -> AppExports {
        let role = """
            {"roles": [{"name": "all", "apply_when": {}, "document_filters": {"read": true, "write": false},
            "read": true, "write": false, "insert": false, "delete": false}]}
            """
        for (name, text) in [
            ("data_sources/db/shop/Task/rules.json", role), ("sync/config.json", #"{"type": "flexible"}"#),
        ] {
            let url = URL(filePath: folder).appending(path: name)
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: url)
        }
        return try await AppExports(directories: [Device.flexibleApp: folder], logger: .quiet)
    }

    private static func connect(_ device: Device, _ schema: Schema, _ reset: ResetMode) async throws {
        try await device.replica.write { try schema.declare($0) }
        if device.mode == .flexible { try await device.replica.subscribe([Subscription("Task")]) }
        try await device.connect(reset)
        try await device.settle()
    }

    /// The events of client resets and of the end of the synchronization until it is `isOver`.
    private static func events(
        of events: AsyncStream<ReplicaEvent>, until isOver: (ReplicaEvent) -> Bool
    ) async -> (resets: Int, stops: Int) {
        var resets = 0, stops = 0
        for await event in events {
            if case .resetBegins(let error) = event {
                resets += 1
                #expect(error?.reason.contains("write not allowed") == true, "\(String(describing: error))")
            }
            if event.stop != nil { stops += 1 }
            if isOver(event) { break }
        }
        return (resets, stops)
    }

    @Test(arguments: Schema.allCases, modes) func aReaderOfAPartitionReadsOn(
        _ schema: Schema, _ reset: ResetMode
    ) async throws {
        let authorizer = CallbackAuthorizer { _, _ in .read }
        try await withFolder { path async throws in
            try await withServer(authorizer: authorizer) { server, port async throws in
                try await Self.write(1, on: server, .partition)
                let reader = try Device(path("reader"), port: port)
                let seen = await reader.replica.events()
                try await Self.connect(reader, schema, reset)
                #expect(try await reader.tasks == [1])
                try await Self.write(2, on: server, .partition)
                try await reader.settle()
                #expect(try await reader.tasks == [1, 2])
                #expect(await reader.replica.unacknowledged.changesets == 0, "its schema is acknowledged")
                // A schema is not a write, but this is.
                try await reader.replica.write { tx in _ = try tx.create("Task", key: 9) }
                let end = await Self.events(of: seen) { event in
                    event.stop != nil || event.report.map { $0.discardedTransactions > 0 } ?? false
                }
                switch reset {
                // What would be recovered would be refused as well.
                case .manual, .recover: #expect(end == (0, 1))
                case .discardLocal, .recoverOrDiscard: #expect(end == (1, 0))
                }
                if end.stops == 0 {
                    try await Self.write(3, on: server, .partition)
                    try await reader.settle()
                    #expect(try await reader.tasks == [1, 2, 3])
                }
                try await reader.close()
            }
        }
    }

    /// A user who may write later uploads what only its app knows of, without a client reset.
    @Test(arguments: modes) func aReaderWhoMayWriteLaterWrites(_ reset: ResetMode) async throws {
        let right = Right()
        let authorizer = CallbackAuthorizer { _, _ in right.permission.withLock { $0 } }
        try await withFolder { path async throws in
            try await withServer(authorizer: authorizer) { server, port async throws in
                try await Self.write(1, on: server, .partition)
                let reader = try Device(path("reader"), port: port)
                let seen = await reader.replica.events()
                try await Self.connect(reader, .more, reset)
                right.permission.withLock { $0 = .write }
                authorizer.changed()
                try await reader.replica.write { tx in
                    try tx.create("Task", key: 2, ["more": .string(Array("new".utf8))])
                    try tx.create("Other", key: 1, ["x": .int(7)])
                }
                try await reader.settle()
                let other = try Device(path("other"), port: port)
                try await other.connect()
                try await other.settle()
                #expect(try await other.tasks == [1, 2])
                #expect(try await other.replica.read { try $0.object("Other", key: 1)?.value("x") } == .int(7))
                #expect(try await other.state == reader.state)
                try await other.close()
                try await reader.close()
                let end = await Self.events(of: seen) { _ in false }
                #expect(end == (0, 0))
            }
        }
    }

    private final class Right: Sendable {
        let permission = Mutex(Permission.read)
    }

    @Test(arguments: Schema.allCases, modes) func aReaderWithSubscriptionsReadsOn(
        _ schema: Schema, _ reset: ResetMode
    ) async throws {
        try await withFolder { path async throws in
            let exports = try await Self.readOnlyApp(in: path("app"))
            try await withServer(exports: exports) { server, port async throws in
                try await Self.write(1, on: server, .flexible)
                let reader = try Device(path("reader"), port: port, .flexible)
                let seen = await reader.replica.events()
                try await Self.connect(reader, schema, reset)
                #expect(try await reader.tasks == [1])
                try await Self.write(2, on: server, .flexible)
                try await reader.settle()
                #expect(try await reader.tasks == [1, 2])
                try await reader.replica.write { tx in _ = try tx.create("Task", key: 9) }
                let end = await Self.events(of: seen) { $0.undone != nil || $0.stop != nil }
                #expect(end == (0, 0))
                try await Self.write(3, on: server, .flexible)
                try await reader.settle()
                #expect(try await reader.tasks == [1, 2, 3])
                try await reader.close()
            }
        }
    }
}

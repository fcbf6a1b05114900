import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Foundation
import Synchronization
import Testing

@testable import AnabranchServer

/// A user who may not read is told 206, one who may only read is told 230 upon a write (`Spec/Protocol.md`, section
/// 7.1).
@Suite struct PermissionTests {
    /// Permissions by partition, which tests change.
    private final class Table: Sendable {
        private let permissions: Mutex<[String: Permission]>

        init(_ permissions: [String: Permission]) { self.permissions = Mutex(permissions) }

        subscript(path: String) -> Permission {
            get { permissions.withLock { $0[path] ?? .none } }
            set { permissions.withLock { $0[path] = newValue } }
        }

        func permission(_ principal: Principal, _ partition: [UInt8]) -> Permission {
            self[String(decoding: partition, as: UTF8.self)]
        }
    }

    private static let emptyUpload = "upload 1 0 0 0 0 0 0\n"
    /// An UPLOAD of changesets with the client versions 1, 2 and so on.
    private static func upload(_ changesets: [NamedInstruction]..., after version: UInt64 = 0) -> [UInt8] {
        var body: [UInt8] = []
        for (number, instructions) in zip((version + 1)..., changesets) {
            let changeset = ChangesetWriter(instructions).bytes
            body += Array("\(number) 0 1000 0 \(changeset.count) ".utf8) + changeset
        }
        return Array("upload 1 0 \(body.count) 0 \(version + UInt64(changesets.count)) 0 0\n".utf8) + body
    }

    private static let schema: [NamedInstruction] = [.addTable("A"), .addColumn("A", "n")]
    private static let data: [NamedInstruction] = [.createObject()]

    private static func client(
        _ server: RunningServer, offer: String = "com.mongodb.realm-sync#14"
    ) async throws -> WebSocketClient {
        try await WebSocketClient.open(port: server.port, offer: offer)
    }

    @Test func withoutPermissionASessionIsRefusedAndTheConnectionLives() async throws {
        try await withServer(authorizer: CallbackAuthorizer(Table(["x": .none]).permission)) { server async throws in
            let client = try await Self.client(server)
            try await client.send("bind 1 1 0 1 0\nx")
            let refusal = try await client.message()
            #expect(refusal.words.prefix(2) == ["json_error", "206"])
            try await client.send("ping 1 0\n")
            #expect(try await client.message().words == ["pong", "1"])
        }
    }

    /// Clients of before 12.6 would delete their file upon 206 (section 7.1).
    @Test func anOldClientIsToldLess() async throws {
        try await withServer(authorizer: CallbackAuthorizer(Table(["x": .none]).permission)) { server async throws in
            let client = try await Self.client(server, offer: "com.mongodb.realm-sync/4")
            try await client.send("bind 1 1 0 1 0\nx")
            #expect(try await client.message().words.prefix(2) == ["json_error", "201"])
        }
    }

    @Test func aReaderReadsAndMayNotWrite() async throws {
        try await withServer(authorizer: CallbackAuthorizer(Table(["x": .read]).permission)) { server async throws in
            let client = try await Self.client(server)
            try await Self.run(client)
            try await client.send(Self.emptyUpload)
            try await client.send("mark 1 5\n")
            #expect(try await client.message().words.prefix(1) == ["mark"])
            try await client.send(Self.upload(Self.schema, Self.data))
            let refusal = try await client.message()
            #expect(refusal.words.prefix(2) == ["json_error", "230"])
            #expect(String(decoding: refusal.bytes, as: UTF8.self).contains("\"table\":\"A\""))
        }
    }

    /// Every SDK uploads the schema of its app first: the one that is there, a part of it, more than it, or that of a
    /// partition which nobody has written yet.
    @Test(arguments: [
        schema, [.addTable("A")], schema + [.addColumn("A", "m", .string), .addTable("B"), .addColumn("B", "x")],
    ])
    func aReaderWithASchemaReadsOn(own: [NamedInstruction]) async throws {
        for isWritten in [true, false] {
            let table = Table(["x": .write])
            try await withServer(authorizer: CallbackAuthorizer(table.permission)) { server async throws in
                let writer = try await Self.client(server)
                try await Self.run(writer)
                if isWritten {
                    try await writer.send(Self.upload(Self.schema, Self.data))
                    #expect(try await writer.message().words.first == "download")
                }
                table["x"] = .read
                let reader = try await Self.client(server)
                try await Self.run(reader)
                try await reader.send(Self.upload(own))
                try await reader.send("mark 1 5\n")
                var words = try await reader.message().words
                // It is told what the partition does not get, and that its upload has been seen.
                while ["log_message", "download"].contains(words.first) { words = try await reader.message().words }
                #expect(words.first == "mark")
                let last = isWritten ? "4" : "2"
                table["x"] = .write
                try await writer.send(Self.upload(Self.schema, after: isWritten ? 2 : 0))
                #expect(try await writer.message().words.first == "download")
                repeat {
                    words = try await reader.message().words
                } while words.first == "log_message" || words.first == "download" && words[2] != last
                #expect(words.first == "download" && words[6] == "1", "its own version 1 is acknowledged")
            }
        }
    }

    /// What of a reader's schema the partition did not get comes with the first write that needs it.
    @Test func aReaderWhoMayWriteLaterBringsHisSchema() async throws {
        let table = Table(["x": .write])
        try await withServer(authorizer: CallbackAuthorizer(table.permission)) { server async throws in
            let writer = try await Self.client(server)
            try await Self.run(writer)
            try await writer.send(Self.upload(Self.schema))
            #expect(try await writer.message().words.first == "download")
            table["x"] = .read
            let reader = try await Self.client(server)
            try await Self.run(reader)
            try await reader.send(Self.upload(Self.schema + [.addTable("B")]))
            #expect(try await reader.message().words.first == "log_message")
            table["x"] = .write
            let object = ObjectName(className: "B", key: .int(1))
            try await reader.send(Self.upload([.createObject(object)], after: 1))
            var words = try await reader.message().words
            while words.first == "download", words[6] == "1" { words = try await reader.message().words }
            #expect(words.first == "download" && words[6] == "2", "its version 2 is acknowledged")
            var added = try await writer.message()
            while !String(decoding: added.bytes, as: UTF8.self).contains("B") { added = try await writer.message() }
            #expect(added.words.first == "download")
        }
    }

    /// A class that the partition has otherwise is a mistake, as for those who may write.
    @Test func aReaderWhoseSchemaContradictsIsTold() async throws {
        let table = Table(["x": .write])
        try await withServer(authorizer: CallbackAuthorizer(table.permission)) { server async throws in
            let writer = try await Self.client(server)
            try await Self.run(writer)
            try await writer.send(Self.upload(Self.schema))
            #expect(try await writer.message().words.first == "download")
            table["x"] = .read
            let reader = try await Self.client(server)
            try await Self.run(reader)
            try await reader.send(Self.upload([.addTable("A"), .addColumn("A", "n", .string)]))
            #expect(try await reader.message().words.prefix(2) == ["json_error", "212"])
        }
    }

    @Test func aWithdrawnPermissionEndsTheSession() async throws {
        let table = Table(["x": .write])
        let authorizer = CallbackAuthorizer(table.permission)
        try await withServer(authorizer: authorizer) { server async throws in
            let client = try await Self.client(server)
            try await Self.run(client)
            table["x"] = .none
            authorizer.changed()
            #expect(try await client.message().words.prefix(2) == ["json_error", "206"])
            table["x"] = .write
            try await client.send("unbind 1\n")
            let again = try await Self.client(server)
            try await Self.run(again)
        }
    }

    @Test func aChangedFileTakesEffect() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("rules-\(UUID().uuidString)").path
        func write(_ right: String) throws {
            try "rules: [{path: x, right: \(right)}]".write(toFile: path, atomically: true, encoding: .utf8)
        }
        try write("read")
        let authorizer = try await RuleFileAuthorizer(path: path, logger: .quiet)
        try await withServer(authorizer: authorizer) { server async throws in
            let client = try await Self.client(server)
            try await Self.run(client)
            try write("nonsense")
            #expect(await !authorizer.refresh())
            #expect(authorizer.permission(for: Principal(app: ""), on: Array("x".utf8)) == .read)
            try write("none")
            #expect(try await client.message().words.prefix(2) == ["json_error", "206"])
        }
    }

    /// BIND, IDENT and the first DOWNLOAD.
    private static func run(_ client: WebSocketClient) async throws {
        try await client.send("bind 1 1 0 1 0\nx")
        let ident = try await client.message().words
        try await client.send("ident 1 \(ident[2]) \(ident[3]) 0 0 0 0\n")
        #expect(try await client.message().words.first == "download")
    }
}

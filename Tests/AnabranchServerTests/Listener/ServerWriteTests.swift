import AnabranchCore
import AnabranchHistory
import Foundation
import Testing

@testable import AnabranchServer

/// Writes of the server itself while clients are connected (`Spec/History.md`, section 17).
@Suite(.timeLimit(.minutes(30))) struct ServerWriteTests {
    private static let path = VirtualPath("//notes")

    @Test("a write reaches the clients that have the file open, and those that come later")
    func clientsDownload() async throws {
        try await withServer { server in
            let early = SyncClient(partition: "/notes") { server.port }
            try await early.reconnect()
            let made = try await server.server.write(to: Self.path, idempotencyKey: "welcome") { tx in
                try tx.addClass("Note", key: "_id", .int)
                _ = try tx.create("Note", key: 1)
            }
            #expect(made.version == 1 && !made.isRepetition)
            try await early.receive()
            let late = SyncClient(partition: "/notes") { server.port }
            try await late.reconnect()
            for client in [early, late] {
                #expect(client.received.map(\.cursor.serverVersion) == [1])
                #expect(client.received.map(\.tag.ident) == [1])
            }
            let again = try await server.server.write(to: Self.path, idempotencyKey: "welcome") { _ in }
            #expect(again.version == 1 && again.isRepetition)
        }
    }

    @Test("many writes at once and uploads between them enter one log")
    func manyAtOnce() async throws {
        let store = InMemoryStore()
        try await withServer(store: store) { server in
            let client = SyncClient(partition: "/notes") { server.port }
            try await client.reconnect()
            let versions = try await withThrowingTaskGroup(of: ServerVersion.self) { group in
                for number in 0..<40 {
                    group.addTask {
                        try await server.server.write(to: Self.path) { tx in
                            try tx.addClass("Note", key: "_id", .int)
                            _ = try tx.create("Note", key: .int(Int64(number)))
                        }.version
                    }
                }
                client.change(Changesets.large(1000, seed: 1), at: 1)
                try await client.upload()
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(versions).count == 40)
            try await client.waitForAcknowledgement()
        }
        let file = try SyncedFile(path: Self.path, store: store)
        #expect(try file.log().count == 41)
        #expect(try file.withState { try $0.read { try $0.objects("Note").count } } == 40)
    }

    @Test("what makes no sense throws, and nobody is told of anything")
    func misuse() async throws {
        try await withServer { server in
            let error = await #expect(throws: ApplyError.self) {
                try await server.server.write(to: Self.path) { _ = try $0.create("Note", key: 1) }
            }
            #expect(error?.description == "Note: no such class")
            let client = SyncClient(partition: "/notes") { server.port }
            try await client.reconnect()
            #expect(client.received.isEmpty)
        }
    }

    @Test("a server that does not run writes nothing")
    func notRunning() async throws {
        let server = try await withServer { $0.server }
        await #expect(throws: SyncServerError.notRunning) {
            try await server.write(to: Self.path) { _ in }
        }
    }
}

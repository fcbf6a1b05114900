import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTestClient
import Foundation
import Testing

@testable import AnabranchServer

/// The client that those who embed the server test it with.
@Suite(.timeLimit(.minutes(30))) struct TestClientTests {
    private static let path = VirtualPath(app: "my-app", partition: "notes")

    private static func client() -> TestClient { TestClient(app: "my-app", partition: "notes") }

    private static func addNote(_ transaction: WriteTransaction) throws {
        try transaction.addClass("Note", key: "_id", .int)
        try transaction.addColumn("text", .string, to: "Note")
        try transaction.addColumn("tags", .string, collection: .list, to: "Note")
        if try transaction.object("Note", key: 1) == nil { _ = try transaction.create("Note", key: 1) }
    }

    private static func tags(_ transaction: WriteTransaction) throws -> [String] {
        try transaction.object("Note", key: 1)?.list("tags").values.compactMap(String.init(payload:)) ?? []
    }

    private static func text(_ transaction: WriteTransaction) throws -> String? {
        try transaction.object("Note", key: 1)?["text"]
    }

    @Test func clientsAndServerComeToOneState() async throws {
        try await withServer { server in
            let url = "ws://127.0.0.1:\(server.port)", ann = Self.client(), ben = Self.client()
            try await server.server.write(to: Self.path) { try Self.addNote($0) }
            for client in [ann, ben] {
                try await client.connect(to: url)
                try await client.download()
            }
            #expect(await Set([ann.ident, ben.ident]).count == 2)
            // Neither knows what the other does.
            try await ann.write { try $0.object("Note", key: 1)?.list("tags").append("ann") }
            try await ben.write { try $0.object("Note", key: 1)?.list("tags").append("ben") }
            #expect(try await ben.read(Self.tags) == ["ben"])
            for client in [ann, ben, ann] {
                try await client.upload()
                try await client.download()
            }
            let tags = try await ann.read(Self.tags)
            #expect(tags.sorted() == ["ann", "ben"])
            #expect(try await ben.read(Self.tags) == tags)
            let there = try await server.server.read(Self.path) { state in
                try state.object("Note", key: 1)?.list("tags").values.compactMap(String.init(payload:))
            }
            #expect(there == tags)
        }
    }

    @Test func whatWasWrittenOffLineIsUploadedLater() async throws {
        let store = InMemoryStore(), ann = Self.client()
        try await withServer(store: store) { server in
            try await ann.connect(to: "ws://127.0.0.1:\(server.port)")
            try await ann.write { try Self.addNote($0) }
            await ann.disconnect()
        }
        #expect(await !ann.isConnected)
        try await ann.write { try $0.object("Note", key: 1)?["text"] = "written offline" }
        try await withServer(store: store) { server in
            try await ann.connect(to: "ws://127.0.0.1:\(server.port)")
            try await ann.upload()
            let ben = Self.client()
            try await ben.connect(to: "ws://127.0.0.1:\(server.port)")
            try await ben.download()
            #expect(try await ben.read(Self.text) == "written offline")
        }
    }

    @Test func aClientWaitsForWhatOthersWrite() async throws {
        try await withServer { server in
            let ann = Self.client()
            try await server.server.write(to: Self.path) { try Self.addNote($0) }
            try await ann.connect(to: "ws://127.0.0.1:\(server.port)")
            try await ann.download()
            async let news: Void = ann.wait { try Self.text($0) == "news" }
            try await server.server.write(to: Self.path) { try $0.object("Note", key: 1)?["text"] = "news" }
            try await news
        }
    }

    @Test func aRefusalHasItsCode() async throws {
        let nobody = CallbackAuthorizer { _, _ in .none }
        try await withServer(authorizer: nobody) { server in
            let error = await #expect(throws: TestClientError.self) {
                try await Self.client().connect(to: "ws://127.0.0.1:\(server.port)")
            }
            #expect(error?.code == .permissionDenied)
        }
    }

    @Test func aDeletedPartitionMeansAReset() async throws {
        try await withServer { server in
            let url = "ws://127.0.0.1:\(server.port)", ann = Self.client()
            try await ann.connect(to: url)
            try await ann.write { try Self.addNote($0) }
            try await ann.upload()
            #expect(try await server.server.delete(Self.path))
            let error = await #expect(throws: TestClientError.self) {
                try await ann.wait { _ in false }
            }
            #expect(error?.code?.action == .clientReset)
            await ann.reset()
            try await ann.connect(to: url)
            try await ann.download()
            #expect(try await ann.read { $0.classNames }.isEmpty)
        }
    }

    @Test func callsThatCannotWorkSaySo() async throws {
        let ann = Self.client()
        #expect(await ann.ident == nil)
        await #expect(throws: TestClientError.self) { try await ann.write { _ in } }
        await #expect(throws: TestClientError.self) { try await ann.download() }
        await #expect(throws: TestClientError.self) { try await ann.connect(to: "http://127.0.0.1:1") }
        await #expect(throws: TestClientError.self) { try await ann.connect(to: "ws://127.0.0.1:1") }
    }

    @Test func aCallEndsWithItsTaskAndTheNextOneWorks() async throws {
        try await withServer { server in
            let ann = Self.client()
            try await ann.connect(to: "ws://127.0.0.1:\(server.port)")
            let waiting = Task { try await ann.wait { _ in false } }
            waiting.cancel()
            await #expect(throws: TestClientError.self) { try await waiting.value }
            try await ann.write { try Self.addNote($0) }
            try await ann.upload()
            try await ann.download()
        }
    }
}

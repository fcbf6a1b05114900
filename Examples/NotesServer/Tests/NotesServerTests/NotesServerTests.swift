import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchTestClient
import Foundation
import Testing

@testable import NotesServer

@Suite(.timeLimit(.minutes(30))) struct NotesServerTests {
    /// Runs the server and the counter as long as `body` takes, and gives it the address.
    private func withServer(
        store: any HistoryStore = InMemoryStore(), _ body: @Sendable (_ url: String) async throws -> Void
    ) async throws {
        let server = NotesServer.makeServer(store: store, port: 0)
        let run = Task { try await server.run() }
        let counter = Task { try await WordCounter(server: server).run() }
        let port = try await server.listening().port ?? 0
        try await body("ws://127.0.0.1:\(port)")
        counter.cancel()
        _ = await counter.result
        run.cancel()
        try await run.value
    }

    @Test func theWordsOfANoteAreCountedForItsReaders() async throws {
        try await withServer { url in
            let ann = TestClient(app: "notes", partition: "team")
            let ben = TestClient(app: "notes", partition: "team")
            try await ann.connect(to: url, token: "token-of-ann")
            try await ben.connect(to: url, token: "token-of-ben")
            for client in [ann, ben] { try await client.wait { $0.classNames.contains("Note") } }

            let id = UUID()
            try await ann.write { tx in
                try tx.create("Note", key: PrimaryKey(id))["text"] = "water the plants"
            }
            try await ann.upload()
            try await ben.wait { tx in try tx.object("Note", key: PrimaryKey(id))?["words"] == 3 }
        }
    }

    /// A program without a sync client: `curl`. What it sends is a note like any other.
    @Test func notesComeInOverHTTP() async throws {
        try await withServer { url in
            let ben = TestClient(app: "notes", partition: "team")
            try await ben.connect(to: url, token: "token-of-ben")
            try await ben.wait { $0.classNames.contains("Note") }
            let address = url.replacing("ws:", with: "http:") + "/notes"
            #expect(try await Self.curl(["--data", "hello", address]) == "who are you?")
            let token = ["--header", "Authorization: Bearer token-of-ann"]
            #expect(try await Self.curl(token + [address]) == "POST a text")
            let answer = try await Self.curl(token + ["--data", "feed the cat", address])
            let id = try #require(UUID(uuidString: answer))
            try await ben.wait { tx in try tx.object("Note", key: PrimaryKey(id))?["words"] == 3 }
            let keys = try await ben.read { tx in try tx.objects("Note").compactMap(\.key).map { UUID(key: $0) } }
            #expect(keys == [id])
        }
    }

    private static func curl(_ arguments: [String]) async throws -> String {
        let process = Process(), output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["curl", "--silent", "--max-time", "60"] + arguments
        process.standardOutput = output
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            process.terminationHandler = { _ in continuation.resume() }
            do { try process.run() } catch { continuation.resume(throwing: error) }
        }
        return String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    }

    @Test func aStoreOfOnesOwnSeesEachCommit() async throws {
        let store = CountingStore(InMemoryStore())
        try await withServer(store: store) { url in
            let ann = TestClient(app: "notes", partition: "team")
            try await ann.connect(to: url, token: "token-of-ann")
            try await ann.wait { $0.classNames.contains("Note") }
            let before = store.entries
            let id = UUID()
            try await ann.write { tx in
                try tx.create("Note", key: PrimaryKey(id))["text"] = "water the plants"
            }
            try await ann.upload()
            try await ann.wait { tx in try tx.object("Note", key: PrimaryKey(id))?["words"] == 3 }
            #expect(before > 0 && store.entries >= before + 2, "the note, and its words")
        }
    }

    @Test func whoMayOnlyReadCannotWrite() async throws {
        try await withServer { url in
            let ben = TestClient(app: "notes", partition: "team")
            try await ben.connect(to: url, token: "token-of-ben")
            try await ben.wait { $0.classNames.contains("Note") }
            try await ben.write { tx in _ = try tx.create("Note", key: PrimaryKey(UUID())) }
            let error = await #expect(throws: TestClientError.self) { try await ben.upload() }
            #expect(error?.code == .writeNotAllowed)
        }
    }
}

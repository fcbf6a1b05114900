import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Foundation
import Logging
import Testing

@Suite struct EmbedAServerTests {
    @Test(.timeLimit(.minutes(30))) func theTutorialIsTrue() async throws {
        // Begin of AnabranchServer/EmbedAServer.md
        var settings = ServerSettings(cores: 2)
        settings.host = "127.0.0.1"
        settings.port = 0

        let (addresses, isListening) = AsyncStream.makeStream(of: String.self)
        let server = SyncServer(
            settings: settings,
            store: InMemoryStore(),
            authenticator: AllowAllAuthenticator(),
            logger: Logger(label: "notes"),
            unixSeconds: { UInt64(Date().timeIntervalSince1970) },
            onListening: { isListening.yield("\($0)") }
        )

        let run = Task { try await server.run() }
        for await _ in addresses.prefix(1) {}

        let notes = VirtualPath("my-app/\"notes\"")
        try await server.write(to: notes) { tx in
            try tx.addClass("Note", key: "_id", .int)
            try tx.addColumn("title", .string, to: "Note")
            try tx.addColumn("tags", .string, collection: .list, to: "Note")
        }
        let first = try await server.write(to: notes, idempotencyKey: "welcome-ann") { tx in
            let note = try tx.create("Note", key: 1)
            note["title"] = "Welcome"
            try note.list("tags").append("new")
        }

        let again = try await server.write(to: notes, idempotencyKey: "welcome-ann") { tx in
            try tx.create("Note", key: 1)
        }
        // again.isRepetition is true, and again.version is first.version.

        var complaint = ""
        do {
            try await server.write(to: notes) { tx in
                try tx.create("Note", key: 2)["titel"] = "Typo"
            }
        } catch let error as ApplyError {
            complaint = "\(error)"  // Note[2].titel: no such field
        }

        run.cancel()
        try await run.value
        // End of the page

        #expect(first.version == 2 && !first.isRepetition)
        #expect(again.version == 2 && again.isRepetition)
        #expect(complaint == "Note[2].titel: no such field")
    }
}

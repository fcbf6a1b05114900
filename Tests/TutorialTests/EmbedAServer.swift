import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Foundation
import Testing

@Suite struct EmbedAServerTests {
    @Test(.timeLimit(.minutes(30))) func theTutorialIsTrue() async throws {
        // Begin of AnabranchServer/EmbedAServer.md
        var settings = ServerSettings(cores: 2)
        settings.host = "127.0.0.1"
        settings.port = 0

        let server = SyncServer(
            settings: settings,
            store: InMemoryStore(),
            authenticator: AllowAllAuthenticator()
        )

        let run = Task { try await server.run() }
        let address = try await server.listening()

        let notes = VirtualPath(app: "my-app", partition: "notes")
        try await server.write(to: notes) { tx in
            try tx.addClass("Note", key: "_id", .uuid)
            try tx.addColumn("title", .string, to: "Note")
            try tx.addColumn("due", .timestamp, isNullable: true, to: "Note")
            try tx.addColumn("tags", .string, collection: .list, to: "Note")
        }

        let id = UUID(), tag = "new"
        let first = try await server.write(to: notes, idempotencyKey: "welcome-ann") { tx in
            let note = try tx.create("Note", key: PrimaryKey(id))
            note["title"] = "Welcome"
            note["due"] = Date(timeIntervalSince1970: 1_800_000_000)
            try note.list("tags").append(Payload(tag))
            return try tx.objects("Note").count
        }
        // first.value is 1, and first.version the number of the transaction.

        let again = try await server.write(to: notes, idempotencyKey: "welcome-ann") { tx in
            _ = try tx.create("Note", key: PrimaryKey(id))
        }
        // again.isRepetition is true, and again.version is first.version.

        var complaint = ""
        do {
            try await server.write(to: notes) { tx in
                try tx.object("Note", key: PrimaryKey(id))?["titel"] = "Typo"
            }
        } catch let error as ApplyError {
            complaint = "\(error)"  // Note[…].titel: no such field
        }

        let (title, cursor) = try await server.read(notes) { state in
            let title: String? = try state.object("Note", key: PrimaryKey(id))?["title"]
            return (title, state.cursor)
        }

        try await server.write(to: notes) { tx in
            try tx.object("Note", key: PrimaryKey(id))?["title"] = "Hello"
        }
        var news: [String] = []
        var stored = cursor.description
        for try await transaction in server.changes(in: notes, after: cursor) {
            for object in transaction.objects {
                if case .modified(let fields) = object.change { news.append("\(object.className): \(fields)") }
            }
            stored = transaction.cursor.description
            if !news.isEmpty { break }
        }

        let paths = try await server.partitions()
        let isDeleted = try await server.delete(notes)

        run.cancel()
        try await run.value
        // End of the page

        #expect("\(address)".contains("127.0.0.1"))
        #expect(first.version == 2 && !first.isRepetition && first.value == 1)
        #expect(again.version == 2 && again.isRepetition)
        #expect(complaint.hasPrefix("Note[") && complaint.hasSuffix("].titel: no such field"))
        #expect(title == "Welcome" && cursor.version == 2)
        #expect(news == [#"Note: ["title"]"#] && ChangeCursor(stored)?.version == 3)
        #expect(paths == [notes] && isDeleted)
    }
}

import AnabranchClient
import Foundation
import Testing

@testable import NotesServer

@Suite(.timeLimit(.minutes(30))) struct AppServerTests {
    struct Note: SyncedObject {
        var id = UUID()
        var text = ""
    }

    /// As an app does it: a user registers, logs in, and has the notes on another device with another store.
    @Test func usersLogInAndSync() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("apps-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try await AppServer.make(directory: "\(folder)/data", port: 0)
        let run = Task { try await server.run() }
        let url = "http://127.0.0.1:\(try await server.listening().port ?? 0)"

        let app = try AppClient(appID: "notes", baseURL: url, store: InMemoryUserStore())
        try await app.register(email: "ann@example.com", password: "water the plants")
        let ann = try await app.logIn(.emailPassword(email: "ann@example.com", password: "water the plants"))
        var stores: [SyncedStore] = [], clients: [SyncClient] = []
        for name in ["phone", "tablet"] {
            let store = try await SyncedStore("\(folder)/\(name).store", Note.self)
            try await store.subscriptions.update { try $0.add("all", Note.all) }
            let client = SyncClient(SyncConfiguration(AppRoute(app, user: ann.id), mode: .flexible))
            try await client.add(store)
            try await store.wait(for: .subscriptions)
            stores.append(store)
            clients.append(client)
        }
        let note = Note(text: "feed the cat")
        try await stores[0].write { try $0.insert(note) }
        try await stores[0].wait(for: .upload)
        try await stores[1].wait(for: .download)
        #expect(try stores[1].read { try $0.get(Note.self, note.id).text } == "feed the cat")

        for client in clients { await client.stop() }
        for store in stores { try await store.close() }
        run.cancel()
        try await run.value
    }
}

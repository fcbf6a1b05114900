import AnabranchClient
import AnabranchHistory
import AnabranchServer
import Foundation

/// The code of README.md and of Spec/Server.md, compiled: `ExampleTests` compares it.
enum Pages {
    private struct Note: SyncedObject {
        var id = UUID()
        var title = ""
        var isDone = false
    }

    static func writeAndFollow(_ server: SyncServer, after stored: ChangeCursor) async throws {
        let notes = VirtualPath(app: "my-app", partition: "notes")
        try await server.write(to: notes, idempotencyKey: "welcome-ann") { tx in
            let note = try tx.create("Note", key: 1)
            note["title"] = "Welcome"
        }
        for try await transaction in server.changes(in: notes, after: stored) { print(transaction.objects) }
    }

    static func useAStore(_ client: SyncClient) async throws {
        func show(_ notes: some Sequence<Note>) {}
        let store = try await SyncedStore("notes.store", Note.self)  // struct Note: SyncedObject
        try await store.write { tx in try tx.insert(Note(title: "Water the plants")) }
        try await client.add(store, partition: "notes")  // a SyncClient: one connection, for one user
        for try await change in store.changes(of: Note.where { !$0.isDone }) { show(change.results) }
    }

    static func routes(
        _ settings: ServerSettings, _ store: InMemoryStore, _ services: AppServices, _ photos: any HTTPEndpoints
    ) -> SyncServer {
        let server = SyncServer(
            settings: settings, store: store, authenticator: services,
            routes: [
                HTTPRoute(to: services),
                HTTPRoute("/photos", to: photos, body: .stream(bytesMax: 8 << 20)),
            ])
        return server
    }

    static func wires(_ settings: ServerSettings, _ store: InMemoryStore, _ services: AppServices) -> SyncServer {
        struct Echo: TextWire {
            func admits(_ request: SocketRequest) -> Bool { request.path == "/echo" }

            func serve(_ socket: TextSocket) async {
                while let event = await socket.next(), case .text(let text) = event {
                    guard await socket.send(text) else { return }
                }
            }
        }

        let server = SyncServer(settings: settings, store: store, authenticator: services, wires: [Echo()])
        return server
    }
}

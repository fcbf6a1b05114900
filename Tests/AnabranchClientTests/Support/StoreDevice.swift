import AnabranchClient
import AnabranchProtocol
import Foundation

/// A store in a file of its own, and a client of a server in this process.
struct StoreDevice: Sendable {
    let store: SyncedStore
    let client: SyncClient
    let mode: SyncMode

    init(
        _ path: String, port: Int, _ mode: SyncMode = .partition, transport: any Transport = NIOTransport()
    ) async throws {
        store = try await SyncedStore(path, Chore.self)
        self.mode = mode
        let route = FixedRoute(server: "ws://127.0.0.1:\(port)", app: mode == .flexible ? Device.flexibleApp : "parts")
        client = SyncClient(SyncConfiguration(route, mode: mode, transport: transport))
    }

    /// Synchronizes the store from now on; in flexible sync with all objects.
    func connect(_ resetMode: ResetMode = .recoverOrDiscard) async throws {
        guard mode == .flexible else {
            return try await client.add(store, partition: "chores", resetMode: resetMode)
        }
        try await store.subscriptions.update { wanted throws in
            try wanted.add("chores", Chore.all)
            try wanted.add("people", Person.all)
        }
        try await client.add(store, resetMode: resetMode)
    }

    func close() async throws {
        await client.stop()
        try await store.close()
    }
}

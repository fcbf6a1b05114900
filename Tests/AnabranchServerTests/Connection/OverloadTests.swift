import AnabranchCore
import AnabranchHistory
import Testing

@testable import AnabranchServer

/// The server's treatment of clients that bring more than the store can take.
@Suite(.timeLimit(.minutes(30))) struct OverloadTests {
    /// A server of one thread of each kind, so that what one connection is told comes after what another one said.
    private static var settings: ServerSettings {
        var settings = ServerSettings.small
        settings.eventLoopThreads = 1
        settings.workerThreads = 1
        return settings
    }

    private static let uploads = "anabranch_uploads_received_total"

    @Test("uploads that came in at one go are taken in one by one, as there is room for them")
    func oneGo() async throws {
        var settings = Self.settings
        settings.waitingBytesMax = 1 << 10
        let store = GatedStore(), counters = CountingMetrics()
        try await withServer(store: store, settings: settings, metrics: counters) { server in
            let client = SyncClient(partition: "/many") { server.port }
            let witness = try await WebSocketClient.open(port: server.port)
            try await client.reconnect()
            store.closeGate()
            var frames: [UInt8] = []
            for index in 0..<20 {
                client.change(Changesets.large(2000, seed: UInt64(index)), at: 1)
                frames += WebSocketClient.frame(client.uploadMessage(after: index))
            }
            try await client.require().write(frames)
            await Self.next(store)
            try await witness.send("ping 1 0\n")
            #expect(try await witness.message().kind == "pong")
            #expect(counters.value(Self.uploads) == 1)
            store.openGate()
            try await client.waitForAcknowledgement()
            #expect(counters.value(Self.uploads) == 20)
        }
    }

    @Test("while the uploads of some wait, those of others have to, and nobody else")
    func everybody() async throws {
        var settings = Self.settings
        settings.allWaitingBytesMax = 1 << 10
        let store = GatedStore(), counters = CountingMetrics()
        try await withServer(store: store, settings: settings, metrics: counters) { server in
            let clients = ["/one", "/two", "/three"].map { name in SyncClient(partition: name) { server.port } }
            let witness = try await WebSocketClient.open(port: server.port)
            for client in clients { try await client.reconnect() }
            for client in clients { client.change(Changesets.large(2000, seed: 1), at: 1) }
            store.closeGate()
            try await clients[0].upload()
            await Self.next(store)
            for client in clients.dropFirst() { try await client.upload() }
            try await witness.send("ping 1 0\n")
            #expect(try await witness.message().kind == "pong")
            #expect(counters.value(Self.uploads) == 1)
            store.openGate()
            for client in clients { try await client.waitForAcknowledgement() }
            #expect(counters.value(Self.uploads) == 3)
        }
    }

    /// Waits until a commit stands before the gate.
    private static func next(_ store: GatedStore) async {
        for await _ in store.inbound { return }
    }
}

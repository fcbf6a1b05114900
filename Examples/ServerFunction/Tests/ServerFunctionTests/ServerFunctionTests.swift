import AnabranchClient
import AnabranchHistory
import Foundation
import Testing

@testable import ServerFunction

@Suite(.timeLimit(.minutes(30))) struct ServerFunctionTests {
    struct Goods: SyncedObject {
        var id = ""
        var stock = Counter()
    }

    struct Order: SyncedObject {
        var id = UUID()
        var goods = ""
        var count = 1
        var state = "placed"
    }

    /// Two devices order offline what there is only once. Their orders are decided about when they come.
    @Test func whatThereIsOnceIsSoldOnce() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("shop-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let server = ServerFunction.makeServer(store: InMemoryStore(), port: 0)
        let run = Task { try await server.run() }
        let desk = Task { try await OrderDesk(server: server).run() }
        let route = FixedRoute(server: "ws://127.0.0.1:\(try await server.listening().port ?? 0)", app: "shop")

        var devices: [(store: SyncedStore, client: SyncClient, order: UUID)] = []
        for name in ["ann", "ben"] {
            let store = try await SyncedStore(folder.appendingPathComponent(name).path, Order.self, Goods.self)
            let order = Order(goods: "kettle")
            try await store.write { tx in
                if name == "ann" { try tx.insert(Goods(id: "kettle", stock: 1)) }
                try tx.insert(order)
            }
            devices.append((store, SyncClient(SyncConfiguration(route)), order.id))
        }
        for device in devices { try await device.client.add(device.store, partition: "orders") }

        var states: [String] = []
        for device in devices {
            for try await change in try device.store.changes(of: Order.self, device.order) {
                guard let state = change.new?.state, state != "placed" else { continue }
                states.append(state)
                break
            }
        }
        #expect(states.contains("refused"))
        #expect(try devices[0].store.read { try $0.get(Goods.self, "kettle") }.stock.value >= 0)

        for device in devices {
            await device.client.stop()
            try await device.store.close()
        }
        desk.cancel()
        _ = await desk.result
        run.cancel()
        try await run.value
    }
}

import AnabranchClient
import AnabranchCore
import AnabranchProtocol
import AnabranchTesting
import Foundation
import Testing

/// Stores that synchronize: an application that knows objects alone.
@Suite(.timeLimit(.minutes(30))) struct StoreSyncTests {
    /// Both write offline, then connect: what was changed in different places is there from both.
    @Test(arguments: [SyncMode.partition, .flexible]) func changesOfBothAreMerged(_ mode: SyncMode) async throws {
        try await withTwo(mode) { one, two async throws in
            try await one.store.write { tx in
                try tx.insert(Person(id: 1, name: "Ann"))
                try tx.insert(Chore(id: 1, title: "a", tags: ["x", "y", "z"], steps: [Step(title: "s")], likes: 1))
            }
            try await settle(one, two)
            for device in [one, two] { await device.client.pause() }
            try await one.store.write { tx in
                try tx.edit(Chore.self, 1) { chore in
                    chore.title = "b"
                    chore.tags = ["w", "x", "y"]
                    chore.labels = ["one"]
                    chore.scores["one"] = 1
                    chore.steps[0].isDone = true
                    chore.likes += 2
                }
            }
            try await two.store.write { tx in
                try tx.edit(Chore.self, 1) { chore in
                    chore.isDone = true
                    chore.tags = ["x", "y", "z", "v"]
                    chore.labels = ["two"]
                    chore.scores["two"] = 2
                    chore.steps[0].title = "t"
                    chore.likes += 3
                    chore.owner = Link(id: 1)
                }
            }
            for device in [one, two] { await device.client.resume() }
            try await settle(one, two)
            let expected = Chore(
                id: 1, title: "b", isDone: true, tags: ["w", "x", "y", "v"], labels: ["one", "two"],
                scores: ["one": 1, "two": 2], steps: [Step(title: "t", isDone: true)], owner: Link(id: 1), likes: 6)
            for device in [one, two] { #expect(try device.store.read { try $0.get(Chore.self, 1) } == expected) }
        }
    }

    /// Random writes on both sides, over a network that comes and goes: equal in the end, and so are queries by index
    /// and what observers were told.
    @Test(arguments: 0..<6) func storesConvergeAndObserversFollow(seed: UInt64) async throws {
        try await withTwo(seed % 2 == 0 ? .partition : .flexible) { one, two async throws in
            let following = [one, two].map { device in Task { try await follow(device.store, seed) } }
            var random = SeededRandom(scrambling: seed)
            try await one.store.write { tx in for id in 1...2 { try tx.save(Person(id: id)) } }
            try await settle(one, two)
            for _ in 0..<30 {
                let device = random.isOne(in: 2) ? one : two, step = ChoreStep(&random)
                switch random.below(8) {
                case 0: await device.client.pause()
                case 1: await device.client.resume()
                default: try await device.store.write { try step.carryOut($0) }
                }
            }
            for device in [one, two] { await device.client.resume() }
            try await settle(one, two)
            try await one.store.write { try $0.insert(Chore(id: 1000)) }
            try await settle(one, two)
            let results = try one.store.read { try $0.objects(Chore.all) }
            #expect(try two.store.read { try $0.objects(Chore.all) } == results, "seed \(seed)")
            for task in following { #expect(try await task.value == results, "seed \(seed)") }
            for device in [one, two] {
                let (indexed, all) = try device.store.read { objects in
                    (try objects.objects(Chore.where { $0.title == "a" }), try objects.objects(Chore.all))
                }
                #expect(indexed == all.filter { $0.title == "a" }, "seed \(seed)")
            }
        }
    }

    /// Follows a query until the last object comes.
    private func follow(_ store: SyncedStore, _ seed: UInt64) async throws -> [Chore] {
        var follower = ResultsFollower(name: "of a store")
        for try await change in store.changes(of: Chore.all) {
            follower.take(change, seed)
            if change.results.contains(where: { $0.id == 1000 }) { break }
        }
        return follower.results
    }

    /// Each change tells where it comes from.
    @Test func changesOfOthersAreRemote() async throws {
        try await withTwo(.partition) { one, two async throws in
            var changes = two.store.changes(at: .class(Chore.self), .path).makeAsyncIterator()
            _ = try await changes.next()
            try await one.store.write { try $0.insert(Chore(id: 1)) }
            let remote = try await changes.next()
            #expect(remote?.map(\.origin) == [.remote])
            try await two.store.write { try $0.insert(Chore(id: 2)) }
            #expect(try await changes.next()?.map(\.origin) == [.local])
        }
    }

    /// The server has lost its data: the store is replaced by a fresh one with what was written here, and observers and
    /// indexes are those of the fresh one.
    @Test func observersAndIndexesOutliveAReset() async throws {
        try await withFolder { path async throws in
            let store = try await SyncedStore(path("one"), Chore.self)
            try await store.write { try $0.insert(Chore(id: 1, title: "a")) }
            try await withServer { _, port async throws in
                let client = SyncClient(SyncConfiguration(FixedRoute(server: "ws://127.0.0.1:\(port)", app: "parts")))
                try await client.add(store, partition: "chores")
                try await store.wait(for: .idle)
                await client.stop()
            }
            try await store.write { try $0.insert(Chore(id: 2, title: "a")) }
            var changes = store.changes(of: Chore.where { $0.title == "a" }).makeAsyncIterator()
            #expect(try await changes.next()?.results.map(\.id) == [1, 2])
            try await withServer { _, port async throws in
                let client = SyncClient(SyncConfiguration(FixedRoute(server: "ws://127.0.0.1:\(port)", app: "parts")))
                let resets = await store.resets
                try await client.add(store, partition: "chores")
                for await case .ended(let report) in resets {
                    #expect(report.recoveredChangesets == 1 && report.backupPath != nil)
                    break
                }
                try await store.wait(for: .idle)
                #expect(try store.objects(Chore.where { $0.title == "a" }).map(\.id) == [2])
                #expect(try await changes.next()?.results.map(\.id) == [2])
                try await store.write { try $0.insert(Chore(id: 3, title: "a")) }
                #expect(try await changes.next()?.results.map(\.id) == [2, 3])
                await client.stop()
            }
            try await store.close()
        }
    }

    private func withTwo(
        _ mode: SyncMode, _ body: (StoreDevice, StoreDevice) async throws -> Void
    ) async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let devices = [
                    try await StoreDevice(path("one"), port: port, mode),
                    try await StoreDevice(path("two"), port: port, mode),
                ]
                for device in devices {
                    try await device.connect()
                    try await device.store.wait(for: .idle)
                }
                try await body(devices[0], devices[1])
                for device in devices { try await device.close() }
            }
        }
    }

    /// All that was written on either side is on both.
    private func settle(_ one: StoreDevice, _ two: StoreDevice) async throws {
        try await one.store.wait(for: .idle)
        try await two.store.wait(for: .idle)
        try await one.store.wait(for: .download)
    }
}

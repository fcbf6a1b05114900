import AnabranchClient
import AnabranchCore
import AnabranchProtocol
import Foundation
import Testing

/// Subscriptions as applications use them.
@Suite(.timeLimit(.minutes(30))) struct SubscriptionTests {
    private static let low = Chore.where { $0.priority == .low && $0.title != "x\"y\\z" }

    @Test func subscriptionsAreAddedUpdatedAndRemoved() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port, .flexible)
                try await one.connect()
                try await one.store.write { tx in
                    for id in 0..<4 { try tx.insert(Chore(id: id, priority: id < 2 ? .low : .high)) }
                    try tx.insert(Person(id: 1))
                }
                try await one.store.wait(for: .idle)

                let two = try await StoreDevice(path("two"), port: port, .flexible)
                try await two.client.add(two.store)
                #expect(await two.store.subscriptions.current.state == .complete)
                let wanted = two.store.subscriptions
                #expect(try await wanted.update { wanted throws in try wanted.add("some", Self.low) })
                #expect(try await wanted.update { wanted throws in try wanted.add("some", Self.low) } == false)
                try await wanted.wait()
                #expect(try two.store.read { try $0.objects(Chore.all).map(\.id) } == [0, 1])
                #expect(await wanted.current.state == .complete)
                #expect(await wanted.current.subscriptions.byName.keys.sorted() == ["some"])

                // Another query under the same name, and a second one.
                try await wanted.update { wanted throws in
                    try wanted.add("some", Chore.where { $0.id.isIn([3, 7]) })
                    try wanted.add("people", Person.all)
                }
                try await two.store.wait(for: .subscriptions)
                #expect(try two.store.read { try $0.objects(Chore.all).map(\.id) } == [3])
                #expect(try two.store.read { try $0.count(Person.all) } == 1)

                #expect(try await wanted.update { wanted in wanted.remove("people") })
                #expect(try await wanted.update { wanted in wanted.remove("people") } == false)
                try await wanted.wait()
                #expect(try two.store.read { try $0.count(Person.all) } == 0)
                try await wanted.update { wanted in wanted.removeAll() }
                try await wanted.wait()
                #expect(try two.store.read { try $0.count(Chore.all) } == 0)
                try await one.close()
                try await two.close()
            }
        }
    }

    /// They are kept, and what they say is what they said.
    @Test func subscriptionsAreKept() async throws {
        try await withFolder { path in
            let store = try await SyncedStore(path("s"), Chore.self)
            try await store.subscriptions.update { wanted throws in try wanted.add("some", Self.low) }
            let before = await store.subscriptions.current.subscriptions.byName
            try await store.close()
            let again = try await SyncedStore(path("s"), Chore.self)
            #expect(await again.subscriptions.current.subscriptions.byName == before)
            #expect(await again.subscriptions.current.state == .pending)
            #expect(try await again.subscriptions.update { wanted throws in try wanted.add("some", Self.low) } == false)
            try await again.close()
        }
    }

    @Test func whatAServerDoesNotTakeIsAnErrorAtOnce() async throws {
        try await withStore { store async throws in
            let queries: [ObjectQuery<Chore>] = [
                Chore.all.sorted(by: \.title), Chore.all.limit(3), Chore.where { $0.owner.name == "Ann" },
                Chore.where("nothing == 1"),
            ]
            for query in queries {
                #expect(
                    await objectError(.badQuery) {
                        try await store.subscriptions.update { wanted throws in try wanted.add("x", query) }
                    } == nil)
            }
            #expect(await store.subscriptions.current.subscriptions.byName.isEmpty)
        }
    }

    /// A link is compared by its key, whether its object is here or not.
    @Test func linksAreComparedByTheirKeys() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port, .flexible)
                try await one.connect()
                try await one.store.write { tx in
                    try tx.insert(Person(id: 7))
                    try tx.insert(Chore(id: 1, owner: Link(id: 7)))
                    try tx.insert(Chore(id: 2))
                }
                try await one.store.wait(for: .idle)
                let two = try await StoreDevice(path("two"), port: port, .flexible)
                try await two.store.subscriptions.update { wanted throws in
                    try wanted.add("mine", Chore.where { $0.owner == Link(id: 7) })
                }
                try await two.client.add(two.store)
                try await two.store.wait(for: .firstSync)
                #expect(try two.store.read { try $0.objects(Chore.all).map(\.id) } == [1])
                try await one.close()
                try await two.close()
            }
        }
    }

    @Test func writesOutsideAreUndoneAndToldWithTheReason() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port, .flexible)
                try await one.store.subscriptions.update { wanted throws in try wanted.add("low", Self.low) }
                try await one.client.add(one.store)
                try await one.store.wait(for: .subscriptions)
                var undone = await one.store.undoneWrites.makeAsyncIterator()
                try await one.store.write { tx in
                    try tx.insert(Chore(id: 1, priority: .low))
                    try tx.insert(Chore(id: 2, priority: .high))
                }
                let write = await undone.next()
                #expect(write?.concerns(Chore.self, 2) == true && write?.concerns(Chore.self, 1) == false)
                #expect(write?.className == "Chore" && write?.reason.isEmpty == false)
                #expect(try one.store.read { try $0.objects(Chore.all).map(\.id) } == [1])
                try await one.close()
                #expect(await undone.next() == nil)
            }
        }
    }

    @Test func aStoreIsSynchronizedOneWay() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port)
                try await one.connect()
                try await one.store.wait(for: .firstSync)
                let error = await thrown(ReplicaErrorBox.self) {
                    do {
                        try await one.store.subscriptions.update { wanted throws in try wanted.add("x", Chore.all) }
                    } catch { throw ReplicaErrorBox("\(error)") }
                }
                #expect(error?.text.contains("synchronized by partition") == true)
                try await one.close()
            }
        }
    }

    private struct ReplicaErrorBox: Error {
        let text: String
        init(_ text: String) { self.text = text }
    }
}

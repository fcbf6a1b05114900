import AnabranchClient
import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

/// The changes that observers are told, against a model that knows every moment.
@Suite struct ObservationTests {
    /// The length of the test: `ANABRANCH_HISTORIES` makes it longer.
    private static let count = ProcessInfo.processInfo.environment["ANABRANCH_HISTORIES"].flatMap { Int($0) } ?? 100
    private static let seed = ProcessInfo.processInfo.environment["ANABRANCH_SEED"].flatMap { UInt64($0) } ?? 1

    /// Each looks when it likes, in between or much later.
    @Test func everyChangeIsToldOnceAndInOrder() async throws {
        try await withStore { store async throws in
            for seed in Self.seed..<Self.seed + UInt64(Self.count) {
                try await ObservedHistory(seed: seed, store).run()
            }
        }
    }

    /// Readers that run as they can beside a writer that does not wait for them.
    @Test func readersBesideAWriterMissNothing() async throws {
        try await withStore { store async throws in
            for seed in Self.seed..<Self.seed + UInt64(Self.count / 10) {
                try await ConcurrentHistory(seed: seed, store).run()
            }
        }
    }

    @Test func whoIsCancelledWaitsNoLonger() async throws {
        try await withStore { store async throws in
            let (begun, begin) = AsyncStream<Void>.makeStream()
            let waiting = Task { () async throws in
                var changes = store.changes(of: Chore.all).makeAsyncIterator()
                #expect(try await changes.next()?.results.isEmpty == true)
                begin.finish()
                return try await changes.next() == nil
            }
            for await _ in begun {}
            waiting.cancel()
            #expect(try await waiting.value)
        }
    }

    @Test func aClosedStoreEndsAllObservations() async throws {
        try await withFolder { path in
            let store = try await SyncedStore(path("s"), Chore.self)
            var changes = store.changes(of: Chore.all).makeAsyncIterator()
            var object = try store.changes(of: Chore.self, 1).makeAsyncIterator()
            _ = try await changes.next()
            _ = try await object.next()
            try await store.close()
            #expect(try await changes.next() == nil)
            #expect(try await object.next() == nil)
        }
    }

    @Test func anObservationOfWhatDoesNotExistYetBeginsWithNothing() async throws {
        try await withStore([]) { store async throws in
            var chores = store.changes(of: Chore.where { $0.isDone }).makeAsyncIterator()
            var chore = try store.changes(of: Chore.self, 1).makeAsyncIterator()
            var tags = try store.changes(of: \Chore.tags, in: 1).makeAsyncIterator()
            #expect(try await chores.next()?.results.count == 0)
            #expect(try await chore.next()?.new == nil)
            #expect(try await tags.next()?.elements == [])
            try await store.write { try $0.insert(Chore(id: 1, isDone: true, tags: ["a"])) }
            #expect(try await chores.next()?.insertions == [0])
            #expect(try await chore.next()?.new?.tags == ["a"])
            #expect(try await tags.next()?.insertions == [0])
        }
    }

    @Test func aValueThatCannotBeReadEndsTheObservation() async throws {
        try await withStore { store async throws in
            var changes = store.changes(of: Chore.all).makeAsyncIterator()
            _ = try await changes.next()
            try await store.write { tx in
                try tx.insert(Chore(id: 1))
                try tx.dynamic.object("Chore", key: 1)?["priority"] = "urgent"
            }
            let box = changes
            #expect(
                await objectError(.badValue, "Chore 1") {
                    var changes = box
                    _ = try await changes.next()
                } == nil)
        }
    }
}

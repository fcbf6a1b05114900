import AnabranchClient
import AnabranchCore
import Foundation
import Observation
import Testing

/// Observable models of results and of the status, as views use them.
@Suite(.timeLimit(.minutes(30))) struct ObservedObjectsTests {
    @Test func theResultsFollowTheStore() async throws {
        try await withStore { try await theResultsFollowTheStore(of: $0) }
    }

    @MainActor private func theResultsFollowTheStore(of store: SyncedStore) async throws {
        let people = ObservedObjects(Person.all.sorted(by: \.name), in: store)
        #expect(!people.isLoaded && people.results.isEmpty && people.lastChange == nil)
        try await change(of: { people.isLoaded }) { people.isLoaded }
        #expect(people.results.map(\.id) == [1, 2] && people.lastChange?.insertions == [0, 1])
        try await store.write { try $0.insert(Person(id: 3, name: "A")) }
        try await change(of: { people.results.count }) { people.results.count == 3 }
        #expect(people.results.map(\.id) == [3, 1, 2] && people.lastChange?.insertions == [0])
        // However many changes come while the main thread is busy, the last state is there in the end.
        for id in 4..<300 { try await store.write { try $0.insert(Person(id: id, name: "B")) } }
        try await change(of: { people.results.count }) { people.results.count == 299 }
        #expect(people.error == nil)
    }

    @Test func aValueThatCannotBeReadIsAnError() async throws {
        try await withStore { try await aValueThatCannotBeReadIsAnError(of: $0) }
    }

    @MainActor private func aValueThatCannotBeReadIsAnError(of store: SyncedStore) async throws {
        let chores = ObservedObjects(Chore.all, in: store)
        try await change(of: { chores.isLoaded }) { chores.isLoaded }
        try await store.write { tx in
            try tx.insert(Chore(id: 1))
            try tx.dynamic.object("Chore", key: 1)?["priority"] = "urgent"
        }
        try await change(of: { chores.error != nil }) { chores.error != nil }
        #expect((chores.error as? ObjectError)?.code == .badValue)
    }

    @Test func theStatusFollows() async throws { try await withStore { try await theStatusFollows(of: $0) } }

    @MainActor private func theStatusFollows(of store: SyncedStore) async throws {
        let observed = ObservedStatus(of: store)
        #expect(observed.status.pendingTransactions == store.status.pendingTransactions)
        let before = observed.status.pendingTransactions
        try await store.write { try $0.insert(Person(id: 3)) }
        try await change(of: { observed.status }) { observed.status.pendingTransactions == before + 1 }
    }

    /// A model that nobody has any more observes nothing.
    @Test func aModelThatIsGoneObservesNothing() async throws {
        try await withStore { try await aModelThatIsGoneObservesNothing(of: $0) }
    }

    @MainActor private func aModelThatIsGoneObservesNothing(of store: SyncedStore) async throws {
        weak var gone: ObservedObjects<Person>?
        do {
            let people = ObservedObjects(Person.all, in: store)
            try await change(of: { people.isLoaded }) { people.isLoaded }
            gone = people
        }
        // The task may still be about to give it back.
        while gone != nil { await Task.yield() }
        try await store.write { try $0.insert(Person(id: 3)) }
    }

    /// Waits as a view does: it is told of a change of what it has read, and reads it again.
    @MainActor private func change<Value>(
        of value: @escaping @MainActor () -> Value, until isReached: @MainActor () -> Bool
    ) async throws {
        while true {
            let (changes, continuation) = AsyncStream<Void>.makeStream()
            withObservationTracking {
                _ = value()
            } onChange: {
                continuation.finish()
            }
            if isReached() { return }
            for await _ in changes {}
            // The new value is there once the main thread has had another turn.
            await Task.yield()
        }
    }
}

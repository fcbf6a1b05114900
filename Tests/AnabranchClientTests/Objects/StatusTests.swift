import AnabranchClient
import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchServer
import Foundation
import Synchronization
import Testing

/// How the synchronization of stores stands, as applications see it.
@Suite(.timeLimit(.minutes(30))) struct StatusTests {
    @Test(arguments: [SyncMode.partition, .flexible]) func aStoreTellsHowItStands(_ mode: SyncMode) async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port, mode)
                var status = one.store.status
                #expect(!status.isOnline && !status.isRunning && !status.completedFirstSync && status.isIdle)
                try await one.store.write { try $0.insert(Person(id: 1, name: "Ann")) }
                status = one.store.status
                #expect(status.pendingTransactions == 2 && status.isIdle && status.upload.fraction < 1)
                let seen = Task { await statuses(of: one.store) { $0.isOnline && $0.isIdle && $0.completedFirstSync } }
                try await one.connect()
                try await one.store.wait(for: .idle)
                let all = await seen.value
                #expect(all.last?.pendingTransactions == 0 && all.last?.upload.fraction == 1)
                #expect(all.last?.download.fraction == 1 && all.last?.isNewerVersionAvailable == false)
                try await one.close()

                // It is kept, and needs no connection.
                let again = try await SyncedStore(path("one"))
                #expect(again.completedFirstSync && !again.isRunning && again.status.pendingTransactions == 0)
                try await again.close()
            }
        }
    }

    @Test(.timeLimit(.minutes(30))) func whoeverAsksAClosedStoreHearsThatItIsOver() async throws {
        try await withFolder { path async throws in
            let store = try await SyncedStore(path("one"), Chore.self)
            try await store.close()
            for await _ in try store.statusUpdates(of: Chore.self, 1) {}
            for await _ in store.statusUpdates {}
            for await _ in store.issues {}
            for await _ in await store.replica.events() {}
        }
    }

    /// The connection breaks after any message: within a transfer nothing goes back, and it ends with all of it.
    @Test(arguments: [SyncMode.partition, .flexible]) func progressGoesForward(_ mode: SyncMode) async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port, mode)
                try await one.connect()
                let bytes = Data(repeating: 7, count: 100_000)
                for id in 0..<20 { try await one.store.write { try $0.insert(Chore(id: id, blob: bytes)) } }
                let up = Task { await statuses(of: one.store) { $0.isOnline && $0.pendingTransactions == 0 } }
                try await one.store.wait(for: .upload)
                let two = try await StoreDevice(path("two"), port: port, mode, transport: BreakingTransport())
                let down = Task { await statuses(of: two.store) { $0.isOnline && $0.isIdle && $0.completedFirstSync } }
                let timeout = Task {
                    for await status in two.store.statusUpdates where !status.isOnline { await two.client.connectNow() }
                }
                try await two.connect()
                try await two.store.wait(for: .firstSync)
                for (statuses, progress) in [(await up.value, \StoreStatus.upload), (await down.value, \.download)] {
                    for (old, new) in zip(statuses, statuses.dropFirst()) {
                        let (old, new) = (old[keyPath: progress], new[keyPath: progress])
                        #expect((0...1).contains(new.fraction))
                        #expect(new.fraction >= old.fraction || new.fraction == 0 || new.transferred == 0)
                        #expect(new.total.map { $0 >= new.transferred } ?? true)
                    }
                    #expect(statuses.last?[keyPath: progress].fraction == 1)
                }
                try await two.store.wait(for: .download)
                #expect(try two.store.read { try $0.count(Chore.all) } == 20)
                timeout.cancel()
                try await one.close()
                try await two.close()
            }
        }
    }

    @Test func anObjectTellsHowItStands() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port)
                #expect(try await one.store.status(of: Person.self, 1).isCached == false)
                try await one.store.write { try $0.insert(Person(id: 1)) }
                try await one.store.write { try $0.insert(Person(id: 2)) }
                var status = try await one.store.status(of: Person.self, 1)
                #expect(status.isCached && status.isPending && status.state == .idle)
                try await one.connect()
                try await one.store.wait(for: .idle)
                status = try await one.store.status(of: Person.self, 1)
                #expect(status.isCached && !status.isPending && status.progress.fraction == 1)
                await one.client.pause()
                try await one.store.write { try $0.edit(Person.self, 2) { $0.name = "Ben" } }
                #expect(try await one.store.status(of: Person.self, 1).isPending == false)
                #expect(try await one.store.status(of: Person.self, 2).isPending)
                // What waits is known when the store is opened again.
                try await one.close()
                let again = try await SyncedStore(path("one"))
                #expect(try await again.status(of: Person.self, 1).isPending == false)
                #expect(try await again.status(of: Person.self, 2).isPending)
                try await again.close()
            }
        }
    }

    @Test func whoWatchesAnObjectHearsOfItsUpload() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port)
                let updates = try one.store.statusUpdates(of: Person.self, 1)
                let seen = Task {
                    var last: ObjectStatus?
                    for await status in updates {
                        last = status
                        if status.isCached, !status.isPending { break }
                    }
                    return last
                }
                try await one.connect()
                try await one.store.write { try $0.insert(Person(id: 1)) }
                let last = await seen.value
                #expect(last?.isCached == true && last?.issue == nil && last?.progress.fraction == 1)
                try await one.close()
            }
        }
    }

    @Test func anIssueIsToldAndResolved() async throws {
        try await withFolder { path async throws in
            // Nobody listens there.
            let one = try await StoreDevice(path("one"), port: 1)
            var issues = one.store.issues.makeAsyncIterator()
            try await one.connect()
            guard case .occurred(let issue)? = await issues.next() else {
                Issue.record("nothing was told")
                return
            }
            #expect(issue.kind == .offline && issue.isRetrying && issue.nextAttempt != nil)
            #expect(one.store.status.issue?.kind == .offline && one.store.isRunning)
            await one.client.stop()
            #expect(await issues.next() == .resolved(issue) || one.store.status.issue == nil)
            #expect(!one.store.isRunning)
            await syncFails(.notSynchronized) { try await one.store.wait(for: .idle) }
            try await one.store.close()
            #expect(await issues.next() == nil)
        }
    }

    /// The server does not take the user: it says so, and nothing is tried again.
    @Test func arefusalIsAnIssueThatStays() async throws {
        let authorizer = CallbackAuthorizer { _, _ in .none }
        try await withServer(authorizer: authorizer) { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port)
                try await one.store.write { try $0.insert(Person(id: 1)) }
                let seen = Task { await statuses(of: one.store) { $0.issue != nil } }
                try await one.connect()
                let issue = await seen.value.last?.issue
                #expect(issue?.kind == .forbidden, "\(String(describing: issue))")
                let object = try await one.store.status(of: Person.self, 1)
                #expect(object.isPending && object.issue != nil)
                try await one.close()
            }
        }
    }

    /// Objects that wait are named with the first change that does, erased ones too; what the server has is not.
    @Test func whatWaitsIsNamed() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port)
                #expect(try await one.store.unsynced() == [])
                let begin = Date(timeIntervalSinceNow: -0.001)
                try await one.store.write { try $0.insert(Person(id: 1, name: "Ann")) }
                try await one.store.write { try $0.insert(Person(id: 2, name: "Bob")) }
                let first = try await one.store.unsynced()
                try await one.store.write { try $0.save(Person(id: 1, name: "Anna")) }
                try await one.store.write { _ = try $0.delete(Person.self, 2) }
                let unsynced = try await one.store.unsynced()
                let keys = unsynced.map(\.key), end = Date()
                #expect(unsynced == first && keys == [1, 2])
                #expect(unsynced.allSatisfy { begin <= $0.since && $0.since <= end })
                #expect(unsynced[0].since <= unsynced[1].since)
                #expect(unsynced[0].concerns(Person.self, 1) && !unsynced[0].concerns(Person.self, 2))
                #expect(!unsynced[0].concerns(Chore.self, 1))
                try await one.connect()
                try await one.store.wait(for: .idle)
                #expect(try await one.store.unsynced() == [])
                await one.client.pause()
                try await one.store.write { try $0.save(Person(id: 1, name: "Ann")) }
                #expect(try await one.store.unsynced().map(\.key) == [1])
                try await one.close()
            }
        }
    }

    /// The time is kept, and goes on with the next connection, even if nothing is new there.
    @Test(arguments: [SyncMode.partition, .flexible]) func theLastSynchronizationIsKnown(_ mode: SyncMode) async throws
    {
        let begin = Date(timeIntervalSinceNow: -1)
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port, mode)
                try await one.store.write { try $0.insert(Person(id: 1)) }
                #expect(one.store.lastSynced == nil)
                try await one.connect()
                _ = await statuses(of: one.store) { $0.lastSynced != nil && $0.pendingTransactions == 0 }
                try await one.store.wait(for: .idle)
                let first = try #require(one.store.lastSynced)
                #expect(begin < first && first < Date(timeIntervalSinceNow: 1))
                await one.client.pause()
                _ = await statuses(of: one.store) { !$0.isOnline }
                try await one.store.write { try $0.insert(Person(id: 2)) }
                let last = try #require(one.store.lastSynced)
                try await one.close()

                // Later, by the clock.
                let replica = try SyncedReplica(
                    path: path("one"), now: { ChangesetTime(secondsSince1970: Date().timeIntervalSince1970 + 1000) })
                let again = try await SyncedStore(replica, [Chore.self])
                #expect(again.lastSynced == last && again.status.pendingTransactions == 1)
                let route = FixedRoute(
                    server: "ws://127.0.0.1:\(port)", app: mode == .flexible ? Device.flexibleApp : "parts")
                let client = SyncClient(SyncConfiguration(route, mode: mode))
                if mode == .flexible {
                    try await client.add(again)
                } else {
                    try await client.add(again, partition: "chores")
                }
                _ = await statuses(of: again) { $0.lastSynced.map { $0 > last + 900 } ?? false }
                #expect(again.status.pendingTransactions == 0)
                await client.stop()
                try await again.close()
            }
        }
    }

    @Test func pausingIsBeingOffLine() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try await StoreDevice(path("one"), port: port)
                let two = try await StoreDevice(path("two"), port: port)
                for device in [one, two] {
                    try await device.connect()
                    try await device.store.wait(for: .idle)
                }
                let gone = Task { await statuses(of: one.store) { !$0.isOnline } }
                await one.client.pause()
                _ = await gone.value
                try await one.store.write { try $0.insert(Person(id: 1)) }
                try await two.store.write { try $0.insert(Person(id: 2)) }
                try await two.store.wait(for: .idle)
                #expect(one.store.status.issue == nil && one.store.status.pendingTransactions == 1)
                #expect(try one.store.read { try $0.count(Person.all) } == 1)
                await one.client.resume()
                try await one.store.wait(for: .idle)
                try await two.store.wait(for: .download)
                for device in [one, two] { #expect(try device.store.read { try $0.count(Person.all) } == 2) }
                try await one.close()
                try await two.close()
            }
        }
    }

    /// Many who watch, and one of them never looks: nobody waits for another one, and all see the end.
    @Test func manyWatch() async throws {
        try await withStore { store async throws in
            let idle = store.statusUpdates
            let watchers = (0..<1000).map { _ in store.statusUpdates }
            for id in 10..<60 { try await store.write { try $0.insert(Person(id: id)) } }
            for watcher in watchers {
                for await status in watcher where status.pendingTransactions == 52 { break }
            }
            for await status in idle {
                #expect(status.pendingTransactions == 52)
                break
            }
        }
    }
}

/// The statuses of a store from now on, up to the first one that is meant.
private func statuses(of store: SyncedStore, until isLast: (StoreStatus) -> Bool) async -> [StoreStatus] {
    var all: [StoreStatus] = []
    for await status in store.statusUpdates {
        all.append(status)
        if isLast(status) { break }
    }
    return all
}

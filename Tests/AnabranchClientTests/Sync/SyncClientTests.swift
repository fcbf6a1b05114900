import AnabranchClient
import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import Foundation
import Testing

/// The reactions of a `SyncClient` to ends: of the application's interest, of tokens and log-ins, of the server's
/// patience.
@Suite(.timeLimit(.minutes(30))) struct SyncClientTests {
    // MARK: Ends that the application wants

    @Test func aReplicaThatIsRemovedIsSynchronizedNoMore() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try Device(path("one"), port: port)
                try await one.connect()
                try await one.settle()
                let events = await one.replica.events()
                await one.client.remove(one.replica)
                _ = try await first(events, \.isOffline)
                try await one.put(1)
                await syncFails(.notSynchronized) { try await one.replica.waitForUpload() }
                await syncFails(.notSynchronized) { try await one.replica.waitForDownload() }
                // It can be added again, and has lost nothing.
                for _ in 0..<10 {
                    try await one.connect()
                    await one.client.remove(one.replica)
                }
                try await one.connect()
                try await one.settle()
                await one.client.stop()
                await syncFails(.notSynchronized) { try await one.replica.waitForDownload() }
                #expect(await one.replica.syncStatus == .offline)
                try await one.connect()
                try await one.put(2)
                try await one.settle()
                try await one.close()
                let again = try Device(path("one"), port: port)
                #expect(try await again.tasks == [1, 2])
                try await again.close()
            }
        }
    }

    @Test func whoeverWaitsHearsOfTheEnd() async throws {
        try await withFolder { path async throws in
            // Nobody listens there.
            let one = try Device(path("one"), port: 1)
            try await one.put(1)
            try await one.connect()
            let cancelled = Task { try await one.replica.waitForUpload() }
            cancelled.cancel()
            await #expect(throws: CancellationError.self) { try await cancelled.value }
            async let upload: Void = syncFails(.notSynchronized) { try await one.replica.waitForUpload() }
            async let download: Void = syncFails(.notSynchronized) { try await one.replica.waitForDownload() }
            await one.client.remove(one.replica)
            _ = await (upload, download)
            try await one.close()
        }
    }

    /// Its changes belong to one of them, and would be made again in the other.
    @Test func aReplicaOfAPartitionIsNotThatOfOneThatLooksAlike() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try Device(path("one"), port: port)
                try await one.client.add(one.replica, partition: "\"\u{e9}\"")
                try await one.settle()
                await one.client.remove(one.replica)
                await syncFails(.notSynchronized) {
                    try await one.client.add(one.replica, partition: "\"e\u{301}\"")
                }
                try await one.client.add(one.replica, partition: "\"\u{e9}\"")
                try await one.close()
            }
        }
    }

    @Test func theKindOfSyncOfAReplicaStays() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let parts = try Device(path("parts"), port: port)
                let flexible = try Device(path("all"), port: port, .flexible)
                await syncFails(.notSynchronized) { try await flexible.client.add(parts.replica, partition: "1") }
                await syncFails(.notSynchronized) { try await parts.client.add(parts.replica) }
                try await flexible.replica.subscribe([])
                await syncFails(.notSynchronized) { try await parts.client.add(flexible.replica, partition: "1") }
                try await parts.connect()
                try await parts.settle()
                let error = await thrown(ReplicaError.self) { try await flexible.client.add(parts.replica) }
                #expect(error?.code == .notAllowed)
                try await parts.close()
                try await flexible.close()
            }
        }
    }

    /// Two devices without network set one text; the earlier one is told that its change is lost, and to which.
    @Test func whoLosesInAMergeIsTold() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try Device(path("one"), port: port, now: { 1_000 })
                let two = try Device(path("two"), port: port, now: { 2_000 })
                try await one.put(1, "start")
                for device in [one, two] {
                    try await device.connect()
                    try await device.settle()
                    await device.client.remove(device.replica)
                }
                func set(_ text: String, on device: Device) async throws {
                    try await device.replica.write { tx in
                        let task = try tx.object("Task", key: 1)
                        try task?.set("text", to: .string(Array(text.utf8)))
                        // Both do this: nobody loses anything.
                        try task?.set("number", to: .int(5))
                    }
                }
                try await set("earlier", on: one)
                try await set("later", on: two)
                try await two.connect()
                try await two.settle()
                let events = await one.replica.events()
                try await one.connect()
                let lost = try await first(events) { if case .mergedAway(let changes) = $0 { changes } else { nil } }
                #expect(lost.map(\.change) == [#"Update Task[1].text = String "earlier""#])
                #expect(lost.map(\.winner) == [#"Update Task[1].text = String "later""#])
                #expect(lost[0].rule == .R6 && lost[0].className == "Task" && lost[0].property == "text")
                #expect(lost[0].tag.ident == (await two.replica.record.file?.ident))
                try await one.settle()
                #expect(try await one.state == two.state)
                for device in [one, two] { try await device.close() }
            }
        }
    }

    // MARK: What the server refuses

    @Test(arguments: [(Permission.none, ErrorCode.permissionDenied)])
    func whatMayNotBeReadStopsTheSession(_ permission: Permission, _ code: ErrorCode) async throws {
        try await withServer(authorizer: CallbackAuthorizer { _, _ in permission }) { _, port async throws in
            try await withFolder { path async throws in
                let one = try Device(path("one"), port: port)
                try await one.put(1)
                let events = await one.replica.events()
                try await one.connect()
                let stop = try await first(events, \.stop)
                #expect(stop.code == .refused(code))
                #expect(!stop.reason.isEmpty)
                await syncFails(.refused(code)) { try await one.replica.waitForUpload() }
                #expect(try await one.tasks == [1])
                try await one.close()
            }
        }
    }

    @Test func aPartitionThatTheServerDoesNotTakeStopsTheSession() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try Device(path("one"), port: port)
                let events = await one.replica.events()
                try await one.client.add(one.replica, partition: String(repeating: "x", count: 2_000))
                let stop = try await first(events, \.stop)
                #expect(stop.code == .refused(.illegalRealmPath), "\(stop)")
                #expect(!stop.reason.isEmpty)
                try await one.close()
            }
        }
    }

    @Test func aRefusedSubscriptionLeavesTheOneBefore() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try Device(path("one"), port: port, .flexible)
                try await one.connect()
                try await one.put(1)
                try await one.settle()
                try await one.replica.subscribe([Subscription("Task", "text == == 1")])
                let error = await thrown(SyncError.self) { try await one.replica.waitForSubscriptions() }
                #expect(error?.code == .subscriptionsRefused)
                #expect(error?.reason.isEmpty == false)
                #expect(try await one.tasks == [1])
                try await one.replica.subscribe([Subscription("Task", "text == 'no'")])
                try await one.replica.waitForSubscriptions()
                #expect(try await one.tasks == [])
                try await one.close()
            }
        }
    }

    @Test func aWriteOutsideOfTheSubscriptionsIsUndone() async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try Device(path("one"), port: port, .flexible)
                try await one.replica.write { try Device.declare($0) }
                try await one.replica.subscribe([Subscription("Task", "text == 'mine'")])
                try await one.connect()
                try await one.settle()
                let events = await one.replica.events()
                try await one.put(1, "mine")
                try await one.put(2, "of somebody else")
                let undone = try await first(events, \.undone)
                #expect(undone.code == .compensatingWrite)
                #expect(!undone.message.isEmpty)
                try await one.settle()
                #expect(try await one.tasks == [1])
                try await one.close()
            }
        }
    }

    // MARK: Users

    /// The client's clock stands still, so that it learns from the server that its token has ended.
    @Test func aNewTokenIsAskedForWhenTheServerTakesTheOldOneNoMore() async throws {
        try await TestApp.run { app async throws in
            try await withFolder { path async throws in
                let http = CountingSender()
                let accounts = try app.client(http: http, clock: Clock())
                let user = try await accounts.logIn(.anonymous)
                let one = try Device(path("one"), port: app.port, route: AppRoute(accounts, user: user.id))
                try await one.connect()
                try await one.settle()
                #expect(http.count("POST session") == 0)
                await one.client.stop()
                app.clock.advance(by: 3_600)
                try await one.put(1)
                try await one.connect()
                await one.client.connectNow()
                try await one.settle()
                #expect(http.count("POST session") == 1)
                try await one.close()
            }
        }
    }

    @Test(arguments: [true, false]) func aUserWhoseLogInEndsIsLoggedOut(isConnected: Bool) async throws {
        try await TestApp.run { app async throws in
            try await withFolder { path async throws in
                let accounts = try app.client()
                let user = try await accounts.logIn(.anonymous)
                let one = try Device(path("one"), port: app.port, route: AppRoute(accounts, user: user.id))
                try await one.connect()
                try await one.settle()
                if !isConnected { await one.client.stop() }
                let events = await one.replica.events()
                try await one.put(1)
                app.accounts.removeSessions(of: user.id)
                if !isConnected {
                    app.clock.advance(by: 3_600)
                    try await one.connect()
                }
                let stop = try await first(events, \.stop)
                #expect(stop.code == .loggedOut, "\(stop)")
                // An anonymous user is forgotten with the log-in.
                #expect(await accounts.user(user.id) == nil)
                // What was written is there.
                #expect(try await one.tasks == [1])
                try await one.close()
            }
        }
    }

    @Test func severalUsersOfOneProcessHaveConnectionsOfTheirOwn() async throws {
        try await TestApp.run { app async throws in
            try await withFolder { path async throws in
                let accounts = try app.client()
                let ann = try await accounts.logIn(.customToken(app.customToken(of: "Ann")))
                let bob = try await accounts.logIn(.customToken(app.customToken(of: "Bob")))
                let one = try Device(path("ann"), port: app.port, route: AppRoute(accounts, user: ann.id))
                let two = try Device(path("bob"), port: app.port, route: AppRoute(accounts, user: bob.id))
                try await one.connect()
                try await two.connect()
                try await one.put(1)
                try await one.settle()
                try await two.settle()
                #expect(try await two.tasks == [1])
                for (device, user) in [(one, ann), (two, bob)] {
                    #expect(try await SyncedStore(device.replica, []).account == user.id)
                }
                let events = await one.replica.events()
                app.accounts.removeSessions(of: ann.id)
                #expect(try await first(events, \.stop).code == .loggedOut)
                try await two.put(2)
                try await two.settle()
                #expect(await accounts.user(bob.id)?.isLoggedIn == true)
                try await one.close()
                try await two.close()
            }
        }
    }
}

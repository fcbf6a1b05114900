import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import Foundation
import Testing

@testable import AnabranchClient

/// Client resets: the server has lost its data, and is another one at the same place.
@Suite(.timeLimit(.minutes(30))) struct ResetTests {
    enum Mode: CaseIterable {
        case discardLocal, recover, recoverOrDiscard

        var mode: ResetMode {
            switch self {
            case .discardLocal: .discardLocal
            case .recover: .recover
            case .recoverOrDiscard: .recoverOrDiscard
            }
        }
    }

    /// Task 1 was on the first server, task 2 was written here when that had gone; on the second server is task 3.
    private static func lose(
        _ path: (String) -> String, _ mode: SyncMode, hasWritten: Bool = true,
        _ body: (_ one: Device, _ two: Device) async throws -> Void
    ) async throws {
        let (port, one) = try await withServer { _, port async throws in
            let one = try Device(path("one"), port: port, mode)
            try await one.put(1)
            try await one.connect(.manual)
            try await one.settle()
            await one.client.stop()
            return (port, one)
        }
        if hasWritten { try await one.put(2) }
        try await withServer(port: port) { _, port async throws in
            let two = try Device(path("two"), port: port, mode)
            try await two.put(3)
            try await two.connect()
            try await two.settle()
            try await body(one, two)
            try await one.close()
            try await two.close()
        }
    }

    private static func names(in path: (String) -> String) throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: URL(filePath: path("")).path))
    }

    @Test(arguments: [SyncMode.partition, .flexible], Mode.allCases)
    func aFreshReplicaTakesThePlace(_ mode: SyncMode, _ reset: Mode) async throws {
        try await withFolder { path async throws in
            try await Self.lose(path, mode) { one, two async throws in
                let events = await one.replica.events()
                try await one.connect(reset.mode)
                var hasBegun = false
                let report = try await first(events) { event -> ResetReport? in
                    if case .resetBegins = event { hasBegun = true }
                    return event.report
                }
                #expect(hasBegun)
                let recovers = reset != .discardLocal
                #expect(report.recoveredChangesets == (recovers ? 1 : 0))
                #expect(report.droppedChanges == 0)
                #expect(report.discardedTransactions == (recovers ? 0 : 1))
                try await one.settle()
                try await two.settle()
                #expect(try await one.tasks == (recovers ? [2, 3] : [3]))
                #expect(try await one.state == two.state)
                #expect(await one.replica.record.isRecovering == false)
                // The replica as it was can be opened, and has what was not uploaded.
                let backup = try SyncedReplica(path: try #require(report.backupPath))
                #expect(try await backup.read { try Device.tasks($0) } == [1, 2])
                #expect(await backup.unacknowledged.changesets == 1)
                try await backup.close()
                #expect(try Self.names(in: path).isDisjoint(with: ["one.fresh", "one.ready", "one.fresh.lock"]))
                // It is a replica as any other.
                try await one.put(4)
                try await one.settle()
                try await two.settle()
                #expect(try await two.tasks.contains(4))
            }
        }
    }

    @Test func whereNothingIsUnsentThereIsNoBackup() async throws {
        try await withFolder { path async throws in
            try await Self.lose(path, .partition, hasWritten: false) { one, _ async throws in
                let events = await one.replica.events()
                try await one.connect()
                #expect(try await first(events, \.report) == ResetReport())
                try await one.settle()
                #expect(try await one.tasks == [3])
                #expect(try Self.names(in: path).allSatisfy { !$0.hasSuffix("backup") })
            }
        }
    }

    /// The changes of one object are discarded, the others made again; the backup has them all.
    @Test(arguments: [SyncMode.partition, .flexible]) func oneChangeMayBeDiscarded(_ mode: SyncMode) async throws {
        try await withFolder { path async throws in
            try await Self.lose(path, mode) { one, two async throws in
                let events = await one.replica.events()
                try await one.put(4)
                try await one.replica.write { try $0.object("Task", key: 2)?.set("text", to: "again") }
                let discarded: Set = [ObjectAddress("Task".utf8, 2)]
                await syncFails(.notSynchronized) { try await one.client.discard(discarded, of: one.replica) }
                try await one.connect(.manual)
                _ = try await first(events, \.stop)
                try await one.client.discard(discarded, of: one.replica)
                let report = try await first(events, \.report)
                #expect(report.recoveredChangesets == 1 && report.droppedChanges == 0)
                try await one.settle()
                try await two.settle()
                #expect(try await one.tasks == [3, 4])
                #expect(try await one.state == two.state)
                let backup = try SyncedReplica(path: try #require(report.backupPath))
                #expect(try await backup.read { try Device.tasks($0) } == [1, 2, 4])
                try await backup.close()
            }
        }
    }

    @Test(arguments: [true, false]) func theApplicationMayDecide(recovers: Bool) async throws {
        try await withFolder { path async throws in
            try await Self.lose(path, .partition) { one, two async throws in
                let events = await one.replica.events()
                try await one.connect(.manual)
                let stop = try await first(events, \.stop)
                #expect(stop.code == .clientResetRequired)
                await syncFails(.clientResetRequired) { try await one.replica.waitForUpload() }
                // Nothing has happened to it.
                #expect(try await one.tasks == [1, 2])
                try await one.put(5)
                await syncFails(.notSynchronized) { try await one.client.reset(two.replica, recovers: true) }
                try await one.client.reset(one.replica, recovers: recovers)
                let report = try await first(events, \.report)
                #expect(report.backupPath != nil)
                try await one.settle()
                #expect(try await one.tasks == (recovers ? [2, 3, 5] : [3]))
            }
        }
    }

    @Test func whoHoldsASnapshotPutsItOff() async throws {
        try await withFolder { path async throws in
            try await Self.lose(path, .partition) { one, two async throws in
                let reader = try ReplicaReader(path: path("one"))
                let events = await one.replica.events()
                var snapshot: ReplicaSnapshot? = try reader.snapshot()
                try await one.connect()
                let stop = try await first(events, \.stop)
                #expect(stop.code == .storeFailed, "\(stop)")
                // Nothing is lost, and it works without a server.
                #expect(try await one.tasks == [1, 2])
                try await one.put(5)
                #expect(try snapshot?.state.read { try Device.tasks($0) } == [1, 2])
                snapshot = nil
                // The snapshot's connection closes when it can, perhaps only after another attempt.
                try await one.client.reset(one.replica, recovers: true)
                for await event in events {
                    if event.stop != nil { try await one.client.reset(one.replica, recovers: true) }
                    guard let report = event.report else { continue }
                    #expect(report.recoveredChangesets == 2)
                    break
                }
                try await one.settle()
                #expect(try await one.tasks == [2, 3, 5])
            }
        }
    }

    /// A subscription set that the server has not answered is dropped together with the local changes.
    @Test func whoWaitsForASubscriptionHearsThatItIsGone() async throws {
        try await withFolder { path async throws in
            try await Self.lose(path, .flexible) { one, _ async throws in
                try await one.replica.subscribe([Subscription("Task", "text == 'new'")])
                try await one.connect(.discardLocal)
                try await one.replica.waitForSubscriptions()
                try await one.replica.waitForUpload()
                #expect(try await one.tasks == [3])
            }
        }
    }

    // MARK: Processes that end in between

    enum Step: CaseIterable {
        case freshIsComing, freshIsReady, oldIsAway, newIsThere
    }

    @Test(arguments: Step.allCases) func theNextProcessFinishes(_ step: Step) async throws {
        try await withFolder { path async throws in
            try await Self.lose(path, .partition) { one, two async throws in
                try await one.close()
                try await Self.leave(path, at: step, two)
                let again = try SyncedReplica(path: path("one"))
                let isNew = step == .oldIsAway || step == .newIsThere
                #expect(try await again.read { try Device.tasks($0) } == (isNew ? [2, 3] : [1, 2]))
                #expect(await again.unacknowledged.changesets == 1)
                #expect(await again.record.isRecovering == isNew)
                let left = try Self.names(in: path).filter { $0.contains(".fresh") || $0.contains(".ready") }
                #expect(left.isEmpty)
                let events = await again.events()
                try await two.client.add(again, partition: #""tasks""#)
                if !isNew { #expect(try await first(events, \.report).recoveredChangesets == 1) }
                try await again.waitForUpload()
                try await again.waitForDownload()
                #expect(try await again.read { try Device.tasks($0) } == [2, 3])
                try await two.settle()
                #expect(try await two.tasks == [2, 3])
                #expect(await again.record.isRecovering == false)
                await two.client.remove(again)
                try await again.close()
            }
        }
    }

    /// Leaves the files as a process that has ended after a step of a reset.
    private static func leave(_ path: (String) -> String, at step: Step, _ device: Device) async throws {
        let fresh = ReplicaReset.freshPath(path("one"))
        let download = try SyncedReplica(path: fresh)
        try await device.client.add(download, partition: #""tasks""#)
        try await download.waitForDownload()
        await device.client.remove(download)
        try await download.close()
        guard step != .freshIsComing else { return }
        var new = try Replica(SQLiteReplicaStore(path: fresh)), old = try Replica(SQLiteReplicaStore(path: path("one")))
        let recovery = try new.takePlace(of: old, recovers: true, at: 100)
        #expect(recovery.changesets == 1)
        try new.store.close()
        try old.store.close()
        #expect(try names(in: path).allSatisfy { !$0.hasPrefix("one") || !$0.hasSuffix("-wal") })
        let files = FileManager.default
        try files.moveItem(atPath: fresh, toPath: path("one.ready"))
        guard step != .freshIsReady else { return }
        try files.moveItem(atPath: path("one"), toPath: path("one.7.backup"))
        guard step != .oldIsAway else { return }
        try files.moveItem(atPath: path("one.ready"), toPath: path("one"))
    }
}

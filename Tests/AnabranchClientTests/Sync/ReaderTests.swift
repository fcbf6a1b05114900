import AnabranchClient
import AnabranchCore
import AnabranchReplica
import AnabranchTesting
import Foundation
import Testing

/// One writes, many read.
@Suite struct ReaderTests {
    @Test func aSecondWriterIsTurnedAway() async throws {
        try await withFolder { path async throws in
            let one = try Device(path("one"), port: 1)
            try await one.put(1)
            let error = await thrown(ReplicaError.self) { _ = try SyncedReplica(path: path("one")) }
            #expect(error?.code == .inUse)
            try await one.put(2)
            try await one.close()
            let next = try Device(path("one"), port: 1)
            #expect(try await next.tasks == [1, 2])
            try await next.close()
        }
    }

    /// Its fresh file belongs to the one that is making a client reset.
    @Test func aSecondWriterTouchesNothing() async throws {
        try await withFolder { path async throws in
            let one = try Device(path("one"), port: 1)
            for name in ["one.fresh", "one.ready"] { try Data("x".utf8).write(to: URL(filePath: path(name))) }
            let error = await thrown(ReplicaError.self) { _ = try SyncedReplica(path: path("one")) }
            #expect(error?.code == .inUse)
            for name in ["one.fresh", "one.ready"] { #expect(FileManager.default.fileExists(atPath: path(name))) }
            try await one.close()
        }
    }

    @Test func readersSeeWhatWasCommittedWhenTheyLooked() async throws {
        try await withFolder { path async throws in
            let one = try Device(path("one"), port: 1)
            try await one.put(0)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        let reader = try ReplicaReader(path: path("one"))
                        var last = 0
                        while last < 101 {
                            let snapshot = try reader.snapshot()
                            let tasks = try snapshot.state.read { try Device.tasks($0) }
                            // Each transaction writes one task, and raises the version by one.
                            guard tasks == Array(0..<Int64(tasks.count)), tasks.count >= last,
                                snapshot.record.version.rawValue == UInt64(tasks.count) + 1,
                                snapshot.log.count == tasks.count
                            else { throw ReplicaRunError(description: "\(tasks) at \(snapshot.record.version)") }
                            last = tasks.count
                            await Task.yield()
                        }
                    }
                }
                for key in 1...100 { try await one.put(key) }
                try await group.waitForAll()
            }
            try await one.close()
        }
    }

    @Test func aSnapshotStaysAsItIs() async throws {
        try await withFolder { path async throws in
            let one = try Device(path("one"), port: 1)
            try await one.put(1)
            let reader = try ReplicaReader(path: path("one"))
            let own = try await one.replica.snapshot(), other = try reader.snapshot()
            for key in 2...50 { try await one.put(key) }
            try await one.replica.write { tx in try tx.deleteAll("Task") }
            #expect(try own.state.read { try Device.tasks($0) } == [1])
            #expect(try other.state.read { try Device.tasks($0) } == [1])
            #expect(try reader.snapshot().state.read { try Device.tasks($0) } == [])
        }
    }

    @Test func whatIsNoReplicaIsNotOpened() async throws {
        try await withFolder { path async throws in
            let missing = await thrown(ReplicaError.self) { _ = try ReplicaReader(path: path("none")) }
            #expect(missing?.code == .storeFailed)
            #expect(!FileManager.default.fileExists(atPath: path("none")))
            let text = "no database, and longer than the header of one would be, if that had been written"
            try Data(text.utf8).write(to: URL(filePath: path("text")))
            let unread = await thrown(ReplicaError.self) { _ = try ReplicaReader(path: path("text")) }
            let unwritten = await thrown(ReplicaError.self) { _ = try SyncedReplica(path: path("text")) }
            for error in [unread, unwritten] { #expect(error?.reason.contains(path("text")) == true) }
        }
    }
}

import AnabranchChunks
import AnabranchClient
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles

/// A space follows its store by itself, until it is closed.
@Suite(.timeLimit(.minutes(30))) struct FollowingTests {
    /// Two contents lose against others. The space is at the first one when somebody reads the tree, and so takes over
    /// that the second one has changed.
    @Test func whoeverReadsTheTreeHidesNoLostContent() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), space = device.space
            try await device.connect()
            for path in ["/a", "/b"] { try await device.put(path, "of one") }
            try await device.synchronize()
            let other = try #require(Manifest(size: 5, chunks: [ChunkHash(of: "other".utf8)]))
            func replace(_ key: UUID) async throws {
                try await device.store.write { tx in
                    try tx.edit(FileRecord.self, key) { $0.setContent(other, modified: Date()) }
                }
            }
            let (a, b) = (try device.key("/a"), try device.key("/b"))
            let (isHeld, hold) = AsyncStream.makeStream(of: Void.self)
            let (isOver, release) = AsyncStream.makeStream(of: Void.self)
            let holding = Task {
                try await space.turns.perform {
                    hold.finish()
                    for await _ in isOver {}
                }
            }
            for await _ in isHeld {}
            try await replace(a)
            while space.state.withLock({ $0.contents[a] != other }) { await Task.yield() }
            try await replace(b)
            _ = try space.info(SpacePath("/b"))
            release.finish()
            try await holding.value
            while try space.everything().count < 4 { await Task.yield() }
            let names = try space.everything().map(\.displayName)
            #expect(names.filter { $0.contains("conflict of one") }.count == 2)
            try await device.close()
        }
    }

    @Test func whatComesByItselfMakesRoomToo() async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one"),
                two = try await rig.device("two") { settings in
                    settings.policy = .always
                    settings.cacheBytesMax = 10
                }
            for device in [one, two] { try await device.connect() }
            func has(_ path: String) throws -> Bool {
                try two.space.cache.has(try #require(two.space.newestContent(of: try two.key(path))))
            }
            for path in ["/a", "/b"] {
                try await one.put(path, "text of \(path)")
                for device in [one, two] { try await device.synchronize() }
                while try !has(path) { await Task.yield() }
            }
            while try has("/a") { await Task.yield() }
            #expect(try has("/b"))
            for device in [one, two] { try await device.close() }
        }
    }

    @Test func whoWaitsIsToldThatTheSpaceIsClosed() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one", contentPort: 1), space = device.space
            try await device.put("/a", "waits")
            let file = try space.open(SpacePath("/a"))
            var updates = space.statusUpdates.makeAsyncIterator(), ofFile = file.statusUpdates.makeAsyncIterator()
            _ = await (updates.next(), ofFile.next())
            let waiting = Task { try await space.waitForUpload() }
            try await space.close()
            let error = await #expect(throws: SpaceError.self) { try await waiting.value }
            #expect(error?.code == .closed)
            while await updates.next() != nil {}
            while await ofFile.next() != nil {}
            await device.client.stop()
            try await device.store.close()
        }
    }
}

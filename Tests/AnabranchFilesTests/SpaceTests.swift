import AnabranchChunks
import AnabranchClient
import AnabranchFilesWire
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles

/// One space on one device and on two: files, folders, handles, statuses, observers.
@Suite struct SpaceTests {
    private static func code(_ body: () async throws -> Void) async -> SpaceError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? SpaceError)?.code
        }
    }

    // MARK: One device

    @Test func filesAreThereOffLine() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), space = device.space
            try await space.createFolder(SpacePath("/plans"))
            try await device.put("/plans/a.txt", "one")
            try await device.put("/b", "two")
            #expect(try await device.tree() == ["/plans/": "", "/plans/a.txt": "one", "/b": "two"])
            let info = try space.info(SpacePath("/plans/a.txt"))
            #expect(info.size == 3)
            #expect(info.contentID?.count == 64)
            try await space.move(SpacePath("/plans"), to: SpacePath("/b2"))
            try await space.move(SpacePath("/b"), to: SpacePath("/b2/c"))
            #expect(try await device.tree() == ["/b2/": "", "/b2/a.txt": "one", "/b2/c": "two"])
            try await space.delete(SpacePath("/b2"))
            #expect(try await device.tree() == [:])
            let gone = try space.trash()
            #expect(gone.map(\.path.description) == ["/b2"])
            try await space.restore(gone[0])
            #expect(try await device.tree() == ["/b2/": "", "/b2/a.txt": "one", "/b2/c": "two"])
            #expect(try space.entry(info.key)?.path.description == "/b2/a.txt")
            let status = try await space.status(of: SpacePath("/b2/c"))
            #expect(status.isCached)
            #expect(status.isPending)
            try await device.close()
        }
    }

    @Test func whatMakesNoSenseIsRefused() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), space = device.space
            try await space.createFolder(SpacePath("/f"))
            try await space.createFolder(SpacePath("/f/g"))
            try await device.put("/a", "1")
            for name in ["..", ".", "", "a/b", "a\0", String(repeating: "é", count: 128)] {
                await #expect(Self.code { _ = try SpacePath.root.appending(name) } == .badName, "\(name)")
            }
            await #expect(Self.code { _ = try SpacePath("/a/../b") } == .badName)
            await #expect(Self.code { _ = try SpacePath("//a") } == .badName)
            await #expect(Self.code { _ = try await space.create(SpacePath("/a")) } == .exists)
            await #expect(Self.code { try await space.createFolder(SpacePath("/f")) } == .exists)
            let deep = try SpacePath(components: Array(repeating: "d", count: SpaceTree.depthMax + 1))
            await #expect(Self.code { try await space.createFolder(deep) } == .notAllowed)
            await #expect(Self.code { try await space.move(SpacePath("/f"), to: deep) } == .notAllowed)
            await #expect(Self.code { _ = try await space.create(SpacePath("/x/y")) } == .notFound)
            await #expect(Self.code { _ = try await space.create(SpacePath("/a/y")) } == .notFolder)
            await #expect(Self.code { _ = try space.open(SpacePath("/f")) } == .isFolder)
            await #expect(Self.code { _ = try space.open(.root) } == .notAllowed)
            await #expect(Self.code { try await space.delete(.root) } == .notAllowed)
            await #expect(Self.code { try await space.move(SpacePath("/f"), to: SpacePath("/f/g/h")) } == .wouldLoop)
            await #expect(Self.code { try await space.move(SpacePath("/f"), to: SpacePath("/a")) } == .exists)
            await #expect(Self.code { _ = try await space.list(SpacePath("/a")) } == .notFolder)
            await #expect(Self.code { _ = try await space.list(SpacePath("/n")) } == .notFound)
            let file = try space.open(SpacePath("/a"))
            await #expect(Self.code { _ = try space.open(SpacePath("/a")) } == .alreadyOpen)
            file.close()
            await #expect(Self.code { _ = try await file.read() } == .closed)
            await #expect(Self.code { try await file.write(string: "2") } == .closed)
            #expect(try await device.tree() == ["/f/": "", "/f/g/": "", "/a": "1"])
            try await device.close()
        }
    }

    @Test func aHandleClosesWhenItIsReleased() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one")
            try await device.put("/a", "1")
            do { _ = try device.space.open(SpacePath("/a")) }
            #expect(try await device.text("/a") == "1")
            try await device.close()
        }
    }

    /// Contents of several chunks: in memory, from and to files, and by ranges.
    @Test func largeContentsComeInChunks() async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one"), two = try await rig.device("two")
            try await one.connect()
            try await two.connect()
            let size = 2 * Manifest.chunkBytes + 77
            var bytes = Data((0..<size).map { UInt8(truncatingIfNeeded: ($0 &* 7 >> 5) &+ $0 >> 20) })
            let source = rig.folder.appendingPathComponent("source"), copy = rig.folder.appendingPathComponent("copy")
            try bytes.write(to: source)
            let file = try await one.space.create(SpacePath("/big"))
            try await file.write(contentsOf: source, moving: true)
            #expect(!FileManager.default.fileExists(atPath: source.path))
            #expect(try await file.read() == bytes)
            try await one.synchronize()
            try await two.synchronize()
            let other = try two.space.open(SpacePath("/big"))
            let start = Int64(Manifest.chunkBytes) - 3
            let part = try await other.bytes(in: start..<start + 6)
            #expect(part == bytes[Int(start)..<Int(start) + 6])
            try await other.copy(to: copy)
            #expect(try Data(contentsOf: copy) == bytes)
            #expect(try await other.readHandle().readToEnd() == bytes)
            // An edit of one byte moves one chunk.
            bytes[5] ^= 1
            let chunks = try await rig.store.chunks(of: FilesRig.path, putBefore: .max)
            #expect(chunks.count == 3)
            try await other.write(bytes)
            try await two.synchronize()
            let more = try await rig.store.chunks(of: FilesRig.path, putBefore: .max)
            #expect(more.count == 4)
            for device in [one, two] { try await device.close() }
        }
    }

    // MARK: Status, versions

    /// Offline it is pending; at the server: not. A newer version is known before its bytes, and shown when asked.
    @Test func aHandleStaysAtItsVersion() async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one") { $0.policy = .manual }
            let two = try await rig.device("two")
            let file = try await one.space.create(SpacePath("/a"))
            try await file.write(string: "first")
            #expect(file.status.isCached)
            #expect(try await one.space.status(of: SpacePath("/a")).isPending)
            try await one.connect()
            try await two.connect()
            try await one.synchronize()
            for await status in file.statusUpdates where !status.isPending { break }
            #expect(file.status.state == .idle)
            #expect(file.status.progress.fraction == 1)
            try await two.synchronize()
            try await two.put("/a", "second")
            try await two.synchronize()
            try await one.synchronize()
            for await newer in file.newerStatusUpdates where newer != nil { break }
            #expect(file.newerStatus?.isCached == false)
            #expect(try await file.readString() == "first")
            #expect(await Self.code { try file.update() } == .notCached)
            let entry = try one.space.info(SpacePath("/a"))
            #expect(entry.size == 6)
            try await one.space.setPinned(SpacePath("/a"), true)
            for await newer in file.newerStatusUpdates where newer?.isCached == true { break }
            #expect(try file.update())
            #expect(file.newerStatus == nil)
            #expect(try !file.update())
            #expect(try await file.readString() == "second")
            for device in [one, two] { try await device.close() }
        }
    }

    /// A content that is not here can be read when the server can be reached, and is not overwritten unseen.
    @Test func whatIsNotHereIsBrought() async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one"), two = try await rig.device("two") { $0.policy = .manual }
            try await one.connect()
            try await two.connect()
            try await one.put("/a", "text")
            try await one.synchronize()
            try await two.synchronize()
            let file = try two.space.open(SpacePath("/a"))
            #expect(!file.status.isCached)
            #expect(await Self.code { try await file.write(string: "blind") } == .notCached)
            #expect(try await file.readString() == "text")
            #expect(file.status.isCached)
            try await file.write(string: "seen")
            try await two.synchronize()
            try await one.synchronize()
            #expect(try await one.text("/a") == "seen")
            for device in [one, two] { try await device.close() }
        }
    }

    /// A chunk that the server has lost, or damaged: the status says so, and nobody gets wrong bytes.
    @Test(arguments: [true, false]) func damageIsFound(isLost: Bool) async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one"), two = try await rig.device("two") { $0.policy = .manual }
            try await one.connect()
            try await two.connect()
            try await one.put("/a", "text")
            try await one.synchronize()
            try await two.synchronize()
            let hash = ChunkHash(of: "text".utf8)
            let name = try FileManager.default.subpathsOfDirectory(atPath: rig.store.folder).first {
                $0.hasSuffix("\(hash)")
            }
            let path = rig.store.folder + "/" + (try #require(name))
            if isLost {
                try FileManager.default.removeItem(atPath: path)
            } else {
                try Data("tent".utf8).write(to: URL(fileURLWithPath: path))
            }
            let file = try two.space.open(SpacePath("/a"))
            #expect(await Self.code { _ = try await file.read() } == .damaged)
            #expect(file.status.issue?.kind == .damaged)
            #expect(file.status.issue?.path?.description == "/a")
            if isLost {
                // Whoever has the bytes can bring them again.
                #expect(try await rig.status("PUT", "chunks/\(hash)", body: Array("text".utf8)) == 201)
                #expect(try await file.readString() == "text")
                #expect(file.status.issue == nil)
            }
            for device in [one, two] { try await device.close() }
        }
    }

    @Test func offLineTheStatusSaysWhy() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        // Nobody listens at this port.
        let device = try await SpaceDevice("one", folder, port: 1)
        let file = try await device.space.create(SpacePath("/a"))
        try await file.write(string: "text")
        for await status in file.statusUpdates where status.issue != nil { break }
        #expect(file.status.issue?.kind == .offline)
        #expect(file.status.issue?.path?.description == "/a")
        #expect(file.status.isPending)
        #expect(try await file.readString() == "text")
        #expect(device.space.status.pendingFiles == 1)
        try await device.close()
    }

    @Test func theQuotaIsAnIssueOfTheFile() async throws {
        try await FilesRig.run(quotaBytes: 8) { rig in
            let device = try await rig.device("one")
            try await device.connect()
            try await device.put("/a", "short")
            try await device.synchronize()
            try await device.put("/b", "too long")
            do {
                try await device.space.waitForUpload()
                Issue.record("there was room")
            } catch let issue as FileIssue {
                #expect(issue.kind == .quotaExceeded)
                #expect(issue.path?.description == "/b")
            }
            // Names go on.
            try await device.space.move(SpacePath("/a"), to: SpacePath("/c"))
            try await device.store.wait(for: .upload)
            try await device.close()
        }
    }

    // MARK: Restart

    /// What was written goes on after a restart, and nothing that the server has is sent again.
    @Test func whatWaitsGoesOnAfterARestart() async throws {
        try await FilesRig.run { rig in
            let folder = rig.folder.appendingPathComponent("device")
            var device = try await rig.device("one", in: folder)
            let file = try await device.space.create(SpacePath("/a"))
            try await file.write(Data(repeating: 5, count: Manifest.chunkBytes + 1))
            try await device.close()
            device = try await rig.device("one", in: folder)
            #expect(try device.space.info(SpacePath("/a")).size == Int64(Manifest.chunkBytes + 1))
            #expect(try await device.space.status(of: SpacePath("/a")).isPending)
            try await device.connect()
            try await device.synchronize()
            #expect(try await device.space.status(of: SpacePath("/a")).isPending == false)
            try await device.close()
        }
    }

    /// The cache keeps its size, but for what is held.
    @Test func theCacheHasASize() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one") { $0.cacheBytesMax = 10 }
            try await device.connect()
            for name in ["a", "b", "c"] { try await device.put("/\(name)", "content \(name)") }
            try await device.synchronize()
            try await device.space.setPinned(SpacePath("/a"), true)
            for name in ["a", "c"] { #expect(try await device.text("/\(name)") == "content \(name)") }
            let cached = try ["a", "b", "c"].filter { name in
                try device.space.cache.has(try #require(device.space.newestContent(of: try device.key("/\(name)"))))
            }
            #expect(cached.contains("a"))
            #expect(!cached.contains("b"))
            #expect(try await device.text("/b") == "content b")
            try await device.close()
        }
    }

    // MARK: Observers

    private final class Owner: Sendable {}

    @Test func whatIsMovedAndDeletedIsGoneFromWhereItWas() throws {
        let key = UUID(), (a, b, c) = (try SpacePath("/a"), try SpacePath("/b"), try SpacePath("/c"))
        func told(_ changes: [(SpacePath, SpaceChange.Kind)]) -> [String] {
            let observer = SpaceHub.Observer { _ in true }
            for (path, kind) in changes {
                observer.add(SpaceChange(path: path, key: key, kind: kind, origin: .local))
            }
            return observer.take().map { "\($0.kind) \($0.path)" }
        }
        #expect(told([(b, .moved(from: a)), (b, .deleted)]) == ["deleted /b", "deleted /a"])
        let twice = told([(b, .moved(from: a)), (c, .moved(from: b)), (c, .deleted)])
        #expect(twice == ["deleted /b", "deleted /c", "deleted /a"])
        #expect(told([(a, .created), (b, .moved(from: a)), (b, .deleted)]) == ["deleted /b"])
        // Something else has come where it was.
        #expect(told([(b, .moved(from: a)), (a, .created), (b, .deleted)]) == ["deleted /b", "created /a"])
    }

    @Test func changesAreToldInOrderAndByScope() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), space = device.space
            try await space.createFolder(SpacePath("/f"))
            var all = space.changes().makeAsyncIterator()
            var children = try space.changes(at: SpacePath("/f"), .pathAndChildren).makeAsyncIterator()
            try await device.put("/f/a", "1")
            #expect(await all.next()?.map(\.kind) == [.created])
            #expect(await children.next()?.map(\.path.description) == ["/f/a"])
            try await space.move(SpacePath("/f/a"), to: SpacePath("/b"))
            let moved = await all.next()
            #expect(try moved?.map(\.kind) == [.moved(from: SpacePath("/f/a"))])
            #expect(moved?.map(\.origin) == [.local])
            #expect(await children.next()?.map(\.path.description) == ["/b"])
            try await device.put("/gone", "1")
            try await space.delete(SpacePath("/gone"))
            try await space.delete(SpacePath("/b"))
            #expect(await all.next()?.map(\.kind) == [.deleted])
            let told = Mutex<[SpacePath]>([]), (calls, call) = AsyncStream.makeStream(of: Void.self)
            let owner = Owner()
            space.addObserver(owner) { changes in
                told.withLock { $0 += changes.map(\.path) }
                call.yield()
            }
            try await space.createFolder(SpacePath("/g"))
            for await _ in calls { break }
            space.removeObserver(owner)
            try await space.createFolder(SpacePath("/h"))
            #expect(await all.next()?.last?.path.description == "/h")
            #expect(told.withLock { $0.map(\.description) } == ["/g"])
            try await device.close()
            #expect(await all.next() == nil)
        }
    }
}

extension SpaceDevice {
    func key(_ path: String) throws -> UUID { try space.info(SpacePath(path)).key }
}

import AnabranchChunks
import AnabranchClient
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles
@testable import AnabranchFilesWire

/// Transfers that are cut while each of their chunks is under way, of files of `ANABRANCH_CHUNKS` chunks.
@Suite(.timeLimit(.minutes(30)))
struct TransferTests {
    /// Two chunks are under way at once.
    private static let underWay = 2 * Manifest.chunkBytes
    /// The heads of a request and of its answer.
    private static let headBytes = 2_000

    private static var count: Int {
        ProcessInfo.processInfo.environment["ANABRANCH_CHUNKS"].flatMap(Int.init) ?? 4
    }

    /// Makes a file of different chunks.
    private static func makeFile(_ url: URL) throws {
        _ = FileManager.default.createFile(atPath: url.path, contents: nil)
        let handle = try FileHandle(forWritingTo: url)
        for number in 0..<Self.count {
            var bytes = Data(repeating: 7, count: Manifest.chunkBytes)
            withUnsafeBytes(of: number) { bytes.replaceSubrange(0..<8, with: $0) }
            try handle.write(contentsOf: bytes)
        }
        try handle.write(contentsOf: Data("the end".utf8))
        try handle.close()
    }

    private static func run(_ body: (FilesRig, CountingStore) async throws -> Void) async throws {
        let counting = Mutex<CountingStore?>(nil)
        let wrap: @Sendable (FolderChunkStore) -> any ChunkStore = { store in
            let made = CountingStore(store)
            counting.withLock { $0 = made }
            return made
        }
        try await FilesRig.run(wrap: wrap) { rig in
            let puts = try #require(counting.withLock { $0 })
            try await body(rig, puts)
        }
    }

    @Test func aContentWaitsForNoOtherOne() async throws {
        try await Self.run { rig, chunks in
            let source = rig.folder.appendingPathComponent("source")
            try Self.makeFile(source)
            let one = try await rig.device("one")
            try await one.connect()
            try await one.space.create(SpacePath("/big"), contentsOf: source).close()
            try await one.put("/small", "1")
            try await one.synchronize()

            let two = try await rig.device("two") { $0.policy = .manual }
            try await two.connect()
            try await two.synchronize()
            let big = try two.space.open(SpacePath("/big")), small = try two.space.open(SpacePath("/small"))
            let (asked, ask) = AsyncStream.makeStream(of: Void.self)
            let (end, opener) = AsyncStream.makeStream(of: Void.self)
            let gate = Task { for await _ in end {} }, bigChunks = Set(try big.content().chunks)
            chunks.beforeRead.withLock {
                $0 = { chunk in
                    guard bigChunks.contains(chunk) else { return }
                    ask.yield()
                    await gate.value
                }
            }
            let fetching = Task { try await big.fetch() }
            var asking = asked.makeAsyncIterator()
            for _ in 0..<Downloads.parallelMax { _ = await asking.next() }
            #expect(try await small.readString() == "1")
            opener.finish()
            try await fetching.value
            for device in [one, two] { try await device.close() }
        }
    }

    @Test func nothingIsSentTwiceButWhatIsUnderWay() async throws {
        try await Self.run { rig, puts in
            let source = rig.folder.appendingPathComponent("source"), copy = rig.folder.appendingPathComponent("copy")
            try Self.makeFile(source)
            let upward = try await CutProxy(to: rig.port, counting: .up)
            let one = try await rig.device("one", contentPort: upward.port)
            try await one.connect()
            let file = try await one.space.create(SpacePath("/big"))
            try await file.write(contentsOf: source)
            for _ in 0...Self.count {
                upward.cut(after: Manifest.chunkBytes * 3 / 2)
                one.space.uploadBell.ring()
                for await status in one.space.statusUpdates where status.pendingFiles == 0 || !status.issues.isEmpty {
                    break
                }
            }
            upward.cut(after: .max)
            one.space.uploadBell.ring()
            try await one.synchronize()
            #expect(puts.puts.withLock { $0.values.allSatisfy { $0 == 1 } })
            #expect(puts.puts.withLock { $0.count } == Self.count + 1)
            let heads = (Self.count + 2) * 3 * Self.headBytes
            #expect(upward.bytes <= Int(file.size) + (Self.count + 1) * Self.underWay + heads)

            let downward = try await CutProxy(to: rig.port, counting: .down)
            let two = try await rig.device("two", contentPort: downward.port) { $0.policy = .manual }
            try await two.connect()
            try await two.synchronize()
            let other = try two.space.open(SpacePath("/big"))
            var failures = 0, isThere = false
            while !isThere {
                // Each attempt brings at least a chunk.
                downward.cut(after: failures > Self.count ? .max : Manifest.chunkBytes * 3 / 2)
                do {
                    try await other.copy(to: copy)
                    isThere = true
                } catch let error as SpaceError where error.code == .unavailable {
                    failures += 1
                    #expect(!FileManager.default.fileExists(atPath: copy.path))
                }
            }
            #expect(failures > 0)
            #expect(downward.bytes <= Int(file.size) + failures * Self.underWay + heads)
            #expect(FileManager.default.contentsEqual(atPath: copy.path, andPath: source.path))
            for device in [one, two] { try await device.close() }
            for proxy in [upward, downward] { try await proxy.close() }
        }
    }

    /// A content is in the database before the space shows it as waiting: an upload may come in between.
    @Test func whatBeginsToWaitDuringAnUploadIsNotPublishedWithoutItsChunks() async throws {
        try await FilesRig.run { rig in
            let onNow = Mutex<(@Sendable () -> Void)?>(nil)
            let one = try await rig.device("one") { settings in
                settings.now = {
                    onNow.withLock { $0.take() }?()
                    return Date()
                }
            }
            try await one.connect()
            try await one.put("/a", "1")
            try await one.synchronize()
            let space = one.space, file = try space.open(SpacePath("/a")), first = try file.content()
            let source = rig.folder.appendingPathComponent("source")
            try Data("2".utf8).write(to: source)
            let stored = try space.cache.store(contentsOf: source)
            let content = try #require(Manifest(size: 1, chunks: stored.chunks, ancestors: [first.id]))
            let row = ContentCache.Pending(
                file: file.key, content: content, base: first.id, name: "a", parent: nil, modified: Date(),
                isCopy: false)
            try space.cache.add(row)
            // The upload asks for the time once it has looked whether the content waits.
            onNow.withLock { $0 = { space.setWaiting(row, row.file, origin: .local) } }
            _ = await space.uploadAll()
            onNow.withLock { $0 = nil }
            if try one.store.find(FileRecord.self, file.key)?.content != content {
                space.setWaiting(row, row.file, origin: .local)
                space.uploadBell.ring()
            }
            try await one.synchronize()
            #expect(try one.store.find(FileRecord.self, file.key)?.content == content)
            #expect(try await rig.missing(content.chunks).isEmpty)
            try await one.close()
        }
    }

    /// The wait for an upload comes between the end of a file's waiting and that of its issue.
    @Test func anIssueOfNothingThatWaitsEndsNoWait() async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one"), issue = FileIssue(.quotaExceeded, "the quota is used up")
            try await one.connect()
            one.space.board.stop(.upload(UUID()), of: Manifest.empty.id, because: issue)
            try await one.space.waitForUpload()
            try await one.close()
        }
    }

    /// The quota is used up: the user deletes the file that is too large, and the server cannot have its content.
    @Test func whatIsDeletedBeforeThereWasRoomForItIsGone() async throws {
        try await FilesRig.run(quotaBytes: 8) { rig in
            let one = try await rig.device("one"), two = try await rig.device("two")
            for device in [one, two] { try await device.connect() }
            try await one.put("/a", "too long for it")
            await #expect(throws: FileIssue.self) { try await one.space.waitForUpload() }
            try await one.space.delete(SpacePath("/a"))
            one.space.uploadBell.ring()
            for await status in one.space.statusUpdates where status.pendingFiles == 0 { break }
            for device in [one, two] { try await device.synchronize() }
            #expect(try two.space.everything().isEmpty)
            #expect(try one.space.everything().isEmpty)
            for device in [one, two] { try await device.close() }
        }
    }

    /// The user has deleted the own content, and not that which another device has written meanwhile.
    @Test func whatOthersHaveWrittenStaysWhereThereWasNoRoom() async throws {
        try await FilesRig.run(quotaBytes: 8) { rig in
            let one = try await rig.device("one"), two = try await rig.device("two")
            for device in [one, two] { try await device.connect() }
            try await two.put("/a", "1")
            for device in [two, one] { try await device.synchronize() }
            try await one.put("/a", "too long for it")
            await #expect(throws: FileIssue.self) { try await one.space.waitForUpload() }
            try await two.put("/a", "2")
            try await two.synchronize()
            try await one.store.wait(for: .download)
            try await one.space.delete(SpacePath("/a"))
            one.space.uploadBell.ring()
            for await status in one.space.statusUpdates where status.pendingFiles == 0 { break }
            for device in [one, two] {
                try await device.synchronize()
                #expect(try await device.tree() == ["/a": "2"])
            }
            for device in [one, two] { try await device.close() }
        }
    }

    /// The process has ended when the content was published, and that was not written down yet.
    @Test func whatIsWrittenAfterAKillIsNoConflict() async throws {
        try await FilesRig.run { rig in
            let folder = rig.folder.appendingPathComponent("device")
            var device = try await rig.device("one", in: folder)
            try await device.connect()
            var contents: [Manifest] = []
            for text in ["0", "1"] {
                try await device.put("/a", text)
                try await device.synchronize()
                contents.append(try #require(device.space.newestContent(of: try device.key("/a"))))
            }
            try device.space.cache.add(
                ContentCache.Pending(
                    file: try device.key("/a"), content: contents[1], base: contents[0].id, name: "a", parent: nil,
                    modified: Date(), isCopy: false))
            try await device.close()
            // It is written again before it can be uploaded.
            device = try await rig.device("one", in: folder, contentPort: 1)
            try await device.put("/a", "2")
            try await device.close()
            device = try await rig.device("one", in: folder)
            try await device.connect()
            try await device.synchronize()
            #expect(try await device.tree() == ["/a": "2"])
            try await device.close()
        }
    }

    /// The process has ended as above, after more contents than a manifest can name.
    @Test func whatWasNeverPublishedIsNoAncestor() async throws {
        try await FilesRig.run { rig in
            let folder = rig.folder.appendingPathComponent("device")
            var device = try await rig.device("one", in: folder)
            try await device.connect()
            try await device.put("/a", "0")
            try await device.synchronize()
            let key = try device.key("/a"), first = try #require(device.space.newestContent(of: key))
            try await device.close()
            device = try await rig.device("one", in: folder, contentPort: 1)
            for number in 1...Manifest.ancestorsMax + 1 { try await device.put("/a", "\(number)") }
            try await device.close()
            device = try await rig.device("one", in: folder)
            try await device.connect()
            try await device.synchronize()
            #expect(try #require(device.space.newestContent(of: key)).ancestors.first == first.id)
            let published = ContentCache.Pending(
                file: key, content: first, base: nil, name: "a", parent: nil, modified: Date(), isCopy: false)
            try device.space.cache.finish(published, isPublished: true)
            try await device.space.lookForLostContents([key])
            #expect(try await device.tree() == ["/a": "\(Manifest.ancestorsMax + 1)"])
            try await device.close()
        }
    }
}

import AnabranchChunks
import AnabranchClient
import AnabranchFilesWire
import Foundation
import Testing

@testable import AnabranchFiles

/// Copies of contents that come straight into their file, past the cache.
@Suite(.timeLimit(.minutes(30))) struct CopyTests {
    /// Two chunks that differ, one of zeros, the first again, and a short one.
    private static var content: Data {
        var bytes = Data(count: 4 * Manifest.chunkBytes)
        for chunk in [0, 1, 3] {
            let first = chunk * Manifest.chunkBytes
            bytes.replaceSubrange(first..<first + 4, with: chunk == 1 ? "zwei".utf8 : "eins".utf8)
        }
        return bytes + Data("end".utf8)
    }

    /// Runs two devices, of which the first has put a file; the second gets contents by a proxy, and keeps none. It is
    /// left to `body` to close it.
    private static func run(
        _ body: (_ rig: FilesRig, _ one: SpaceDevice, _ two: SpaceDevice, CutProxy) async throws -> Void
    ) async throws {
        try await FilesRig.run { rig in
            let proxy = try await CutProxy(to: rig.port, counting: .down)
            let one = try await rig.device("one")
            let two = try await rig.device("two", contentPort: proxy.port) { $0.policy = .manual }
            for device in [one, two] { try await device.connect() }
            let file = try await one.space.create(SpacePath("/big"))
            try await file.write(content)
            file.close()
            for device in [one, two] { try await device.synchronize() }
            try await body(rig, one, two, proxy)
            try await one.close()
            try await proxy.close()
        }
    }

    private static func files(below folder: URL) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { $0.count > 60 }
    }

    @Test func aCopyIsTheOnlyPlaceOfItsBytes() async throws {
        try await Self.run { rig, _, two, proxy in
            let copy = rig.folder.appendingPathComponent("copy"), file = try two.space.open(SpacePath("/big"))
            try await file.copy(to: copy)
            #expect(try Data(contentsOf: copy) == Self.content)
            #expect(!file.status.isCached && file.status.state == .idle && file.status.issue == nil)
            #expect(try Self.files(below: two.folder.appendingPathComponent("contents")).isEmpty)
            // Zeros need no room, and do not travel; nor does what is there twice.
            let status = try #require(FolderScan.status(copy.path))
            #expect(Int(status.st_blocks) * 512 < 4 * Manifest.chunkBytes)
            #expect(proxy.bytes < 3 * Manifest.chunkBytes)
            #expect(status.st_mode & 0o777 == 0o600)
            // A copy that is there has all chunks.
            let bytes = proxy.bytes
            try await file.copy(to: copy)
            #expect(proxy.bytes == bytes)
            #expect(try Data(contentsOf: copy) == Self.content)
            let error = await #expect(throws: SpaceError.self) { try await file.copy(to: rig.folder) }
            #expect(error?.code == .isFolder)
            #expect(proxy.bytes == bytes)
            try await two.close()
        }
    }

    /// Its content is read, and found to be the same.
    @Test func aMirroredFileThatIsTouchedLeavesNothingInTheCache() async throws {
        try await Self.run { rig, _, two, _ in
            let folder = two.folder.appendingPathComponent("mirrored"), file = folder.appendingPathComponent("big").path
            let mirror = try FolderMirror(
                two.space, folder: folder, database: two.folder.appendingPathComponent("rows").path)
            while try await mirror.compare() > 0 {}
            let content = try two.space.info(SpacePath("/big")).contentID
            let date = Date(timeIntervalSince1970: 1_000_000_000)
            try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file)
            while try await mirror.compare() > 0 {}
            #expect(try two.space.info(SpacePath("/big")).contentID == content)
            #expect(try Self.files(below: two.folder.appendingPathComponent("contents")).isEmpty)
            try await two.close()
        }
    }

    @Test func ofAnOlderCopyOnlyWhatHasChangedComes() async throws {
        try await Self.run { rig, one, two, proxy in
            let copy = rig.folder.appendingPathComponent("copy"), file = try two.space.open(SpacePath("/big"))
            try await file.copy(to: copy)
            var changed = Self.content
            changed[Manifest.chunkBytes + 9] = 1
            let own = try one.space.open(SpacePath("/big"))
            try await own.write(changed)
            for device in [one, two] { try await device.synchronize() }
            file.close()
            let newer = try two.space.open(SpacePath("/big")), bytes = proxy.bytes
            try await newer.copy(to: copy)
            #expect(try Data(contentsOf: copy) == changed)
            #expect(proxy.bytes - bytes < Manifest.chunkBytes * 3 / 2)
            try await two.close()
        }
    }

    @Test func whatHasComeIsFoundAfterARestart() async throws {
        try await Self.run { rig, _, two, proxy in
            let copy = rig.folder.appendingPathComponent("copy"), file = try two.space.open(SpacePath("/big"))
            // The last chunk is asked for when another one has come.
            let last = ChunkHash(of: "end".utf8)
            try rig.store.remove(last, of: FilesRig.path)
            await #expect(throws: SpaceError.self) { try await file.copy(to: copy) }
            #expect(!FileManager.default.fileExists(atPath: copy.path))
            #expect(file.status.issue?.kind == .damaged)
            try await two.close()

            #expect(try await rig.status("PUT", "chunks/\(last)", body: Array("end".utf8)) == 201)
            let bytes = proxy.bytes
            let again = try await rig.device("two", in: two.folder, contentPort: proxy.port) { $0.policy = .manual }
            try await again.space.open(SpacePath("/big")).copy(to: copy)
            #expect(try Data(contentsOf: copy) == Self.content)
            #expect(proxy.bytes - bytes < Manifest.chunkBytes * 3 / 2)
            #expect(try Self.files(below: again.folder.appendingPathComponent("contents")).isEmpty)
            try await again.close()
        }
    }

    /// Several who copy one content wait for each other, and each gets all of it.
    @Test func copiesAtOnce() async throws {
        try await Self.run { rig, _, two, _ in
            let file = try two.space.open(SpacePath("/big"))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for name in ["a", "b", "c"] {
                    group.addTask { try await file.copy(to: rig.folder.appendingPathComponent(name)) }
                }
                try await group.waitForAll()
            }
            for name in ["a", "b", "c"] {
                #expect(try Data(contentsOf: rig.folder.appendingPathComponent(name)) == Self.content)
            }
            // The cache is left to those who read.
            #expect(try await file.read() == Self.content)
            #expect(file.status.isCached)
            try await two.close()
        }
    }

    @Test func draftsThatNobodyGoesOnWithAreRemoved() async throws {
        try await FilesRig.run { rig in
            let folder = rig.folder.appendingPathComponent("cache"), drafts = folder.appendingPathComponent("drafts")
            try ContentCache(folder: folder.path, bytesMax: 100).close()
            for (name, days) in [("\(ChunkHash(of: [1]))", 8.0), ("\(ChunkHash(of: [2]))", 6), ("other", 0)] {
                let file = drafts.appendingPathComponent(name)
                try Data("1".utf8).write(to: file)
                let date = Date(timeIntervalSinceNow: -days * 86_400)
                try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file.path)
            }
            try ContentCache(folder: folder.path, bytesMax: 100).close()
            let left = try FileManager.default.contentsOfDirectory(atPath: drafts.path)
            #expect(left == ["\(ChunkHash(of: [2]))"])
            // A process may run for long, and what is read has no name of a draft.
            try Data("1".utf8).write(to: drafts.appendingPathComponent("other"))
            let date = Date(timeIntervalSinceNow: -8 * 86_400)
            try FileManager.default.setAttributes(
                [.modificationDate: date], ofItemAtPath: drafts.appendingPathComponent(left[0]).path)
            let content = try #require(Manifest(size: 1, chunks: [ChunkHash(of: [3])]))
            _ = try ContentDraft(content, in: drafts.path) {}
            let kept = try FileManager.default.contentsOfDirectory(atPath: drafts.path)
            #expect(Set(kept) == ["\(content.id)", "other"])
        }
    }

    #if os(Linux)
    /// A mirror would take the end of the writing, if it came when the file has its name, for that of somebody else.
    @Test func whatIsInItsPlaceAndClosedIsNotOpenAnyMore() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("draft-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let bytes = Array("1".utf8), chunk = ChunkHash(of: bytes), target = folder.appendingPathComponent("copy")
        let content = try #require(Manifest(size: 1, chunks: [chunk]))
        try Data().write(to: target)
        let draft = try ContentDraft(content, in: folder.path) {}
        try draft.write(bytes, of: chunk)
        try draft.move(to: target.path).close()
        let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
        }
        #expect(!open.contains { $0.hasSuffix("\(folder.lastPathComponent)/copy") })
        #expect(try Data(contentsOf: target) == Data(bytes))
        withExtendedLifetime(draft) {}
    }
    #endif

    @Test func whatComesFromAPipeIsAContent() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), cache = device.space.cache, pipe = Pipe()
            let bytes = Self.content, (input, output) = (pipe.fileHandleForReading, pipe.fileHandleForWriting)
            let writing = Task.detached {
                try output.write(contentsOf: bytes)
                try output.close()
            }
            let content = try await device.space.disk.run { try cache.store(from: input.fileDescriptor) }
            try await writing.value
            #expect(content.size == Int64(bytes.count) && content.chunks == Self.chunks(of: bytes))
            cache.release(content.chunks)
            try await device.close()
        }
    }

    /// An array that somebody still reads is used again, and stays as it is for the reader.
    @Test func aBufferThatIsReadStaysAsItIs() {
        let buffers = ChunkBuffers(), read = Array("one".utf8)
        buffers.giveBack(read)
        var next = buffers.next()
        #expect(next.isEmpty)
        next += "another".utf8
        #expect(read == Array("one".utf8) && next == Array("another".utf8))
    }

    private static func chunks(of bytes: Data) -> [ChunkHash] {
        stride(from: 0, to: bytes.count, by: Manifest.chunkBytes).map {
            ChunkHash(of: bytes[$0..<min(bytes.count, $0 + Manifest.chunkBytes)])
        }
    }
}

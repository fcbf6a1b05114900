import AnabranchChunks
import AnabranchClient
import AnabranchCore
import AnabranchFilesWire
import AnabranchHistory
import AnabranchSQLite
import AnabranchServer
import Foundation
import NIOCore
import Synchronization
import Testing

@testable import AnabranchFiles

/// Chunks over HTTP: what is kept, who sees it, and when it goes.
@Suite struct ChunkTests {
    private static let bytes = Array("a chunk".utf8)
    private static let hash = ChunkHash(of: bytes)

    @Test func aChunkIsPutAndRead() async throws {
        try await FilesRig.run { rig in
            let (bytes, name) = (Self.bytes, "chunks/\(Self.hash)")
            #expect(try await rig.missing([Self.hash]) == ["\(Self.hash)"])
            #expect(try await rig.status("GET", name) == 404)
            #expect(try await rig.status("PUT", name, body: bytes) == 201)
            #expect(try await rig.status("PUT", name, body: bytes) == 200)
            #expect(try await rig.missing([Self.hash]) == [])
            #expect(try await rig.send("GET", name).body == bytes)
            let part = try await rig.send("GET", name, headers: [("Range", "bytes=2-4")])
            #expect(part.status == 206)
            #expect(part.body == Array("chu".utf8))
            #expect(try await rig.send("GET", name, headers: [("Range", "bytes=-5")]).body == Array("chunk".utf8))
            #expect(try await rig.send("GET", name, headers: [("Range", "bytes=7-")]).status == 416)
            #expect(try await rig.send("GET", name, headers: [("Range", "bytes=x")]).status == 200)
            #expect(try await rig.status("HEAD", name) == 200)
            #expect(try await rig.status("DELETE", name) == 405)
        }
    }

    @Test func aLargeChunkComesInParts() async throws {
        try await FilesRig.run { rig in
            let bytes = (0..<Manifest.chunkBytes).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
            let hash = ChunkHash(of: bytes)
            let status = try await rig.status("PUT", "chunks/\(hash)", body: bytes)
            #expect(status == 201)
            #expect(try await rig.send("GET", "chunks/\(hash)").body == bytes)
            #expect(try await rig.status("PUT", "chunks/\(hash)", body: bytes + [1]) == 413)
        }
    }

    @Test func theFirstChunksOfASpaceMayComeTogether() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("chunks-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = FolderChunkStore(folder: folder.path)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                let path = VirtualPath(app: "app", partition: .string("\(number / 4)")), bytes = Array("\(number)".utf8)
                group.addTask {
                    let parts = AsyncStream<ByteBuffer> {
                        $0.yield(ByteBuffer(bytes: bytes))
                        $0.finish()
                    }
                    try await store.put(ChunkHash(of: bytes), of: path, byteCount: bytes.count, EndpointStream(parts))
                }
            }
            try await group.waitForAll()
        }
        #expect(try await store.paths().count == 10)
    }

    /// Nothing is kept of what is refused.
    @Test func whatIsNoChunkIsRefused() async throws {
        try await FilesRig.run { rig in
            let (bytes, name) = (Self.bytes, "chunks/\(Self.hash)")
            #expect(try await rig.status("PUT", name, body: bytes + [0]) == 422)
            #expect(try await rig.status("PUT", "chunks/..%2f..%2fkeys.json", body: bytes) == 400)
            #expect(try await rig.status("PUT", "chunks/../../keys.json", body: bytes) == 404)
            #expect(try await rig.status("PUT", "chunks/\("\(Self.hash)".uppercased())", body: bytes) == 400)
            #expect(try await rig.status("PUT", name, body: bytes, query: "") == 400)
            #expect(try await rig.status("PUT", name, body: bytes, query: "path=%22a%22&path=%22b%22") == 400)
            #expect(try await rig.status("PUT", name, body: bytes, query: "path=%7B") == 400)
            #expect(try await rig.status("PUT", name, user: "", body: bytes) == 401)
            #expect(try await rig.status("POST", "chunks/missing", body: Array("{}".utf8)) == 400)
            #expect(try await rig.status("POST", "chunks/missing", body: Array("[\"x\"]".utf8)) == 400)
            let many = "[" + repeatElement("\"\(Self.hash)\"", count: 1_001).joined(separator: ",") + "]"
            #expect(try await rig.status("POST", "chunks/missing", body: Array(many.utf8)) == 400)
            #expect(try await rig.missing([Self.hash]) == ["\(Self.hash)"])
            let kept = try FileManager.default.subpathsOfDirectory(atPath: rig.folder.path)
            #expect(kept.filter { $0.hasSuffix(".new") || $0.contains("\(Self.hash)") } == [])
        }
    }

    /// A user sees what a file uses, and for a day what the user has put; another partition is another world.
    @Test func nobodyLearnsWhatIsThere() async throws {
        let authorizer = CallbackAuthorizer { principal, _ in
            switch principal.user {
            case "ann", "bob": .write
            case "eve": .read
            default: .none
            }
        }
        try await FilesRig.run(authorizer: authorizer) { rig in
            let name = "chunks/\(Self.hash)"
            #expect(try await rig.status("PUT", name, user: "eve", body: Self.bytes) == 403)
            #expect(try await rig.status("PUT", name, user: "mallory", body: Self.bytes) == 404)
            #expect(try await rig.status("PUT", name, body: Self.bytes) == 201)
            #expect(try await rig.status("GET", name) == 200)
            #expect(try await rig.status("GET", name, user: "bob") == 404)
            #expect(try await rig.missing([Self.hash], user: "bob") == ["\(Self.hash)"])
            #expect(try await rig.status("GET", name, query: "path=%22other%22") == 404)
            rig.clock.advance(by: 86_401)
            #expect(try await rig.status("GET", name) == 404)
            let device = try await rig.device("one")
            try await device.connect()
            try await device.put("/a", "a chunk")
            try await device.synchronize()
            for user in ["ann", "bob", "eve"] {
                #expect(try await rig.status("GET", name, user: user) == 200)
                #expect(try await rig.missing([Self.hash], user: user) == [])
            }
            #expect(try await rig.status("GET", name, user: "mallory") == 404)
            try await device.close()
        }
    }

    @Test func theQuotaCountsWhatIsKept() async throws {
        try await FilesRig.run(quotaBytes: 10) { rig in
            let (small, other) = ([UInt8](repeating: 1, count: 6), [UInt8](repeating: 2, count: 5))
            #expect(try await rig.status("PUT", "chunks/\(ChunkHash(of: small))", body: small) == 201)
            #expect(try await rig.status("PUT", "chunks/\(ChunkHash(of: other))", body: other) == 507)
            #expect(try await rig.status("PUT", "chunks/\(ChunkHash(of: small))", body: small) == 200)
            rig.clock.advance(by: 31 * 86_400)
            try await rig.wire.sweep(FilesRig.path)
            #expect(try await rig.status("PUT", "chunks/\(ChunkHash(of: other))", body: other) == 201)
        }
    }

    /// A store of chunks that does something else once, after it has taken a chunk.
    private final class Interrupted: ChunkStore {
        private let store: FolderChunkStore
        let meanwhile = Mutex<(@Sendable () async throws -> Void)?>(nil)

        init(_ store: FolderChunkStore) { self.store = store }

        func put(_ chunk: ChunkHash, of path: VirtualPath, byteCount: Int, _ parts: EndpointStream) async throws {
            let meanwhile = meanwhile.withLock { $0.take() }
            try await store.put(chunk, of: path, byteCount: byteCount, parts)
            try await meanwhile?()
        }

        func byteCount(of chunk: ChunkHash, of path: VirtualPath) async throws -> Int? {
            try await store.byteCount(of: chunk, of: path)
        }

        func read(_ chunk: ChunkHash, of path: VirtualPath, in range: Range<Int>) async throws -> EndpointStream? {
            try await store.read(chunk, of: path, in: range)
        }

        func remove(_ chunk: ChunkHash, of path: VirtualPath) throws { try store.remove(chunk, of: path) }
        func contains(_ chunk: ChunkHash, of path: VirtualPath) -> Bool { store.contains(chunk, of: path) }
        func paths() async throws -> [VirtualPath] { try await store.paths() }

        func chunks(of path: VirtualPath, putBefore time: UInt64) async throws -> [ChunkHash] {
            try await store.chunks(of: path, putBefore: time)
        }
    }

    /// Chunks that come at the same time fit into the quota one by one, but not together.
    @Test func nothingIsKeptOfAChunkThatIsOneTooMany() async throws {
        let interrupted = Mutex<Interrupted?>(nil)
        let wrap: @Sendable (FolderChunkStore) -> any ChunkStore = { store in
            let made = Interrupted(store)
            interrupted.withLock { $0 = made }
            return made
        }
        try await FilesRig.run(quotaBytes: 10, wrap: wrap) { rig in
            let (one, two) = ([UInt8](repeating: 1, count: 6), [UInt8](repeating: 2, count: 6))
            try #require(interrupted.withLock { $0 }).meanwhile.withLock {
                $0 = { () async throws in
                    #expect(try await rig.status("PUT", "chunks/\(ChunkHash(of: one))", body: one) == 201)
                }
            }
            #expect(try await rig.status("PUT", "chunks/\(ChunkHash(of: two))", body: two) == 507)
            #expect(rig.store.contains(ChunkHash(of: one), of: FilesRig.path))
            #expect(!rig.store.contains(ChunkHash(of: two), of: FilesRig.path))
        }
    }

    /// What the operator keeps free of the disk, chunks do not take either.
    @Test func noChunkComesWhileTooLittleIsFree() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let history = try SQLiteStore(directory: folder.appendingPathComponent("data").path)
        try await FilesRig.run(history: history, freeBytesMin: .max) { rig async throws in
            #expect(try await rig.status("PUT", "chunks/\(Self.hash)", body: Self.bytes) == 507)
            #expect(!rig.store.contains(Self.hash, of: FilesRig.path))
        }
    }

    /// A chunk stays for 30 days after its last use.
    @Test func aChunkGoesWhenNothingUsesIt() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), path = FilesRig.path
            try await device.connect()
            try await device.put("/a", "a chunk")
            try await device.synchronize()
            rig.clock.advance(by: 40 * 86_400)
            try await rig.wire.sweep(path)
            #expect(rig.store.contains(Self.hash, of: path))
            try await device.put("/a", "another")
            try await device.synchronize()
            rig.clock.advance(by: 29 * 86_400)
            try await rig.wire.sweep(path)
            #expect(rig.store.contains(Self.hash, of: path))
            rig.clock.advance(by: 2 * 86_400)
            try await rig.wire.sweep(path)
            #expect(!rig.store.contains(Self.hash, of: path))
            #expect(try await rig.missing([Self.hash]) == ["\(Self.hash)"])
            // It can be written again.
            try await device.put("/a", "a chunk")
            try await device.synchronize()
            #expect(rig.store.contains(Self.hash, of: path))
            try await device.close()
        }
    }

    /// Its content is the same, and is not looked at.
    @Test func aFileThatMovesUsesItsChunks() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), path = FilesRig.path
            try await device.connect()
            try await device.put("/a", "a chunk")
            try await device.synchronize()
            try await device.space.move(SpacePath("/a"), to: SpacePath("/b"))
            try await device.synchronize()
            // In the trash it uses them as well.
            try await device.space.delete(SpacePath("/b"))
            try await device.synchronize()
            rig.clock.advance(by: 29 * 86_400)
            let trashed = try #require(try device.space.trash().first)
            try await device.space.restore(trashed)
            try await device.space.move(SpacePath("/b"), to: SpacePath("/c"))
            try await device.synchronize()
            rig.clock.advance(by: 40 * 86_400)
            try await rig.wire.sweep(path)
            #expect(rig.store.contains(Self.hash, of: path))
            try await device.synchronize()
            #expect(try await device.tree() == ["/c": "a chunk"])
            try await device.put("/c", "another")
            try await device.synchronize()
            rig.clock.advance(by: 31 * 86_400)
            try await rig.wire.sweep(path)
            #expect(!rig.store.contains(Self.hash, of: path))
            try await device.close()
        }
    }

    /// An entry can end more uses than are noticed with it: the others are found when the chunks are looked at.
    @Test func aChunkGoesAlsoIfTheEndOfItsUseWasNotNoticed() async throws {
        try await FilesRig.run(endedUsesMax: 0) { rig in
            let device = try await rig.device("one"), path = FilesRig.path
            try await device.connect()
            try await device.put("/a", "a chunk")
            try await device.put("/b", "a chunk")
            try await device.synchronize()
            try await device.put("/a", "another")
            try await device.synchronize()
            // One file still uses it.
            for _ in 0..<2 {
                rig.clock.advance(by: 31 * 86_400)
                try await rig.wire.sweep(path)
                #expect(rig.store.contains(Self.hash, of: path))
            }
            try await device.put("/b", "another")
            try await device.synchronize()
            try await rig.wire.sweep(path)
            rig.clock.advance(by: 29 * 86_400)
            try await rig.wire.sweep(path)
            #expect(rig.store.contains(Self.hash, of: path), "it stays for 30 days after its last use")
            rig.clock.advance(by: 2 * 86_400)
            try await rig.wire.sweep(path)
            #expect(!rig.store.contains(Self.hash, of: path))
            #expect(rig.store.contains(ChunkHash(of: Array("another".utf8)), of: path))
            try await device.close()
        }
    }

    /// What is in the trash is erased after its days, and what was edited since is not.
    @Test func theTrashIsEmptied() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one")
            try await device.connect()
            try await device.space.createFolder(SpacePath("/f"))
            try await device.put("/f/a", "1")
            try await device.put("/b", "2")
            try await device.space.delete(SpacePath("/f"))
            try await device.space.delete(SpacePath("/b"))
            try await device.synchronize()
            rig.clock.advance(by: 29 * 86_400)
            try await rig.wire.sweep(FilesRig.path)
            try await device.synchronize()
            #expect(try device.space.trash().map(\.path.description) == ["/b", "/f"])
            let gone = try #require(try device.space.trash().first)
            try await device.space.restore(gone)
            try await device.synchronize()
            rig.clock.advance(by: 2 * 86_400)
            // A folder is empty when what was in it is erased.
            for _ in 0..<2 { try await rig.wire.sweep(FilesRig.path) }
            try await device.synchronize()
            #expect(try device.space.trash().isEmpty)
            #expect(try await device.tree() == ["/b": "2"])
            try await device.close()
        }
    }
}

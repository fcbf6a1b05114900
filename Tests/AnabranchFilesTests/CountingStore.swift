import AnabranchChunks
import AnabranchHistory
import AnabranchServer
import Synchronization

@testable import AnabranchFilesWire

/// A store of chunks that counts which came to their end, and may keep those waiting who read.
final class CountingStore: ChunkStore {
    private let store: FolderChunkStore
    let puts = Mutex<[ChunkHash: Int]>([:])
    /// Called before a chunk is read.
    let beforeRead = Mutex<@Sendable (ChunkHash) async -> Void>({ _ in })

    init(_ store: FolderChunkStore) { self.store = store }

    func put(_ chunk: ChunkHash, of path: VirtualPath, byteCount: Int, _ parts: EndpointStream) async throws {
        try await store.put(chunk, of: path, byteCount: byteCount, parts)
        puts.withLock { $0[chunk, default: 0] += 1 }
    }

    func byteCount(of chunk: ChunkHash, of path: VirtualPath) async throws -> Int? {
        try await store.byteCount(of: chunk, of: path)
    }

    func read(_ chunk: ChunkHash, of path: VirtualPath, in range: Range<Int>) async throws -> EndpointStream? {
        let wait = beforeRead.withLock { $0 }
        await wait(chunk)
        return try await store.read(chunk, of: path, in: range)
    }

    func remove(_ chunk: ChunkHash, of path: VirtualPath) throws { try store.remove(chunk, of: path) }
    func contains(_ chunk: ChunkHash, of path: VirtualPath) -> Bool { store.contains(chunk, of: path) }
    func paths() async throws -> [VirtualPath] { try await store.paths() }

    func chunks(of path: VirtualPath, putBefore time: UInt64) async throws -> [ChunkHash] {
        try await store.chunks(of: path, putBefore: time)
    }
}

package import AnabranchChunks
package import AnabranchHistory
package import AnabranchServer

/// Where the chunks of files are kept, by the synced file whose users share them. All calls are durable when they
/// return.
package protocol ChunkStore: Sendable {
    /// The size of a chunk, in bytes; nil if it is not here.
    func byteCount(of chunk: ChunkHash, of path: VirtualPath) async throws -> Int?

    /// Stores a chunk as its bytes arrive. One that is here already is replaced by the same bytes.
    /// - Throws: `ChunkError`; what the stream throws. Then nothing is kept.
    func put(_ chunk: ChunkHash, of path: VirtualPath, byteCount: Int, _ parts: EndpointStream) async throws

    /// The bytes of a part of a chunk.
    /// - Returns: nil if the chunk is not here.
    func read(_ chunk: ChunkHash, of path: VirtualPath, in range: Range<Int>) async throws -> EndpointStream?

    /// Removes a chunk, if it is here. Called in the turn of the synced file, so it has to be quick.
    func remove(_ chunk: ChunkHash, of path: VirtualPath) throws

    /// True if a chunk is here. Called in the turn of the synced file.
    func contains(_ chunk: ChunkHash, of path: VirtualPath) -> Bool

    /// The synced files that have chunks here.
    func paths() async throws -> [VirtualPath]

    /// The chunks of a synced file that were put before a time, in seconds since 1970.
    func chunks(of path: VirtualPath, putBefore time: UInt64) async throws -> [ChunkHash]
}

/// The reason why a chunk was not taken.
package enum ChunkError: Error, Equatable {
    /// The bytes are not those of the hash, or not as many as announced.
    case wrongContent
    /// There is no room for it.
    case diskFull
}

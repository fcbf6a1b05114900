/// The content of a file: the hashes of its chunks, and the contents that it was made from (`Spec/Files.md`,
/// section 2).
///
/// Its bytes are a version (1), the number of ancestors and their content ids, the size (8 bytes), the number of chunks
/// (4 bytes) and their hashes; numbers with the highest byte first. The content id is the hash of these bytes.
package struct Manifest: Equatable, Sendable {
    /// The bytes of each chunk but the last.
    package static let chunkBytes = 4 << 20
    /// The most chunks that a file can have.
    package static let chunksMax = 100_000
    /// How many of the contents before it a content names.
    package static let ancestorsMax = 16
    private static let version: UInt8 = 1

    /// The content ids before this one, the newest first.
    package let ancestors: [ChunkHash]
    /// The size of the content, in bytes.
    package let size: Int64
    package let chunks: [ChunkHash]
    /// The content id.
    package let id: ChunkHash

    /// The encoded form.
    package var bytes: [UInt8] { Self.encode(ancestors, size, chunks) }

    /// A content made from others, of which the first `ancestorsMax` count.
    /// - Returns: nil if there cannot be such chunks.
    package init?(size: Int64, chunks: [ChunkHash], ancestors: [ChunkHash] = []) {
        let ancestors = Array(ancestors.prefix(Self.ancestorsMax))
        self.init(ancestors, size, chunks, encoded: Self.encode(ancestors, size, chunks))
    }

    /// - Parameter bytes: the encoded form, if there can be such chunks.
    private init?(
        _ ancestors: [ChunkHash], _ size: Int64, _ chunks: [ChunkHash], encoded bytes: @autoclosure () -> [UInt8]
    ) {
        guard Self.chunkCount(of: size) == chunks.count else { return nil }
        (self.ancestors, self.size, self.chunks) = (ancestors, size, chunks)
        id = ChunkHash(of: bytes())
    }

    /// The empty content of a new file.
    package static let empty = Manifest(ancestors: [])

    /// Stands for the content of a new file until that is at the server. Its ancestor is the hash of nothing, which no
    /// content has; to other programs it is an empty one.
    package static let awaited = Manifest(ancestors: [ChunkHash(of: [])])

    private init(ancestors: [ChunkHash]) {
        (self.ancestors, size, chunks) = (ancestors, 0, [])
        id = ChunkHash(of: Self.encode(ancestors, 0, []))
    }

    /// - Returns: nil if the bytes are not a manifest. Any client can write them.
    package init?(_ bytes: [UInt8]) {
        var rest = bytes[...]
        func number(_ count: Int) -> UInt64? {
            guard rest.count >= count else { return nil }
            defer { rest = rest.dropFirst(count) }
            return rest.prefix(count).reduce(0) { $0 << 8 | UInt64($1) }
        }
        func hashes(_ count: Int) -> [ChunkHash]? {
            guard rest.count / ChunkHash.byteCount >= count else { return nil }
            defer { rest = rest.dropFirst(count * ChunkHash.byteCount) }
            return (0..<count).compactMap { index in
                let first = rest.startIndex + index * ChunkHash.byteCount
                return ChunkHash(bytes: rest[first..<first + ChunkHash.byteCount])
            }
        }
        guard number(1) == UInt64(Self.version), let ancestorCount = number(1), ancestorCount <= Self.ancestorsMax,
            let ancestors = hashes(Int(ancestorCount)), let size = number(8).flatMap(Int64.init(exactly:)),
            let count = number(4), count <= Self.chunksMax, let chunks = hashes(Int(count)), rest.isEmpty
        else { return nil }
        self.init(ancestors, size, chunks, encoded: bytes)
    }

    /// The bytes of a chunk by its number.
    package func byteCount(ofChunk index: Int) -> Int {
        index == chunks.count - 1 ? Int(size) - index * Self.chunkBytes : Self.chunkBytes
    }

    /// The number of chunks of a file; nil if it is too large or negative.
    package static func chunkCount(of size: Int64) -> Int? {
        guard size >= 0, size <= Int64(chunkBytes) * Int64(chunksMax) else { return nil }
        return Int((size + Int64(chunkBytes) - 1) / Int64(chunkBytes))
    }

    private static func encode(_ ancestors: [ChunkHash], _ size: Int64, _ chunks: [ChunkHash]) -> [UInt8] {
        var bytes = [version, UInt8(ancestors.count)]
        bytes.reserveCapacity(14 + ChunkHash.byteCount * (ancestors.count + chunks.count))
        for ancestor in ancestors { bytes += ancestor.bytes }
        withUnsafeBytes(of: UInt64(size).bigEndian) { bytes += $0 }
        withUnsafeBytes(of: UInt32(chunks.count).bigEndian) { bytes += $0 }
        for chunk in chunks { bytes += chunk.bytes }
        return bytes
    }
}

import AnabranchCore
import Crypto

/// The SHA-256 of a chunk, or of a manifest.
package struct ChunkHash: Hashable, Comparable, Sendable, CustomStringConvertible {
    package static let byteCount = 32

    package let bytes: [UInt8]

    /// The hash of these bytes.
    package init(of content: some Sequence<UInt8>) {
        var digest = ChunkDigest()
        if content.withContiguousStorageIfAvailable({ digest.update(UnsafeRawBufferPointer($0)) }) == nil {
            Array(content).withUnsafeBytes { digest.update($0) }
        }
        self = digest.hash
    }

    /// - Returns: nil unless they are 32 bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = Array(bytes)
    }

    /// - Parameter hex: 64 hexadecimal digits in lower case; nil for any other text.
    package init?(hex: some StringProtocol) {
        guard hex.utf8.count == 2 * Self.byteCount, let bytes = Hex.decode(String(hex)), Hex.encode(bytes) == hex else {
            return nil
        }
        self.bytes = bytes
    }

    package var description: String { Hex.encode(bytes) }

    package static func < (left: ChunkHash, right: ChunkHash) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}

/// Computes the hash of bytes that come one part after another.
package struct ChunkDigest {
    private var digest = SHA256()

    package init() {}

    package mutating func update(_ part: UnsafeRawBufferPointer) { digest.update(bufferPointer: part) }

    /// The hash of all parts so far.
    package var hash: ChunkHash {
        let bytes = digest.finalize()
        return ChunkHash(bytes: Array(bytes)) ?? ChunkHash(of: [])
    }
}

import NIOCore

/// How many bytes of a socket are read at one go, before the others of the event loop have their turn.
///
/// What has been read is handled at once. So a reading must not bring too much work: many short messages are more work
/// than one long message of as many bytes.
struct ReadingPace {
    /// What is read of a client that sends long messages, in bytes.
    static let bytesMax = 64 << 10
    /// What is read at least, in bytes: fourteen of the shortest messages.
    static let bytesMin = 256
    /// A reading with more frames is followed by a shorter one.
    static let framesMax = 16

    /// How much is read next.
    private(set) var bytes = ReadingPace.bytesMax
    private var frames = 0

    mutating func countFrame() { frames += 1 }

    /// A reading is over.
    /// - Returns: whether `bytes` has changed.
    mutating func endReading() -> Bool {
        defer { frames = 0 }
        let old = bytes
        if frames > Self.framesMax {
            bytes = max(Self.bytesMin, bytes / 8)
        } else if frames <= Self.framesMax / 4 {
            bytes = min(Self.bytesMax, bytes * 2)
        }
        return bytes != old
    }

    /// Buffers for the next readings, no larger than what recent ones needed.
    var allocator: AdaptiveRecvByteBufferAllocator {
        AdaptiveRecvByteBufferAllocator(minimum: 64, initial: min(2048, bytes), maximum: bytes)
    }
}

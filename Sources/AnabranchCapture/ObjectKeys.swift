import AnabranchClient
import AnabranchCore

/// The keys of new objects: UUIDs of version 7, each above the last one, so that what is made together is kept
/// together.
struct ObjectKeys {
    private static let counterBits: UInt64 = 12

    /// Milliseconds since 1970, then a counter.
    private var last: UInt64

    init(now: ChangesetTime = .now) { last = UInt64(now.secondsSince1970 * 1000) << Self.counterBits }

    mutating func next() -> UUIDBytes {
        last &+= 1
        let time = last >> Self.counterBits, counter = last & (1 << Self.counterBits - 1)
        let words = [time << 16 | 0x7000 | counter, UInt64.random(in: 0...UInt64.max) >> 2 | 1 << 63]
        let bytes = words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (56 - 8 * $0)) } }
        guard let key = UUIDBytes(bytes) else { preconditionFailure("two words are 16 bytes") }
        return key
    }
}

package import AnabranchCore

/// The keys of new objects: UUIDs of version 7, each above the last one, so that what is made together is kept
/// together.
package struct ObjectKeys: Sendable {
    private static let counterBits: UInt64 = 12

    /// Milliseconds since 1970, then a counter.
    private var last: UInt64 = 0

    package init() {}

    package mutating func next(_ now: ChangesetTime = .now) -> UUIDBytes {
        last = max(last &+ 1, UInt64(now.secondsSince1970 * 1000) << Self.counterBits)
        let time = last >> Self.counterBits, counter = last & (1 << Self.counterBits - 1)
        let first = time << 16 | 0x7000 | counter, second = UInt64.random(in: 0...UInt64.max) >> 2 | 1 << 63
        return UUIDBytes(low: first.byteSwapped, high: second.byteSwapped)
    }
}

/// A small fast generator (SplitMix64): the same numbers from the same seed, on every machine.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    /// Scrambles the seed, so that neighbouring seeds do not share their streams: the state only counts up.
    package init(scrambling seed: UInt64) {
        var scrambler = SeededRandom(seed: seed)
        self.init(seed: scrambler.next() ^ scrambler.next() << 1)
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
        return word ^ word >> 31
    }

    /// A number from 0 to `bound` - 1; `bound` is from 1 to 2^32. The bias is below one in 2^32.
    package mutating func below(_ bound: Int) -> Int { Int(((next() >> 32) * UInt64(bound)) >> 32) }

    package mutating func upTo(_ maximum: Int) -> Int { below(maximum + 1) }

    package mutating func isOne(in count: Int) -> Bool { below(count) == 0 }

    /// A number in a range, without bias.
    package mutating func number(_ range: ClosedRange<UInt64>) -> UInt64 { .random(in: range, using: &self) }

    package mutating func pick<Value>(_ values: [Value]) -> Value { values[below(values.count)] }
}

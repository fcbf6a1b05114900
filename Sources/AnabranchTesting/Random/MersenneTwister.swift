/// The random numbers of CPython's `random.Random(seed)`: MT19937, seeded and drawn from in the same way, so that the
/// benchmark cases are those of the generator that the reference timings were measured on.
struct MersenneTwister {
    private static let size = 624
    private static let middle = 397

    private var state: [UInt32]
    private var next = MersenneTwister.size

    /// - Parameter seed: as for `random.Random`, which ignores the sign of a negative seed.
    init(seed: Int) {
        var key = [UInt32(truncatingIfNeeded: seed.magnitude)]
        let high = UInt32(truncatingIfNeeded: seed.magnitude >> 32)
        if high > 0 { key.append(high) }
        self.init(key: key)
    }

    /// The generator's `init_by_array`.
    private init(key: [UInt32]) {
        state = [19_650_218]
        for index in 1..<UInt32(Self.size) { state.append(1_812_433_253 &* Self.mixed(state.last ?? 0, 30) &+ index) }
        var index = 1
        var keyIndex = 0
        func advance(_ state: inout [UInt32]) {
            index += 1
            if index == Self.size {
                state[0] = state[Self.size - 1]
                index = 1
            }
        }
        for _ in 0..<max(Self.size, key.count) {
            let mixed = Self.mixed(state[index - 1], 30) &* 1_664_525
            state[index] = (state[index] ^ mixed) &+ key[keyIndex] &+ UInt32(keyIndex)
            advance(&state)
            keyIndex = (keyIndex + 1) % key.count
        }
        for _ in 1..<Self.size {
            state[index] = (state[index] ^ (Self.mixed(state[index - 1], 30) &* 1_566_083_941)) &- UInt32(index)
            advance(&state)
        }
        state[0] = 0x8000_0000
    }

    private static func mixed(_ word: UInt32, _ shift: UInt32) -> UInt32 { word ^ word >> shift }

    // MARK: Drawing

    /// 32 random bits: `genrand_uint32`.
    mutating func word() -> UInt32 {
        if next == Self.size { renew() }
        var word = state[next]
        next += 1
        word ^= word >> 11
        word ^= word << 7 & 0x9D2C_5680
        word ^= word << 15 & 0xEFC6_0000
        return Self.mixed(word, 18)
    }

    private mutating func renew() {
        for index in 0..<Self.size {
            let bits = state[index] & 0x8000_0000 | state[(index + 1) % Self.size] & 0x7FFF_FFFF
            let twist: UInt32 = bits & 1 == 0 ? 0 : 0x9908_B0DF
            state[index] = state[(index + Self.middle) % Self.size] ^ bits >> 1 ^ twist
        }
        next = 0
    }

    /// `random()`: at least 0 and less than 1, a multiple of 2^-53.
    mutating func fraction() -> Double {
        let high = Double(word() >> 5)
        let low = Double(word() >> 6)
        return (high * 67_108_864 + low) / 9_007_199_254_740_992
    }

    /// `randrange(bound)`: at least 0 and less than `bound`, which is from 1 to 2^32 − 1.
    mutating func below(_ bound: Int) -> Int {
        let width = Int.bitWidth - bound.leadingZeroBitCount
        while true {
            let candidate = Int(word() >> UInt32(32 - width))
            if candidate < bound { return candidate }
        }
    }

    /// `randint(0, maximum)`.
    mutating func upTo(_ maximum: Int) -> Int { below(maximum + 1) }

    /// `choices(values, weights)[0]`.
    mutating func choice<Value>(of values: [Value], weights: [Int]) -> Value {
        let place = fraction() * Double(weights.reduce(0, +))
        var sum = 0
        for (value, weight) in zip(values, weights).dropLast() {
            sum += weight
            if place < Double(sum) { return value }
        }
        return values[values.count - 1]
    }
}

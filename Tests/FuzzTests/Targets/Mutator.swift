import AnabranchTesting

/// Makes inputs from others: the same ones from the same seed, on every machine.
struct Mutator {
    private var random: SeededRandom
    private let target: FuzzTarget
    private let corpus: [[UInt8]]
    /// The greatest length of an input, in bytes.
    private let bytesMax = 4_096

    /// - Parameter corpus: the inputs to begin with; not empty.
    init(_ target: FuzzTarget, corpus: [[UInt8]], seed: UInt64) {
        random = SeededRandom(scrambling: seed)
        self.target = target
        self.corpus = corpus
    }

    /// The next input.
    mutating func next() -> [UInt8] {
        var bytes = random.pick(corpus)
        for _ in 0...random.below(4) { mutate(&bytes) }
        return Array(bytes.prefix(bytesMax))
    }

    private mutating func mutate(_ bytes: inout [UInt8]) {
        let place = random.upTo(bytes.count), end = min(bytes.count, place + 1 + random.below(8))
        switch random.below(10) {
        case 0: bytes.removeSubrange(place..<end)
        case 1: bytes.insert(contentsOf: Array(bytes[place..<end]), at: random.upTo(bytes.count))
        case 2: bytes.insert(contentsOf: random.pick(target.pieces).utf8, at: place)
        case 3: bytes.insert(UInt8(random.below(256)), at: place)
        case 4:
            // The end of another one.
            let other = random.pick(corpus)
            bytes.replaceSubrange(place..., with: other.suffix(random.upTo(other.count)))
        case 5:
            let digits = bytes.indices.filter { (0x30...0x39).contains(bytes[$0]) }
            guard let digit = digits.randomElement(using: &random) else { return }
            bytes.replaceSubrange(digit...digit, with: String(random.pick(Self.numbers)).utf8)
        case _ where place == bytes.count: break
        case 6: bytes[place] ^= 1 << UInt8(random.below(8))
        case 7: bytes[place] = random.pick([0, 1, 0x7F, 0x80, 0xFF, 0x20, 0x0A])
        case 8: bytes[place] &+= random.isOne(in: 2) ? 1 : 255
        default: bytes[place] = UInt8(random.below(256))
        }
    }

    private static let numbers: [UInt64] = [
        0, 1, 2, 9, 10, 127, 128, 255, 256, 65_535, 65_536, 4_294_967_295, 4_294_967_296, 9_223_372_036_854_775_807,
        9_223_372_036_854_775_808, .max,
    ]
}

import AnabranchPropertyList
import AnabranchTesting
import Testing

/// What can be read is written in both forms so that it reads the same, unless it holds something that is never
/// written.
func expectToComeBack(_ bytes: [UInt8], sourceLocation: SourceLocation = #_sourceLocation) throws {
    guard let value = try? PropertyList(parsing: bytes) else { return }
    for form in PropertyList.Form.allCases {
        do throws(PropertyListError) {
            let written = try value.encoded(as: form)
            #expect(try PropertyList(parsing: written) == value, "\(form)", sourceLocation: sourceLocation)
        } catch { #expect(error.code == .badValue, "\(error)", sourceLocation: sourceLocation) }
    }
}

/// Property lists that can be written in both forms, from a seed.
struct RandomPropertyList {
    private var random: SeededRandom
    /// Values that came before: forms may share them.
    private var seen: [PropertyList] = []

    init(seed: UInt64) { random = SeededRandom(scrambling: seed) }

    mutating func document() -> PropertyList {
        seen = []
        return value(depth: random.upTo(4))
    }

    private mutating func value(depth: Int) -> PropertyList {
        if depth == 0 || random.isOne(in: 8) { return leaf() }
        let count = random.isOne(in: 12) ? random.upTo(40) : random.upTo(5)
        if random.isOne(in: 2) { return .array((0..<count).map { _ in value(depth: depth - 1) }) }
        let entries = (0..<count).map { _ in (text(), value(depth: depth - 1)) }
        return .dictionary(PropertyListDictionary(entries) { first, _ in first })
    }

    private mutating func leaf() -> PropertyList {
        if !seen.isEmpty, random.isOne(in: 5) { return random.pick(seen) }
        let leaf: PropertyList =
            switch random.below(7) {
            case 0: .string(text())
            case 1: .integer(integer())
            case 2: .real(real())
            case 3: .bool(random.isOne(in: 2))
            case 4: date()
            case 5: .data((0..<random.upTo(random.isOne(in: 10) ? 200 : 8)).map { _ in UInt8(random.below(256)) })
            default: .string(text())
            }
        seen.append(leaf)
        return leaf
    }

    private mutating func integer() -> Int64 {
        let power = Int64(1) << random.below(63)
        let near = power &+ Int64(random.upTo(4)) - 2
        return random.pick([near, -near, .max, .min, Int64(bitPattern: random.next()), Int64(random.below(256))])
    }

    private mutating func real() -> Double {
        let any = Double(bitPattern: random.next())
        let simple = Double(random.below(2000) - 1000) / random.pick([1, 2, 4, 10, 1000])
        return random.pick([
            any.isFinite ? any : 1.5, simple, simple, 0, -0.0, .leastNonzeroMagnitude, .greatestFiniteMagnitude,
        ])
    }

    private mutating func date() -> PropertyList {
        let ends: ClosedRange<Int64> = -62_135_596_800...253_402_300_799
        let seconds = random.pick([.random(in: ends, using: &random), Int64(random.below(1 << 31)), 0, 978_307_200])
        return PropertyListDate(seconds: seconds).map { .date($0) } ?? true
    }

    private static let pieces = [
        "a", "b", "name", "Z", "0", " ", "  ", "\n", "\t", "\r", "\r\n", "&", "<", ">", "]]>", "\"", "'", "&amp;",
        "&#65;",
        "<![CDATA[", "<!--", "é", "e\u{301}", "ß", "漢", "\u{7f}", "\u{85}", "\u{a0}", "\u{2028}", "\u{FEFF}",
        "\u{FFFD}",
        "😀", "\u{10FFFF}", "\\", "\\U0041", "%", "{", "}", "=", ";", "true", "12", "1.5", "2020-01-01T00:00:00Z",
    ]

    private mutating func text() -> String {
        let count = random.isOne(in: 20) ? random.upTo(60) : random.upTo(4)
        return (0..<count).map { _ in random.pick(Self.pieces) }.joined()
    }
}

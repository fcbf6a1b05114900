/// Other texts of the same lengths in the same order, for all texts of a collection at once.
///
/// The texts form a tree with a byte on each edge. In each node the bytes below it are replaced by as many random ones
/// in the same order, each from the same class. So what comes out depends on the shape of the tree and on chance, and
/// not on a byte of any text.
struct TextRanks: Sendable {
    /// Bytes that may stand for each other.
    struct ByteClass: Sendable {
        let range: ClosedRange<UInt8>
        /// The bytes to choose from, in order: the first alphabet of which no more than one half is needed, or else the
        /// first that is large enough. The last one is the whole class.
        let alphabets: [[UInt8]]

        init(_ range: ClosedRange<UInt8>, preferring alphabets: [[UInt8]] = []) {
            self.range = range
            self.alphabets = alphabets + [Array(range)]
        }

        func alphabet(for count: Int, in part: ClosedRange<UInt8>) -> [UInt8] {
            let parts = part == range ? alphabets : alphabets.map { $0.filter(part.contains) }
            return parts.first { $0.count >= 2 * count } ?? parts.first { $0.count >= count } ?? Array(part)
        }
    }

    /// The classes of bytes in text: those between which UTF-8 makes no difference, so that what is UTF-8 stays it,
    /// with as many characters of as many bytes, and what is not does not become it.
    static let text: [ByteClass] =
        [ByteClass(0...0x7F, preferring: asciiAlphabets)]
        + [
            0x80...0x8F, 0x90...0x9F, 0xA0...0xBF, 0xC0...0xC1, 0xC2...0xDF, 0xE0...0xE0, 0xE1...0xEC, 0xED...0xED,
            0xEE...0xEF, 0xF0...0xF0, 0xF1...0xF3, 0xF4...0xF4, 0xF5...0xFF,
        ].map { ByteClass($0) }
    /// Keys of dictionaries have no points and do not begin with a dollar sign (`Spec/State.md`, A8): neither is made.
    private static let asciiAlphabets = [
        Array(UInt8(ascii: "a")...UInt8(ascii: "z")),
        (0...0x7F).filter { isDigit($0) || isLetter($0) },
        (0x21...0x7E).filter { !#""\$."#.utf8.contains($0) },
        (0...0x7F).filter { !"$.".utf8.contains($0) },
    ]
    /// Of binaries any byte stands for any other.
    static let binary = [ByteClass(0...0xFF)]
    /// The digits of a number that ends in none: a zero stays one.
    static let digits = [
        ByteClass(UInt8(ascii: "0")...UInt8(ascii: "0")), ByteClass(UInt8(ascii: "1")...UInt8(ascii: "9")),
    ]

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }

    private let classes: [ByteClass]
    private var replacements: [[UInt8]: [UInt8]] = [:]

    /// - Parameter reserved: texts that stay as they are.
    init(
        _ texts: Set<[UInt8]>, _ classes: [ByteClass], reserving reserved: [[UInt8]] = [],
        using random: inout some RandomNumberGenerator
    ) {
        self.classes = classes
        // Of a byte that is alone below its node.
        let alphabets = (0...UInt8.max).map { byte in
            classes.first { $0.range.contains(byte) }.map { $0.alphabet(for: 1, in: $0.range) } ?? [byte]
        }
        let sorted = texts.sorted { $0.lexicographicallyPrecedes($1) }
        var replaced = sorted, open = [(range: sorted.indices, offset: 0, reserved: reserved.filter(texts.contains))]
        while let (range, offset, reserved) = open.popLast() {
            if range.count == 1, reserved.isEmpty {
                for place in offset..<sorted[range.lowerBound].count {
                    let byte = sorted[range.lowerBound][place]
                    replaced[range.lowerBound][place] = alphabets[Int(byte)].randomElement(using: &random) ?? byte
                }
                continue
            }
            // The text that ends here comes first.
            var start = range.lowerBound
            if start < range.upperBound, sorted[start].count == offset { start += 1 }
            let pinned = Set(reserved.compactMap { $0.count > offset ? $0[offset] : nil })
            var children: [(byte: UInt8, range: Range<Int>)] = []
            while start < range.upperBound {
                let byte = sorted[start][offset]
                let end = sorted[start..<range.upperBound].firstIndex { $0[offset] != byte } ?? range.upperBound
                children.append((byte, start..<end))
                start = end
            }
            let bytes = replacements(of: children.map(\.byte), pinned, using: &random)
            for (child, byte) in zip(children, bytes) {
                for position in child.range { replaced[position][offset] = byte }
                let below = reserved.filter { $0.count > offset && $0[offset] == child.byte }
                open.append((child.range, offset + 1, below))
            }
        }
        replacements = Dictionary(zip(sorted, replaced)) { first, _ in first }
    }

    /// Other bytes for those below one node, in the same order.
    private func replacements(
        of bytes: [UInt8], _ pinned: Set<UInt8>, using random: inout some RandomNumberGenerator
    ) -> [UInt8] {
        var result: [UInt8] = [], rest = bytes[...]
        for byteClass in classes where rest.first.map(byteClass.range.contains) == true {
            var low = byteClass.range.lowerBound
            while let first = rest.first, byteClass.range.contains(first) {
                let fixed = rest.first { pinned.contains($0) && byteClass.range.contains($0) }
                let part = rest.prefix { byteClass.range.contains($0) && $0 != fixed }
                if !part.isEmpty {
                    let high = fixed.map { $0 - 1 } ?? byteClass.range.upperBound
                    let alphabet = byteClass.alphabet(for: part.count, in: low...high)
                    let chosen = ascendingNumbers(part.count, below: UInt64(alphabet.count), using: &random)
                    result += chosen.map { alphabet[Int($0)] }
                    rest = rest.dropFirst(part.count)
                }
                guard let fixed else { break }
                result.append(fixed)
                rest = rest.dropFirst()
                guard fixed < byteClass.range.upperBound else { break }
                low = fixed + 1
            }
        }
        return result
    }

    /// The text that stands for another one. One that was not in the collection gets the first letters of its classes.
    subscript(text: [UInt8]) -> [UInt8] {
        replacements[text]
            ?? text.map { byte in classes.first { $0.range.contains(byte) }?.alphabets[0].first ?? byte }
    }
}

/// Different random numbers below a bound, in ascending order.
func ascendingNumbers(
    _ count: Int, below bound: UInt64, using random: inout some RandomNumberGenerator
) -> [UInt64] {
    precondition(UInt64(count) <= bound, "there are not so many different ones")
    guard UInt64(count) > bound / 2 else {
        var numbers: Set<UInt64> = []
        while numbers.count < count { numbers.insert(random.next(upperBound: bound)) }
        return numbers.sorted()
    }
    // Each number in turn, as likely as many are still needed of those that are left.
    var numbers: [UInt64] = []
    for number in 0..<bound {
        let needed = UInt64(count - numbers.count)
        if random.next(upperBound: bound - number) < needed { numbers.append(number) }
    }
    return numbers
}

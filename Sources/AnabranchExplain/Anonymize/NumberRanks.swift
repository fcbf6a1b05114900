/// Other numbers in the same order, for all numbers of a collection at once. Each stays in its class; those of a class
/// are random.
struct NumberRanks: Sendable {
    /// The numbers of one encoded length (`Spec/Changeset.md`, section 2); 0 stays what it is.
    static let integers: [ClosedRange<Int64>] = {
        let ends = stride(from: 6, through: 62, by: 7).map { Int64(1) << $0 - 1 } + [.max]
        let starts = [0] + ends.dropLast().map { $0 + 1 }
        let negative = zip(starts, ends).map { -$1 - 1 ... -$0 - 1 }.reversed()
        return negative + [0...0] + zip(starts, ends).map { max($0, 1)...$1 }
    }()

    /// The nanoseconds of one encoded length.
    static let nanoseconds = integers.compactMap { range in
        let limit: Int64 = 999_999_999
        return range.overlaps(-limit...limit) ? range.clamped(to: -limit...limit) : nil
    }

    /// Floating-point numbers by their ranks: zeros, infinities and the usual NaN stay what they are, the others of one
    /// sign are a class, and so are further NaNs of one kind.
    ///
    /// - Parameters:
    ///   - infinity: the bits of infinity.
    ///   - quiet: the bit that most NaNs have.
    ///   - greatest: the bits of the greatest NaN.
    static func floats(infinity: Int64, quiet: Int64, greatest: Int64) -> [ClosedRange<Int64>] {
        let usual = infinity | quiet
        let positive = [
            0...0, 1...infinity - 1, infinity...infinity, infinity + 1...usual - 1, usual...usual, usual + 1...greatest,
        ]
        return positive.map { -1 - $0.upperBound ... -1 - $0.lowerBound }.reversed() + positive
    }

    /// The least and the greatest number of any class.
    private let bounds: ClosedRange<Int64>
    private var numbers: [Int64] = []
    private var replacements: [Int64] = []

    /// - Parameters:
    ///   - classes: ascending; together they have all of the numbers.
    ///   - preferred: a part of a class from which its numbers are taken if there are enough.
    init(
        _ numbers: Set<Int64>, _ classes: [ClosedRange<Int64>], preferring preferred: [ClosedRange<Int64>] = [],
        using random: inout some RandomNumberGenerator
    ) {
        bounds = (classes.first?.lowerBound ?? .min)...(classes.last?.upperBound ?? .max)
        self.numbers = numbers.sorted()
        var rest = self.numbers[...]
        for range in classes {
            let count = rest.prefix { range.contains($0) }.count
            guard count > 0 else { continue }
            rest = rest.dropFirst(count)
            let part = preferred.first { range.contains($0.lowerBound) && $0.distance >= UInt64(count) * 2 } ?? range
            if part.lowerBound == part.upperBound {
                replacements.append(part.lowerBound)
                continue
            }
            for offset in ascendingNumbers(count, below: part.distance, using: &random) {
                replacements.append(Int64(truncatingIfNeeded: UInt64(bitPattern: part.lowerBound) &+ offset))
            }
        }
    }

    /// The number that stands for another one. One that was not in the collection gets a number between those that
    /// stand for its neighbours.
    subscript(number: Int64) -> Int64 {
        guard number != 0 else { return 0 }
        var (low, high) = (0, numbers.count)
        while low < high {
            let middle = (low + high) / 2
            if numbers[middle] < number { low = middle + 1 } else { high = middle }
        }
        if low < numbers.count, numbers[low] == number { return replacements[low] }
        // Of the same sign, also where there is no neighbour.
        let below = low > 0 ? replacements[low - 1] : bounds.lowerBound
        let above = low < numbers.count ? replacements[low] : bounds.upperBound
        let (least, most) = number < 0 ? (below, min(above, -1)) : (max(below, 1), above)
        return least / 2 + most / 2 + (least % 2 + most % 2) / 2
    }
}

extension ClosedRange<Int64> {
    /// The number of its numbers; of all 2^64 one less.
    fileprivate var distance: UInt64 {
        let difference = UInt64(bitPattern: upperBound) &- UInt64(bitPattern: lowerBound)
        return difference == .max ? .max : difference + 1
    }
}

extension Double {
    /// A number that orders Doubles, NaNs too, and their bits.
    var rank: Int64 { sign == .plus ? Int64(bitPattern: bitPattern) : -1 - Int64(bitPattern: (-self).bitPattern) }

    init(rank: Int64) {
        self = rank >= 0 ? Double(bitPattern: UInt64(rank)) : -Double(bitPattern: UInt64(-1 - rank))
    }

    static let ranks = NumberRanks.floats(
        infinity: Double.infinity.rank, quiet: 1 << 51, greatest: 0x7FFF_FFFF_FFFF_FFFF)
    /// From 1/65536 to 65536, of both signs.
    static let preferredRanks = [
        (-0x1p16).rank...(-0x1p-16).rank, 0x1p-16.rank...0x1p16.rank,
    ]
}

extension Float {
    /// A number that orders Floats, NaNs too, and their bits.
    var rank: Int64 { sign == .plus ? Int64(bitPattern) : -1 - Int64((-self).bitPattern) }

    init(rank: Int64) {
        let bits = UInt32(truncatingIfNeeded: rank >= 0 ? rank : -1 - rank)
        self = rank >= 0 ? Float(bitPattern: bits) : -Float(bitPattern: bits)
    }

    static let ranks = NumberRanks.floats(infinity: Float.infinity.rank, quiet: 1 << 22, greatest: 0x7FFF_FFFF)
    static let preferredRanks = [
        Float(-0x1p16).rank...Float(-0x1p-16).rank, Float(0x1p-16).rank...Float(0x1p16).rank,
    ]
}

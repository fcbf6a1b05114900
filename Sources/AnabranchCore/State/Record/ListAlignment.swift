/// The matching of a list's elements with those that it held before others changed it.
struct ListAlignment {
    /// For each element that is there now, its number among those that were there; nil for new elements.
    private(set) var numbers: [Int?]
    private let origins: [ListTrack.Origin]
    /// Beyond this many comparisons, equal elements are looked for in a single pass, which may find fewer.
    private static let comparisonsMax = 1 << 22

    /// - Parameters:
    ///   - origins: what was there.
    ///   - present: what is there.
    init(of origins: [ListTrack.Origin], in present: [UInt64]) {
        self.origins = origins
        numbers = Array(repeating: nil, count: present.count)
        let prefix = zip(origins, present).prefix { $0.digest == $1 }.count
        let restMax = min(origins.count, present.count) - prefix
        let suffix = zip(origins.reversed(), present.reversed()).prefix(restMax).prefix { $0.digest == $1 }.count
        for index in 0..<prefix { numbers[index] = index }
        for distance in 1..<suffix + 1 { numbers[present.count - distance] = origins.count - distance }
        let old = prefix..<origins.count - suffix, new = prefix..<present.count - suffix
        if old.count.multipliedReportingOverflow(by: new.count).partialValue <= Self.comparisonsMax {
            match(old, new, present)
        } else {
            matchGreedily(old, new, present)
        }
        fillGaps()
    }

    /// Matches the longest common subsequence.
    private mutating func match(_ old: Range<Int>, _ new: Range<Int>, _ present: [UInt64]) {
        let width = new.count + 1
        var lengths = [Int32](repeating: 0, count: (old.count + 1) * width)
        for row in (0..<old.count).reversed() {
            for column in (0..<new.count).reversed() {
                let place = row * width + column
                lengths[place] =
                    origins[old.lowerBound + row].digest == present[new.lowerBound + column]
                    ? lengths[place + width + 1] + 1 : max(lengths[place + width], lengths[place + 1])
            }
        }
        var (row, column) = (0, 0)
        while row < old.count, column < new.count {
            let place = row * width + column
            if origins[old.lowerBound + row].digest == present[new.lowerBound + column] {
                numbers[new.lowerBound + column] = old.lowerBound + row
                (row, column) = (row + 1, column + 1)
            } else if lengths[place + width] >= lengths[place + 1] {
                row += 1
            } else {
                column += 1
            }
        }
    }

    private mutating func matchGreedily(_ old: Range<Int>, _ new: Range<Int>, _ present: [UInt64]) {
        var places: [UInt64: [Int]] = [:]
        for number in old.reversed() {
            if let digest = origins[number].digest { places[digest, default: []].append(number) }
        }
        var last = old.lowerBound - 1
        for index in new {
            while let number = places[present[index]]?.popLast() {
                guard number > last else { continue }
                (numbers[index], last) = (number, number)
                break
            }
        }
    }

    /// Matches elements, between two that are still there, whose digests are unknown or that were changed on both
    /// sides. They are found if as many stand there as before, or as many as are sought: those of others are never
    /// taken.
    private mutating func fillGaps() {
        var (old, new) = (0, 0)
        for anchor in numbers.indices.filter({ numbers[$0] != nil }) + [numbers.count] {
            let end = anchor < numbers.count ? numbers[anchor] ?? old : origins.count
            fill(old..<max(old, end), new..<anchor)
            (old, new) = (end + 1, anchor + 1)
        }
    }

    private mutating func fill(_ old: Range<Int>, _ new: Range<Int>) {
        func isSought(_ number: Int) -> Bool { origins[number].digest == nil || origins[number].isEdited }
        let sought = old.filter(isSought)
        if new.count == old.count {
            for (number, index) in zip(old, new) where isSought(number) { numbers[index] = number }
        } else if new.count == sought.count {
            for (number, index) in zip(sought, new) { numbers[index] = number }
        }
    }
}

extension ExportedValue {
    /// The 64-bit FNV-1a hash of the text. Equal values have equal digests; others differ, except by chance.
    var digest: UInt64 {
        text.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}

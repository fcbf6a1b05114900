import AnabranchCore

/// Tells that a conflict key is not in a log segment, or that it probably is, and in which part: it takes another key
/// for one of its own once in 8,192 times. It has 20 bits a key (`Spec/Durability.md`, section 8.3).
///
/// There are as many buckets as keys, and a key's high bits name its bucket. Each bucket has a 1 bit for each of its
/// keys, followed by a 0 bit. In the order of the keys, each has the number of the part whose entries write it, or 31,
/// and its lowest 13 bits: the lowest 11 in a word of 16 bits, below the number, the others as a pair.
struct ConflictKeyFilter: Sendable {
    /// The conflict keys of a search that are probably there, and the parts whose entries may write them.
    struct Match: Equatable {
        var keys: [UInt64] = []
        var parts = SegmentParts()

        var isEmpty: Bool { keys.isEmpty }
    }

    /// The number of keys.
    let count: Int
    private let buckets, words, pairs: ArraySlice<UInt8>
    /// The first word of each group of buckets, with the end of the last group; empty unless the filter is kept.
    private let groups: [UInt32]

    /// The bits of a word that belong to the key.
    private static let keyMask: UInt16 = 0x07FF
    /// The number of buckets in a group: so most groups have fewer keys than ...
    private static let groupBuckets = 8
    /// ... are looked at at once.
    private static let wordsAtOnce = 16

    /// The number of bytes that `count` pairs of bits take.
    private static func pairBytes(_ count: Int) -> Int { (count + 3) / 4 }

    /// - Parameters:
    ///   - entries: the conflict keys that the entries of a segment write.
    ///   - range: the versions of the segment.
    static func write(_ entries: [ConflictKeyEntry], of range: VersionRange, to writer: inout SegmentWriter) {
        var keys: [UInt64] = [], numbers: [UInt8] = []
        for entry in entries.sorted(by: { $0.key < $1.key }) {
            let number = SegmentParts.number(of: entry.version, in: range)
            if entry.key != keys.last {
                keys.append(entry.key)
                numbers.append(number)
            } else if numbers[numbers.count - 1] != number {
                numbers[numbers.count - 1] = SegmentParts.several
            }
        }
        var buckets = [UInt8](repeating: 0, count: pairBytes(keys.count)), words: [UInt8] = []
        var pairs = buckets
        for (place, key) in keys.enumerated() {
            let bit = bucket(of: key, count: keys.count) + place
            buckets[bit / 8] |= 1 << UInt8(bit % 8)
            words += [UInt8(truncatingIfNeeded: key), UInt8(truncatingIfNeeded: key >> 8) & 7 | numbers[place] << 3]
            pairs[place / 4] |= (UInt8(truncatingIfNeeded: key >> 11) & 3) << UInt8(place % 4 * 2)
        }
        writer.write(count: keys.count)
        writer.write(buckets + words + pairs)
    }

    init(from reader: inout SegmentReader) throws(HistoryError) {
        count = try reader.count(atMost: Int(Int32.max))
        buckets = try reader.bytes(Self.pairBytes(count))
        words = try reader.bytes(2 * count)
        pairs = try reader.bytes(Self.pairBytes(count))
        groups = []
        guard buckets.reduce(0, { $0 + $1.nonzeroBitCount }) == count, isPaddedWithZeros(buckets),
            isPaddedWithZeros(pairs)
        else {
            throw reader.damaged("the filter does not have \(count) keys")
        }
    }

    private init(copying other: ConflictKeyFilter) {
        count = other.count
        (buckets, pairs) = (Array(other.buckets)[...], Array(other.pairs)[...])
        words = (Array(other.words) + [UInt8](repeating: 0, count: 2 * Self.wordsAtOnce))[...]
        groups = buckets.withUnsafeBytes { bits in
            var starts = BucketStarts(bits)
            let firsts = stride(from: 0, to: other.count, by: Self.groupBuckets).map { bucket in
                UInt32(starts.next(bucket) - bucket)
            }
            return firsts + [UInt32(other.count)]
        }
    }

    /// The filter without the block that it was read from, for many searches.
    var alone: ConflictKeyFilter { ConflictKeyFilter(copying: self) }

    /// The memory that the filter occupies, in bytes.
    var byteCount: Int { buckets.count + words.count + pairs.count + 4 * groups.count }

    private func isPaddedWithZeros(_ pairs: ArraySlice<UInt8>) -> Bool {
        count % 4 == 0 || (pairs.last ?? 0) >> UInt8(2 * (count % 4)) == 0
    }

    /// Looks for conflict keys. If they are ascending, one pass through the buckets is enough.
    func match(_ keys: [UInt64]) -> Match {
        var match = Match()
        guard count > 0 else { return match }
        buckets.withUnsafeBytes { bits in
            words.withUnsafeBytes { words in
                var starts = BucketStarts(bits)
                for key in keys {
                    let bucket = Self.bucket(of: key, count: count)
                    guard groups.isEmpty || mayBe(key, in: bucket, words) else { continue }
                    var bit = starts.next(bucket), isFound = false
                    while bit < 2 * count, bits[bit / 8] >> UInt8(bit % 8) & 1 == 1 {
                        // Before it stand a 0 for each earlier bucket, and a 1 for each earlier key.
                        let place = bit - bucket
                        let word = words.loadUnaligned(fromByteOffset: 2 * place, as: UInt16.self).littleEndian
                        if let number = part(in: word, at: place, ifWriting: key) {
                            match.parts.formUnion(SegmentParts(number))
                            isFound = true
                        }
                        bit += 1
                    }
                    if isFound { match.keys.append(key) }
                }
            }
        }
        return match
    }

    /// True if one of the words of a group of buckets may be that of the key. Most groups say no, without a branch that
    /// depends on them: this is what makes searches quick.
    @inline(__always)
    private func mayBe(_ key: UInt64, in bucket: Int, _ words: UnsafeRawBufferPointer) -> Bool {
        let group = bucket / Self.groupBuckets, start = Int(groups[group])
        // Four words at a time: a lane with nothing but zeros borrows from its highest bit.
        let ones: UInt64 = 0x0001_0001_0001_0001, mask = UInt64(Self.keyMask) * ones
        let sought = UInt64(UInt16(truncatingIfNeeded: key)) * ones
        var zeros: UInt64 = 0
        for offset in stride(from: 0, to: 2 * Self.wordsAtOnce, by: 8) {
            let four = words.loadUnaligned(fromByteOffset: 2 * start + offset, as: UInt64.self).littleEndian
            let difference = (four ^ sought) & mask
            zeros |= (difference &- ones) & ~difference & (ones << 15)
        }
        return zeros != 0 || Int(groups[group + 1]) - start > Self.wordsAtOnce
    }

    /// The number of a part, if the low bits at a place are those of the key.
    @inline(__always)
    private func part(in word: UInt16, at place: Int, ifWriting key: UInt64) -> UInt8? {
        guard (word ^ UInt16(truncatingIfNeeded: key)) & Self.keyMask == 0 else { return nil }
        let pair = pairs[pairs.startIndex + place / 4] >> UInt8(place % 4 * 2) & 3
        return UInt64(pair) == key >> 11 & 3 ? UInt8(word >> 11) : nil
    }

    private static func bucket(of key: UInt64, count: Int) -> Int {
        Int(key.multipliedFullWidth(by: UInt64(count)).high)
    }
}

/// Finds where buckets begin: after as many 0 bits as there are earlier buckets.
private struct BucketStarts {
    private let bits: UnsafeRawBufferPointer
    /// The number of 64-bit words that were passed, and of the 0 bits in them: fewer than there are before the bucket,
    /// or none.
    private var passed = 0, zeros = 0

    init(_ bits: UnsafeRawBufferPointer) { self.bits = bits }

    /// Is quick for a bucket that follows the last one; otherwise starts over.
    mutating func next(_ bucket: Int) -> Int {
        if zeros >= bucket { (passed, zeros) = (0, 0) }
        guard bucket > 0 else { return 0 }
        var word = word(passed)
        while zeros + word.nonzeroBitCount < bucket, 8 * (passed + 1) < bits.count {
            zeros += word.nonzeroBitCount
            passed += 1
            word = self.word(passed)
        }
        for _ in zeros + 1..<bucket { word &= word - 1 }
        return 64 * passed + word.trailingZeroBitCount + 1
    }

    /// A word with a 1 for each 0 bit.
    private func word(_ number: Int) -> UInt64 {
        let start = 8 * number
        if start + 8 <= bits.count {
            return ~bits.loadUnaligned(fromByteOffset: start, as: UInt64.self).littleEndian
        }
        var word: UInt64 = 0
        for place in start..<bits.count { word |= UInt64(bits[place]) << UInt64(8 * (place - start)) }
        return ~word
    }
}

/// Says that a conflict key is not in a log segment, or that it probably is: it takes another key for one of its own
/// once in 65,536 times. It has 18 bits a key (`Spec/Durability.md`, section 8.3).
///
/// There are as many buckets as keys, and a key's high bits name its bucket. For each bucket there is a bit 1 for each
/// of its keys, and a bit 0 behind them; and for each key, in the order of the keys, its lowest 16 bits.
struct ConflictKeyFilter: Sendable {
    /// How many keys there are.
    let count: Int
    private let buckets: ArraySlice<UInt8>
    private let lowBits: ArraySlice<UInt8>

    private static func bucketBytes(_ count: Int) -> Int { count / 4 + (count % 4 == 0 ? 0 : 1) }

    /// - Parameter keys: ascending, each once.
    static func write(_ keys: [UInt64], to writer: inout SegmentWriter) {
        var buckets = [UInt8](repeating: 0, count: bucketBytes(keys.count))
        for (position, key) in keys.enumerated() {
            let bit = bucket(of: key, count: keys.count) + position
            buckets[bit / 8] |= 1 << UInt8(bit % 8)
        }
        writer.write(count: keys.count)
        writer.write(buckets)
        writer.write(keys.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] })
    }

    init(from reader: inout SegmentReader) throws(HistoryError) {
        count = try reader.count(atMost: Int(Int32.max))
        buckets = try reader.bytes(Self.bucketBytes(count))
        lowBits = try reader.bytes(2 * count)
        guard buckets.reduce(0, { $0 + $1.nonzeroBitCount }) == count, count % 4 == 0 || isPaddedWithZeros else {
            throw reader.damaged("the filter does not have \(count) keys")
        }
    }

    private init(count: Int, buckets: ArraySlice<UInt8>, lowBits: ArraySlice<UInt8>) {
        (self.count, self.buckets, self.lowBits) = (count, buckets, lowBits)
    }

    /// The filter without the block that it was read from.
    var alone: ConflictKeyFilter {
        ConflictKeyFilter(count: count, buckets: Array(buckets)[...], lowBits: Array(lowBits)[...])
    }

    /// What it occupies, in bytes.
    var byteCount: Int { buckets.count + lowBits.count }

    private var isPaddedWithZeros: Bool { (buckets.last ?? 0) >> UInt8(2 * (count % 4)) == 0 }

    /// Those that may be one of the keys. If they are ascending, the buckets are gone through once.
    func likely(_ keys: [UInt64]) -> [UInt64] {
        guard count > 0 else { return [] }
        return buckets.withUnsafeBytes { bits in
            lowBits.withUnsafeBytes { lowBits in
                var starts = BucketStarts(bits)
                return keys.filter { key in
                    let bucket = Self.bucket(of: key, count: count)
                    var bit = starts.next(bucket)
                    while bit < 2 * count, bits[bit / 8] >> UInt8(bit % 8) & 1 == 1 {
                        // In front of it stand a 0 for each bucket before, and a 1 for each key before.
                        let place = 2 * (bit - bucket)
                        let low = UInt64(lowBits[place]) | UInt64(lowBits[place + 1]) << 8
                        if low == key & 0xFFFF { return true }
                        bit += 1
                    }
                    return false
                }
            }
        }
    }

    private static func bucket(of key: UInt64, count: Int) -> Int {
        Int(key.multipliedFullWidth(by: UInt64(count)).high)
    }
}

/// Finds where buckets begin: behind as many bits 0 as there are buckets before.
private struct BucketStarts {
    private let bits: UnsafeRawBufferPointer
    /// How many bytes were passed, and the bits 0 in them: fewer than there are before the bucket.
    private var passed = 0, zeros = 0

    init(_ bits: UnsafeRawBufferPointer) { self.bits = bits }

    /// Quick for a bucket behind the one before; otherwise it begins anew.
    mutating func next(_ bucket: Int) -> Int {
        if zeros >= bucket { (passed, zeros) = (0, 0) }
        while passed + 8 <= bits.count {
            let word = bits.loadUnaligned(fromByteOffset: passed, as: UInt64.self)
            guard pass(8, zeros: 64 - word.nonzeroBitCount, before: bucket) else { break }
        }
        while passed < bits.count, pass(1, zeros: 8 - bits[passed].nonzeroBitCount, before: bucket) {}
        var (bit, left) = (8 * passed, bucket - zeros)
        while left > 0 {
            if bits[bit / 8] >> UInt8(bit % 8) & 1 == 0 { left -= 1 }
            bit += 1
        }
        return bit
    }

    private mutating func pass(_ bytes: Int, zeros more: Int, before bucket: Int) -> Bool {
        guard zeros + more < bucket else { return false }
        zeros += more
        passed += bytes
        return true
    }
}

// Helpers of the index arithmetic (`Spec/Transform.md`, section 13.2).

/// Sums of prefixes of an array of small numbers that change (Fenwick's tree).
struct PrefixSums: BitwiseCopyable {
    private let tree: ScratchBuffer<Int32>

    init(_ count: Int, _ memory: inout ScratchMemory) {
        tree = memory.take(count + 1, repeating: 0)
    }

    @inline(__always)
    func add(_ value: Int32, at index: Int) {
        var node = index + 1
        while node < tree.count {
            tree[node] &+= value
            node += node & -node
        }
    }

    /// Sum of everything before `index`.
    @inline(__always)
    func sum(before index: Int) -> Int {
        var (node, sum) = (index, 0)
        while node > 0 {
            sum += Int(tree[node])
            node &= node - 1
        }
        return sum
    }

    /// The last index before which the sum is at most `limit`, and that sum; no number may be negative.
    @inline(__always)
    func find(_ limit: Int) -> (index: Int, sum: Int) {
        var (node, sum) = (0, 0)
        var step = 1 << (Int.bitWidth - 1 - max(tree.count - 1, 1).leadingZeroBitCount)
        while step > 0 {
            if node + step < tree.count, sum + Int(tree[node + step]) <= limit {
                node += step
                sum += Int(tree[node])
            }
            step >>= 1
        }
        return (node, sum)
    }
}

/// Sorts by the upper 32 bits; entries that are equal there keep their order.
func sortByUpperHalf(_ entries: ScratchBuffer<UInt64>, limit: UInt32, _ memory: inout ScratchMemory) -> ScratchBuffer<
    UInt64
> {
    let digitBits = 11
    var (from, to) = (entries, memory.take(entries.count, of: UInt64.self))
    let counts = memory.take(1 << digitBits, of: UInt32.self)
    var shift = 32
    while shift < 64, limit >> UInt32(shift - 32) > 0 {
        counts.update(repeating: 0)
        for entry in from { counts[Int(entry >> UInt64(shift)) & (counts.count - 1)] += 1 }
        var start: UInt32 = 0
        for digit in counts.indices {
            let count = counts[digit]
            counts[digit] = start
            start += count
        }
        for entry in from {
            let digit = Int(entry >> UInt64(shift)) & (counts.count - 1)
            to[counts[digit]] = entry
            counts[digit] += 1
        }
        swap(&from, &to)
        shift += digitBits
    }
    return from
}

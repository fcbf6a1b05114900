/// Scratch arrays. In debug builds every access is checked against the array's end.
typealias Slab<Element> = UnsafeMutableBufferPointer<Element>

extension UnsafeMutableBufferPointer {
    subscript(_ index: UInt32) -> Element {
        @inline(__always) get { self[Int(index)] }
        @inline(__always) nonmutating set { self[Int(index)] = newValue }
    }
}

/// Memory in stack order that is kept from one merge to the next: what is taken after a mark is free again when the
/// mark is released.
struct ListScratch: ~Copyable {
    struct Mark {
        fileprivate var chunk: Int
        fileprivate var offset: Int
    }

    private var chunks: [UnsafeMutableRawBufferPointer] = []
    private var chunk = 0
    private var offset = 0

    deinit {
        for chunk in chunks { chunk.deallocate() }
    }

    var mark: Mark { Mark(chunk: chunk, offset: offset) }

    mutating func release(_ mark: Mark) {
        chunk = mark.chunk
        offset = mark.offset
    }

    /// An array whose contents are whatever was there before.
    mutating func take<Element: BitwiseCopyable>(_ count: Int, of type: Element.Type = Element.self) -> Slab<Element> {
        let size = (count * MemoryLayout<Element>.stride + 15) & ~15
        while chunk < chunks.count, offset + size > chunks[chunk].count {
            chunk += 1
            offset = 0
        }
        if chunk == chunks.count {
            let grown = max(size, 2 * (chunks.last?.count ?? 8192))
            chunks.append(.allocate(byteCount: grown, alignment: 16))
            offset = 0
        }
        let start = offset
        offset += size
        let bytes = UnsafeMutableRawBufferPointer(rebasing: chunks[chunk][start..<start + size])
        return Slab(rebasing: bytes.bindMemory(to: type)[..<count])
    }

    mutating func take<Element: BitwiseCopyable>(_ count: Int, repeating value: Element) -> Slab<Element> {
        let slab = take(count, of: Element.self)
        slab.update(repeating: value)
        return slab
    }
}

/// Sums of prefixes of an array of small numbers that change (Fenwick's tree).
struct PrefixSums: BitwiseCopyable {
    private let tree: Slab<Int32>

    init(_ count: Int, _ scratch: inout ListScratch) {
        tree = scratch.take(count + 1, repeating: 0)
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
func sortByUpperHalf(_ entries: Slab<UInt64>, limit: UInt32, _ scratch: inout ListScratch) -> Slab<UInt64> {
    let digitBits = 11
    var (from, to) = (entries, scratch.take(entries.count, of: UInt64.self))
    let counts = scratch.take(1 << digitBits, of: UInt32.self)
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

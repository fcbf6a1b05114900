/// Names an element, or one stay of an element at one place.
///
/// Below `own` it is the element that stood at this index at the start, in its first place. From `own` on it is what
/// the side's operation number `id - own` inserted, or moved to where it is now.
typealias ElementID = UInt32

extension ElementID {
    static let own: ElementID = 1 << 31
    static let end: ElementID = .max
    @inline(__always) var isOwn: Bool { self >= Self.own }
    @inline(__always) var operation: Int { Int(self - Self.own) }
}

/// The list as one side alone sees it while its operations are replayed: which element stands at which index
/// (`Spec/Transform.md`, section 13.2).
///
/// A sequence of pieces, each a run of untouched elements or a single one, in leaves of at most `width` pieces; leaves
/// stand in groups of at most `width` leaves, and groups in spans. The lengths of all are kept in arrays of their own,
/// so that finding an index is four short scans: of spans there is one for some ten thousand operations. The cost
/// depends on the number of operations only, not on the length of the list.
struct ReplayList: BitwiseCopyable {
    private struct Cursor {
        /// In the order of the list.
        var group: Int
        var leaf: Int
        var slot: Int
        var offset: UInt32
    }

    private static let width = 64
    private static let spanWidth = 32

    private let elements: ScratchBuffer<ElementID>
    private let lengths: ScratchBuffer<UInt32>
    /// Per leaf: where its pieces are stored, how many there are, and how many elements they hold. The leaves of a
    /// group stand together, in the order of the list.
    private let stores: ScratchBuffer<UInt32>
    private let counts: ScratchBuffer<UInt32>
    private let sums: ScratchBuffer<UInt32>
    /// Per group, in the order of the list: its first leaf, how many leaves it has, and how many elements they hold.
    private let groupStarts: ScratchBuffer<UInt32>
    private let leafCounts: ScratchBuffer<UInt32>
    private let groupSums: ScratchBuffer<UInt32>
    private let spanSums: ScratchBuffer<UInt32>
    private var leaves = 1
    private var groups = 1
    private(set) var size: UInt32

    /// - Parameter operations: an upper bound of the number of changes.
    init(size: UInt32, operations: Int, _ memory: inout ScratchMemory) {
        let leafMax = (2 * operations + 1) / (Self.width / 2 - 1) + 2
        let groupMax = leafMax / (Self.width / 2) + 2
        elements = memory.take(leafMax * Self.width)
        lengths = memory.take(leafMax * Self.width)
        stores = memory.take(groupMax * Self.width)
        counts = memory.take(groupMax * Self.width)
        sums = memory.take(groupMax * Self.width)
        groupStarts = memory.take(groupMax)
        leafCounts = memory.take(groupMax)
        groupSums = memory.take(groupMax)
        spanSums = memory.take(groupMax / Self.spanWidth + 1)
        self.size = size
        (stores[0], sums[0], counts[0]) = (0, size, size > 0 ? 1 : 0)
        (groupStarts[0], leafCounts[0], groupSums[0], spanSums[0]) = (0, 1, size, size)
        (elements[0], lengths[0]) = (0, size)
    }

    /// The element at `index`, which must be below `size`.
    func element(at index: UInt32) -> ElementID {
        let cursor = find(index)
        return element(at: cursor)
    }

    /// Inserts `count` elements with consecutive names before `index` and returns the element that stood there.
    mutating func insert(_ element: ElementID, count: UInt32 = 1, at index: UInt32) -> ElementID {
        var cursor = index < size ? find(index) : end
        makeRoom(&cursor)
        let right = index < size ? self.element(at: cursor) : .end
        var slot = cursor.slot
        if cursor.offset > 0 {
            shift(cursor.leaf, from: slot, by: 2)
            elements[slot] = elements[slot + 2]
            lengths[slot] = cursor.offset
            elements[slot + 2] += cursor.offset
            lengths[slot + 2] -= cursor.offset
            slot += 1
        } else {
            shift(cursor.leaf, from: slot, by: 1)
        }
        elements[slot] = element
        lengths[slot] = count
        sums[cursor.leaf] += count
        groupSums[cursor.group] += count
        spanSums[cursor.group / Self.spanWidth] += count
        size += count
        return right
    }

    /// Removes the element at `index`, which must be below `size`, and returns it.
    mutating func remove(at index: UInt32) -> ElementID {
        var cursor = find(index)
        makeRoom(&cursor)
        let removed = element(at: cursor)
        let slot = cursor.slot
        if lengths[slot] == 1 {
            shift(cursor.leaf, from: slot + 1, by: -1)
        } else if cursor.offset == 0 {
            elements[slot] += 1
            lengths[slot] -= 1
        } else if cursor.offset == lengths[slot] - 1 {
            lengths[slot] -= 1
        } else {
            shift(cursor.leaf, from: slot, by: 1)
            lengths[slot] = cursor.offset
            elements[slot + 1] += cursor.offset + 1
            lengths[slot + 1] -= cursor.offset + 1
        }
        sums[cursor.leaf] -= 1
        groupSums[cursor.group] -= 1
        spanSums[cursor.group / Self.spanWidth] -= 1
        size -= 1
        return removed
    }

    @inline(__always)
    private func element(at cursor: Cursor) -> ElementID { elements[cursor.slot] + cursor.offset }

    private var end: Cursor {
        let leaf = Int(groupStarts[groups - 1] + leafCounts[groups - 1]) - 1
        return Cursor(group: groups - 1, leaf: leaf, slot: Int(stores[leaf] + counts[leaf]), offset: 0)
    }

    @inline(__always)
    private func find(_ index: UInt32) -> Cursor {
        var rest = index
        let span = Self.step(over: spanSums, from: 0, &rest)
        let group = Self.step(over: groupSums, from: span * Self.spanWidth, &rest)
        let leaf = Self.step(over: sums, from: Int(groupStarts[group]), &rest)
        let slot = Self.step(over: lengths, from: Int(stores[leaf]), &rest)
        return Cursor(group: group, leaf: leaf, slot: slot, offset: rest)
    }

    /// The position of the length that covers the element with `rest` others before it; `rest` becomes the number of
    /// those under the same length.
    @inline(__always)
    private static func step(over lengths: ScratchBuffer<UInt32>, from start: Int, _ rest: inout UInt32) -> Int {
        var position = start
        // Four at a time: what stands after the last length cannot make them appear shorter than they are.
        while position + 4 <= lengths.count {
            let near = UInt64(lengths[position]) + UInt64(lengths[position + 1])
            let four = near + UInt64(lengths[position + 2]) + UInt64(lengths[position + 3])
            if UInt64(rest) < four { break }
            rest -= UInt32(truncatingIfNeeded: four)
            position += 4
        }
        while rest >= lengths[position] {
            rest -= lengths[position]
            position += 1
        }
        return position
    }

    /// Moves the pieces of a leaf from `slot` on; a negative distance removes those before them.
    @inline(__always)
    private func shift(_ leaf: Int, from slot: Int, by distance: Int) {
        let after = Int(stores[leaf] + counts[leaf]) - slot
        move(elements, slot, slot + distance, after)
        move(lengths, slot, slot + distance, after)
        counts[leaf] = UInt32(Int(counts[leaf]) + distance)
    }

    @inline(__always)
    private func move(_ buffer: ScratchBuffer<UInt32>, _ from: Int, _ to: Int, _ count: Int) {
        buffer.move(from..<from + count, to: to)
    }

    /// Splits the leaf in two if it could not take two more pieces.
    @inline(__always)
    private mutating func makeRoom(_ cursor: inout Cursor) {
        if Int(counts[cursor.leaf]) > Self.width - 2 { split(&cursor) }
    }

    private mutating func split(_ cursor: inout Cursor) {
        if Int(leafCounts[cursor.group]) == Self.width { splitGroup(&cursor) }
        let leaf = cursor.leaf
        let half = Int(counts[leaf]) / 2
        let rest = Int(counts[leaf]) - half
        let (source, target) = (Int(stores[leaf]) + half, leaves * Self.width)
        let following = Int(groupStarts[cursor.group] + leafCounts[cursor.group]) - leaf - 1
        for buffer in [stores, counts, sums] { move(buffer, leaf + 1, leaf + 2, following) }
        move(elements, source, target, rest)
        move(lengths, source, target, rest)
        stores[leaf + 1] = UInt32(target)
        counts[leaf + 1] = UInt32(rest)
        counts[leaf] = UInt32(half)
        sums[leaf + 1] = lengths[target..<target + rest].reduce(0, +)
        sums[leaf] -= sums[leaf + 1]
        leafCounts[cursor.group] += 1
        leaves += 1
        if cursor.slot >= source {
            cursor.leaf += 1
            cursor.slot += target - source
        }
    }

    /// Splits a group of `width` leaves in two.
    private mutating func splitGroup(_ cursor: inout Cursor) {
        let group = cursor.group
        let half = Self.width / 2
        let (source, target) = (Int(groupStarts[group]) + half, groups * Self.width)
        for buffer in [stores, counts, sums] { move(buffer, source, target, half) }
        for buffer in [groupStarts, leafCounts, groupSums] { move(buffer, group + 1, group + 2, groups - group - 1) }
        groupStarts[group + 1] = UInt32(target)
        leafCounts[group + 1] = UInt32(half)
        leafCounts[group] = UInt32(half)
        groupSums[group + 1] = sums[target..<target + half].reduce(0, +)
        groupSums[group] -= groupSums[group + 1]
        groups += 1
        for span in group / Self.spanWidth...(groups - 1) / Self.spanWidth {
            spanSums[span] = groupSums[span * Self.spanWidth..<min(groups, (span + 1) * Self.spanWidth)].reduce(0, +)
        }
        if cursor.leaf >= source {
            cursor.group += 1
            cursor.leaf += target - source
        }
    }

    // MARK: Invariants

    /// Pieces, leaves, groups and spans hold as many elements as their sums say.
    func checkInvariants() {
        var total: UInt32 = 0
        for group in 0..<groups {
            let first = Int(groupStarts[group])
            let leaves = first..<first + Int(leafCounts[group])
            for leaf in leaves {
                let pieces = Int(stores[leaf])..<Int(stores[leaf] + counts[leaf])
                invariant(pieces.count <= Self.width, "leaf \(leaf) has \(pieces.count) pieces")
                invariant(sums[leaf] == lengths[pieces].reduce(0, +), "leaf \(leaf) holds another number of elements")
            }
            invariant(groupSums[group] == sums[leaves].reduce(0, +), "group \(group) holds another number of elements")
            total += groupSums[group]
        }
        let spans = 0...(groups - 1) / Self.spanWidth
        invariant(spans.reduce(0) { $0 + spanSums[$1] } == total && total == size, "the list has another size")
    }
}

/// Names an element, or one stay of an element at one place.
///
/// Below `own` it is the element that stood at this index at the start, in its first place. From `own` on it is what
/// the side's operation number `name - own` inserted, or moved to where it is now.
typealias ListName = UInt32

extension ListName {
    static let own: ListName = 1 << 31
    static let end: ListName = .max
    @inline(__always) var isOwn: Bool { self >= Self.own }
    @inline(__always) var operation: Int { Int(self - Self.own) }
}

/// The list as one side alone sees it while its operations are replayed: which element stands at which index.
///
/// A sequence of pieces, each a run of untouched elements or a single one, in leaves of at most `width` pieces; leaves
/// stand in groups of at most `width` leaves, and groups in spans. The lengths of all are kept in arrays of their own,
/// so that finding an index is four short scans: of spans there is one for some ten thousand operations. The cost
/// depends on the number of operations only, not on the length of the list.
struct ListDocument: BitwiseCopyable {
    private struct Place {
        /// In the order of the list.
        var group: Int
        var leaf: Int
        var slot: Int
        var offset: UInt32
    }

    private static let width = 64
    private static let spanWidth = 32

    private let names: Slab<ListName>
    private let lengths: Slab<UInt32>
    /// Per leaf: where its pieces are stored, how many there are, and how many elements they hold. The leaves of a
    /// group stand together, in the order of the list.
    private let stores: Slab<UInt32>
    private let counts: Slab<UInt32>
    private let sums: Slab<UInt32>
    /// Per group, in the order of the list: its first leaf, how many leaves it has, and how many elements they hold.
    private let groupStarts: Slab<UInt32>
    private let leafCounts: Slab<UInt32>
    private let groupSums: Slab<UInt32>
    private let spanSums: Slab<UInt32>
    private var leaves = 1
    private var groups = 1
    private(set) var size: UInt32

    /// - Parameter operations: an upper bound of the number of changes.
    init(size: UInt32, operations: Int, _ scratch: inout ListScratch) {
        let leafMax = (2 * operations + 1) / (Self.width / 2 - 1) + 2
        let groupMax = leafMax / (Self.width / 2) + 2
        names = scratch.take(leafMax * Self.width)
        lengths = scratch.take(leafMax * Self.width)
        stores = scratch.take(groupMax * Self.width)
        counts = scratch.take(groupMax * Self.width)
        sums = scratch.take(groupMax * Self.width)
        groupStarts = scratch.take(groupMax)
        leafCounts = scratch.take(groupMax)
        groupSums = scratch.take(groupMax)
        spanSums = scratch.take(groupMax / Self.spanWidth + 1)
        self.size = size
        (stores[0], sums[0], counts[0]) = (0, size, size > 0 ? 1 : 0)
        (groupStarts[0], leafCounts[0], groupSums[0], spanSums[0]) = (0, 1, size, size)
        (names[0], lengths[0]) = (0, size)
    }

    /// The element at `index`, which must be below `size`.
    func name(at index: UInt32) -> ListName {
        let place = find(index)
        return name(at: place)
    }

    /// Inserts before `index` and returns the element that stood there.
    mutating func insert(_ name: ListName, at index: UInt32) -> ListName {
        var place = index < size ? find(index) : end
        makeRoom(&place)
        let right = index < size ? self.name(at: place) : .end
        var slot = place.slot
        if place.offset > 0 {
            shift(place.leaf, from: slot, by: 2)
            names[slot] = names[slot + 2]
            lengths[slot] = place.offset
            names[slot + 2] += place.offset
            lengths[slot + 2] -= place.offset
            slot += 1
        } else {
            shift(place.leaf, from: slot, by: 1)
        }
        names[slot] = name
        lengths[slot] = 1
        sums[place.leaf] += 1
        groupSums[place.group] += 1
        spanSums[place.group / Self.spanWidth] += 1
        size += 1
        return right
    }

    /// Removes the element at `index`, which must be below `size`, and returns it.
    mutating func remove(at index: UInt32) -> ListName {
        var place = find(index)
        makeRoom(&place)
        let removed = name(at: place)
        let slot = place.slot
        if lengths[slot] == 1 {
            shift(place.leaf, from: slot + 1, by: -1)
        } else if place.offset == 0 {
            names[slot] += 1
            lengths[slot] -= 1
        } else if place.offset == lengths[slot] - 1 {
            lengths[slot] -= 1
        } else {
            shift(place.leaf, from: slot, by: 1)
            lengths[slot] = place.offset
            names[slot + 1] += place.offset + 1
            lengths[slot + 1] -= place.offset + 1
        }
        sums[place.leaf] -= 1
        groupSums[place.group] -= 1
        spanSums[place.group / Self.spanWidth] -= 1
        size -= 1
        return removed
    }

    @inline(__always)
    private func name(at place: Place) -> ListName { names[place.slot] + place.offset }

    private var end: Place {
        let leaf = Int(groupStarts[groups - 1] + leafCounts[groups - 1]) - 1
        return Place(group: groups - 1, leaf: leaf, slot: Int(stores[leaf] + counts[leaf]), offset: 0)
    }

    @inline(__always)
    private func find(_ index: UInt32) -> Place {
        var rest = index
        let span = Self.step(over: spanSums, from: 0, &rest)
        let group = Self.step(over: groupSums, from: span * Self.spanWidth, &rest)
        let leaf = Self.step(over: sums, from: Int(groupStarts[group]), &rest)
        let slot = Self.step(over: lengths, from: Int(stores[leaf]), &rest)
        return Place(group: group, leaf: leaf, slot: slot, offset: rest)
    }

    /// Where the element stands that has so many before it, and how many of them are in the same place.
    @inline(__always)
    private static func step(over lengths: Slab<UInt32>, from start: Int, _ rest: inout UInt32) -> Int {
        var place = start
        while rest >= lengths[place] {
            rest -= lengths[place]
            place += 1
        }
        return place
    }

    /// Moves the pieces of a leaf from `slot` on; a negative distance removes those before them.
    @inline(__always)
    private func shift(_ leaf: Int, from slot: Int, by distance: Int) {
        let after = Int(stores[leaf] + counts[leaf]) - slot
        move(names, slot, slot + distance, after)
        move(lengths, slot, slot + distance, after)
        counts[leaf] = UInt32(Int(counts[leaf]) + distance)
    }

    @inline(__always)
    private func move(_ slab: Slab<UInt32>, _ from: Int, _ to: Int, _ count: Int) {
        guard let base = slab.baseAddress else { return }
        (base + to).update(from: base + from, count: count)
    }

    /// Splits the leaf in two if it could not take two more pieces.
    @inline(__always)
    private mutating func makeRoom(_ place: inout Place) {
        if Int(counts[place.leaf]) > Self.width - 2 { split(&place) }
    }

    private mutating func split(_ place: inout Place) {
        if Int(leafCounts[place.group]) == Self.width { splitGroup(&place) }
        let leaf = place.leaf
        let half = Int(counts[leaf]) / 2
        let rest = Int(counts[leaf]) - half
        let (source, target) = (Int(stores[leaf]) + half, leaves * Self.width)
        let behind = Int(groupStarts[place.group] + leafCounts[place.group]) - leaf - 1
        for slab in [stores, counts, sums] { move(slab, leaf + 1, leaf + 2, behind) }
        move(names, source, target, rest)
        move(lengths, source, target, rest)
        stores[leaf + 1] = UInt32(target)
        counts[leaf + 1] = UInt32(rest)
        counts[leaf] = UInt32(half)
        sums[leaf + 1] = lengths[target..<target + rest].reduce(0, +)
        sums[leaf] -= sums[leaf + 1]
        leafCounts[place.group] += 1
        leaves += 1
        if place.slot >= source {
            place.leaf += 1
            place.slot += target - source
        }
    }

    /// Splits a group of `width` leaves in two.
    private mutating func splitGroup(_ place: inout Place) {
        let group = place.group
        let half = Self.width / 2
        let (source, target) = (Int(groupStarts[group]) + half, groups * Self.width)
        for slab in [stores, counts, sums] { move(slab, source, target, half) }
        for slab in [groupStarts, leafCounts, groupSums] { move(slab, group + 1, group + 2, groups - group - 1) }
        groupStarts[group + 1] = UInt32(target)
        leafCounts[group + 1] = UInt32(half)
        leafCounts[group] = UInt32(half)
        groupSums[group + 1] = sums[target..<target + half].reduce(0, +)
        groupSums[group] -= groupSums[group + 1]
        groups += 1
        for span in group / Self.spanWidth...(groups - 1) / Self.spanWidth {
            spanSums[span] = groupSums[span * Self.spanWidth..<min(groups, (span + 1) * Self.spanWidth)].reduce(0, +)
        }
        if place.leaf >= source {
            place.group += 1
            place.leaf += target - source
        }
    }
}

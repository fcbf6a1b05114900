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
/// A sequence of pieces, each a run of untouched elements or a single one, in leaves of at most `width` pieces; the
/// lengths of leaves, and of groups of leaves, are kept in arrays of their own, so that finding an index is three short
/// scans. The cost depends on the number of operations only, not on the length of the list.
struct ListDocument: BitwiseCopyable {
    private struct Place {
        var leaf: Int
        var slot: Int
        var offset: UInt32
    }

    private static let width = 64
    private static let groupWidth = 32

    private let names: Slab<ListName>
    private let lengths: Slab<UInt32>
    /// Per leaf, in the order of the list: where its pieces are stored, how many there are, and how many elements they
    /// hold.
    private let stores: Slab<UInt32>
    private let counts: Slab<UInt32>
    private let sums: Slab<UInt32>
    private let groupSums: Slab<UInt32>
    private var leaves = 1
    private(set) var size: UInt32

    /// - Parameter operations: an upper bound of the number of changes.
    init(size: UInt32, operations: Int, _ scratch: inout ListScratch) {
        let leafMax = (2 * operations + 1) / (Self.width / 2 - 1) + 2
        names = scratch.take(leafMax * Self.width)
        lengths = scratch.take(leafMax * Self.width)
        stores = scratch.take(leafMax)
        counts = scratch.take(leafMax)
        sums = scratch.take(leafMax)
        groupSums = scratch.take(leafMax / Self.groupWidth + 1)
        self.size = size
        stores[0] = 0
        sums[0] = size
        groupSums[0] = size
        counts[0] = size > 0 ? 1 : 0
        names[0] = 0
        lengths[0] = size
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
        groupSums[place.leaf / Self.groupWidth] += 1
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
        groupSums[place.leaf / Self.groupWidth] -= 1
        size -= 1
        return removed
    }

    @inline(__always)
    private func name(at place: Place) -> ListName { names[place.slot] + place.offset }

    private var end: Place {
        Place(leaf: leaves - 1, slot: Int(stores[leaves - 1] + counts[leaves - 1]), offset: 0)
    }

    @inline(__always)
    private func find(_ index: UInt32) -> Place {
        var (rest, group) = (index, 0)
        while rest >= groupSums[group] {
            rest -= groupSums[group]
            group += 1
        }
        var leaf = group * Self.groupWidth
        while rest >= sums[leaf] {
            rest -= sums[leaf]
            leaf += 1
        }
        var slot = Int(stores[leaf])
        while rest >= lengths[slot] {
            rest -= lengths[slot]
            slot += 1
        }
        return Place(leaf: leaf, slot: slot, offset: rest)
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
        let leaf = place.leaf
        let half = Int(counts[leaf]) / 2
        let rest = Int(counts[leaf]) - half
        let (source, target) = (Int(stores[leaf]) + half, leaves * Self.width)
        move(stores, leaf + 1, leaf + 2, leaves - leaf - 1)
        move(counts, leaf + 1, leaf + 2, leaves - leaf - 1)
        move(sums, leaf + 1, leaf + 2, leaves - leaf - 1)
        move(names, source, target, rest)
        move(lengths, source, target, rest)
        stores[leaf + 1] = UInt32(target)
        counts[leaf + 1] = UInt32(rest)
        counts[leaf] = UInt32(half)
        sums[leaf + 1] = lengths[target..<target + rest].reduce(0, +)
        sums[leaf] -= sums[leaf + 1]
        leaves += 1
        for group in leaf / Self.groupWidth...(leaves - 1) / Self.groupWidth {
            groupSums[group] = sums[group * Self.groupWidth..<min(leaves, (group + 1) * Self.groupWidth)].reduce(0, +)
        }
        if place.slot >= source {
            place.leaf += 1
            place.slot += target - source
        }
    }
}

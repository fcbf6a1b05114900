/// The inserts and erases of one side, region by region, in the order of the operations.
struct RegionLists: BitwiseCopyable {
    struct Entry: BitwiseCopyable {
        var operation: UInt32
        var tag: UInt32
        var isInsert: Bool
    }

    private let starts: Slab<UInt32>
    private let entries: Slab<Entry>

    init(_ block: ListBlock, _ side: ListSide, _ scratch: inout ListScratch) {
        starts = scratch.take(block.regionCount + 2, repeating: 0)
        entries = scratch.take(side.operations.count)
        for number in side.operations.indices where side.operations[number].growth != 0 {
            starts[side.places[number].region + 2] += 1
        }
        for region in 0..<block.regionCount { starts[region + 2] += starts[region + 1] }
        for number in side.operations.indices {
            let operation = side.operations[number]
            if operation.growth == 0 { continue }
            let region = side.places[number].region
            entries[starts[region + 1]] = Entry(
                operation: UInt32(number), tag: operation.tag, isInsert: operation.kind == .insert)
            starts[region + 1] += 1
        }
    }

    subscript(_ region: Int) -> Slab<Entry> {
        Slab(rebasing: entries[Int(starts[region])..<Int(starts[region + 1])])
    }
}

/// Both sides' inserts and erases in one region after the other, taken in one sequence.
struct RegionMerge: BitwiseCopyable {
    private let block: ListBlock
    private var region: ListBlock.Region
    private var order: ListOrder
    private let leastTags: (Slab<UInt32>, Slab<UInt32>)

    /// - Parameter capacity: the most removable elements and operations that a region has together.
    init(_ block: ListBlock, capacity: Int, _ scratch: inout ListScratch) {
        self.block = block
        region = block.regions[0]
        order = ListOrder(capacity: capacity, &scratch)
        leastTags = (scratch.take(capacity), scratch.take(capacity))
    }

    /// Adds to each insert's shift what the other side has left of it in the region; false if the region has to be cut.
    mutating func merge(_ region: Int, _ major: Slab<RegionLists.Entry>, _ minor: Slab<RegionLists.Entry>) -> Bool {
        self.region = block.regions[region]
        order.begin(base: Int(self.region.removable), operations: major.count + minor.count)
        return run(major, minor) && addShifts(0, major) && addShifts(1, minor)
    }

    private mutating func run(_ major: Slab<RegionLists.Entry>, _ minor: Slab<RegionLists.Entry>) -> Bool {
        let (majorLeast, minorLeast) = leastTags
        findLeastTags(major, majorLeast)
        findLeastTags(minor, minorLeast)
        var (row, column) = (0, 0)
        while row < major.count || column < minor.count {
            let takesMajor: Bool
            if row == major.count {
                takesMajor = false
            } else if column == minor.count || !major[row].isInsert {
                takesMajor = true
            } else if !minor[column].isInsert {
                takesMajor = false
            } else {
                // The older insert must be older than all that the other side still has; of equal tags the minor one
                // counts as older.
                let (majorTag, minorTag) = (major[row].tag, minor[column].tag)
                takesMajor = majorTag < minorTag
                if takesMajor ? minorLeast[column] <= majorTag : majorLeast[row] < minorTag { return false }
            }
            if takesMajor {
                guard take(0, major[row]) else { return false }
                row += 1
            } else {
                guard take(1, minor[column]) else { return false }
                column += 1
            }
        }
        return true
    }

    /// The least tag of the inserts from each operation on.
    private func findLeastTags(_ list: Slab<RegionLists.Entry>, _ least: Slab<UInt32>) {
        var tag = UInt32.max
        for place in list.indices.reversed() {
            if list[place].isInsert { tag = min(tag, list[place].tag) }
            least[place] = tag
        }
    }

    @inline(__always)
    private mutating func take(_ number: Int, _ entry: RegionLists.Entry) -> Bool {
        let sides = block.sides
        let operation = entry.operation
        if entry.isInsert {
            let right = rightNode(number, operation)
            guard let node = order.insert(number, left: right, at: operation) else { return false }
            sides[number].places[operation].node = node
            return true
        }
        let name = sides[number].names[operation].target
        let node =
            name.isOwn ? sides[number].places[name.operation].node : baseNode(sides[number].places[operation].rank)
        return order.erase(number, node, at: operation)
    }

    private func baseNode(_ rank: UInt32) -> UInt32 { ListOrder.firstBase + rank - region.firstRank }

    @inline(__always)
    private func rightNode(_ number: Int, _ operation: UInt32) -> UInt32 {
        let sides = block.sides
        let name = sides[number].names[operation].right
        if name == .end { return ListOrder.end }
        if name.isOwn { return sides[number].places[name.operation].node }
        let rank = sides[number].places[operation].rank
        let isRemovable = rank < region.firstRank + region.removable && block.removable[rank] == name
        return isRemovable ? baseNode(rank) : ListOrder.end
    }

    /// False if the dirty flag of a touch depends on what was not found out.
    private func addShifts(_ number: Int, _ list: Slab<RegionLists.Entry>) -> Bool {
        let side = block.sides[number]
        var (next, isComplete) = (0, true)
        order.forEachInsert(of: number) { left in
            while !list[next].isInsert { next += 1 }
            let operation = list[next].operation
            side.places[operation].shift += left.remaining
            if left.any ?? false { side.places[operation].hasInsertBefore = true }
            if left.any == nil, side.names[operation].isTouched, !side.places[operation].hasInsertBefore {
                isComplete = false
            }
            next += 1
        }
        return isComplete
    }
}

/// The inserts and erases of one side, region by region, in the order of the operations.
struct RegionLists: BitwiseCopyable {
    private let starts: Slab<UInt32>
    private let operations: Slab<UInt32>

    init(_ block: ListBlock, _ side: ListSide, _ scratch: inout ListScratch) {
        starts = scratch.take(block.regionCount + 2, repeating: 0)
        operations = scratch.take(side.operations.count)
        for number in side.operations.indices where side.operations[number].growth != 0 {
            starts[side.region[number] + 2] += 1
        }
        for region in 0..<block.regionCount { starts[region + 2] += starts[region + 1] }
        for number in side.operations.indices where side.operations[number].growth != 0 {
            let region = side.region[number]
            operations[starts[region + 1]] = UInt32(number)
            starts[region + 1] += 1
        }
    }

    subscript(_ region: Int) -> Slab<UInt32> {
        Slab(rebasing: operations[Int(starts[region])..<Int(starts[region + 1])])
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
    mutating func merge(_ region: Int, _ major: Slab<UInt32>, _ minor: Slab<UInt32>) -> Bool {
        self.region = block.regions[region]
        order.begin(base: Int(self.region.removable), operations: major.count + minor.count)
        return run(major, minor) && addShifts(0, major) && addShifts(1, minor)
    }

    private mutating func run(_ major: Slab<UInt32>, _ minor: Slab<UInt32>) -> Bool {
        let (majorLeast, minorLeast) = leastTags
        findLeastTags(0, major, majorLeast)
        findLeastTags(1, minor, minorLeast)
        var (row, column) = (0, 0)
        while row < major.count || column < minor.count {
            let takesMajor: Bool
            if row == major.count {
                takesMajor = false
            } else if column == minor.count || block.sides[0].operations[major[row]].kind == .erase {
                takesMajor = true
            } else if block.sides[1].operations[minor[column]].kind == .erase {
                takesMajor = false
            } else {
                // The older insert must be older than all that the other side still has; of equal tags the minor one
                // counts as older.
                let (majorTag, minorTag) = (
                    block.sides[0].operations[major[row]].tag, block.sides[1].operations[minor[column]].tag
                )
                takesMajor = majorTag < minorTag
                if takesMajor ? minorLeast[column] <= majorTag : majorLeast[row] < minorTag { return false }
            }
            if takesMajor {
                guard take(0, Int(major[row])) else { return false }
                row += 1
            } else {
                guard take(1, Int(minor[column])) else { return false }
                column += 1
            }
        }
        return true
    }

    /// The least tag of the inserts from each operation on.
    private func findLeastTags(_ number: Int, _ list: Slab<UInt32>, _ least: Slab<UInt32>) {
        let operations = block.sides[number].operations
        var tag = UInt32.max
        for place in list.indices.reversed() {
            let operation = operations[list[place]]
            if operation.kind == .insert { tag = min(tag, operation.tag) }
            least[place] = tag
        }
    }

    @inline(__always)
    private mutating func take(_ number: Int, _ operation: Int) -> Bool {
        let sides = block.sides
        if sides[number].operations[operation].kind == .insert {
            let right = rightNode(number, operation)
            guard let node = order.insert(number, left: right, at: UInt32(operation)) else { return false }
            sides[number].node[operation] = node
            return true
        }
        let name = sides[number].target[operation]
        let node = name.isOwn ? sides[number].node[name.operation] : baseNode(sides[number].rank[operation])
        return order.erase(number, node, at: UInt32(operation))
    }

    private func baseNode(_ rank: UInt32) -> UInt32 { ListOrder.firstBase + rank - region.firstRank }

    @inline(__always)
    private func rightNode(_ number: Int, _ operation: Int) -> UInt32 {
        let sides = block.sides
        let name = sides[number].right[operation]
        if name == .end { return ListOrder.end }
        if name.isOwn { return sides[number].node[name.operation] }
        let rank = sides[number].rank[operation]
        let isRemovable = rank < region.firstRank + region.removable && block.removable[rank] == name
        return isRemovable ? baseNode(rank) : ListOrder.end
    }

    /// False if the dirty flag of a touch depends on what was not found out.
    private func addShifts(_ number: Int, _ list: Slab<UInt32>) -> Bool {
        let side = block.sides[number]
        var (next, isComplete) = (0, true)
        order.forEachInsert(of: number) { left in
            while side.operations[list[next]].kind != .insert { next += 1 }
            let operation = list[next]
            side.shift[operation] += left.remaining
            if left.any ?? false { side.hasInsertBefore[operation] = true }
            if left.any == nil, side.isTouched[operation], !side.hasInsertBefore[operation] { isComplete = false }
            next += 1
        }
        return isComplete
    }
}

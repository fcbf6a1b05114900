/// The inserts and erases of one side, region by region, in the order of the operations (`Spec/Transform.md`,
/// section 13.3).
struct RegionLists: BitwiseCopyable {
    struct Entry: BitwiseCopyable {
        var operation: UInt32
        var tag: UInt32
        var isInsert: Bool
    }

    private let starts: ScratchBuffer<UInt32>
    private let entries: ScratchBuffer<Entry>

    init(_ block: ListBlock, _ side: ListSide, _ memory: inout ScratchMemory) {
        starts = memory.take(block.regionCount + 2, repeating: 0)
        entries = memory.take(side.operations.count)
        for number in side.operations.indices where side.operations[number].growth != 0 {
            starts[side.positions[number].region + 2] += 1
        }
        for region in 0..<block.regionCount { starts[region + 2] += starts[region + 1] }
        for number in side.operations.indices {
            let operation = side.operations[number]
            if operation.growth == 0 { continue }
            let region = side.positions[number].region
            entries[starts[region + 1]] = Entry(
                operation: UInt32(number), tag: operation.tag, isInsert: operation.kind == .insert)
            starts[region + 1] += 1
        }
    }

    subscript(_ region: Int) -> ScratchBuffer<Entry> {
        entries[Int(starts[region])..<Int(starts[region + 1])]
    }
}

/// Both sides' inserts and erases in one region after the other, taken in one sequence: the path of section 13.3.
struct RegionMerge: BitwiseCopyable {
    private typealias Entries = ScratchBuffer<RegionLists.Entry>

    private let block: ListBlock
    private let lists: (RegionLists, RegionLists)
    private var nextRegion = 0
    /// The current region, and how far its sequence has come.
    private var number = 0
    private var region: ListBlock.Region
    private var isOpen = false
    private var row = 0
    private var column = 0
    private var order: RegionOrder
    private let leastTags: (ScratchBuffer<UInt32>, ScratchBuffer<UInt32>)

    init(_ block: ListBlock, _ memory: inout ScratchMemory) {
        self.block = block
        lists = (RegionLists(block, block.sides[0], &memory), RegionLists(block, block.sides[1], &memory))
        region = block.regions[0]
        // The most removable elements and operations that a region has together.
        var capacity = 0
        for number in 0..<block.regionCount where block.isShared(number) {
            let operations = lists.0[number].count + lists.1[number].count
            capacity = max(capacity, Int(block.regions[number].removable) + operations)
        }
        order = RegionOrder(capacity: capacity, &memory)
        leastTags = (memory.take(capacity), memory.take(capacity))
    }

    /// Adds to each insert's shift what the other side has to the left of it in its region, until all are through or
    /// the step is over. Regions that have to be cut become sub-blocks.
    ///
    /// - Returns: Whether all are through.
    mutating func advance(_ subBlocks: inout SubBlockRegions, _ budget: inout PairBudget) -> Bool {
        while true {
            if isOpen {
                let isOrdered = run(lists.0[number], lists.1[number], &budget)
                if isOrdered == nil { return false }
                isOpen = false
                let isDone =
                    isOrdered == true && addShifts(0, lists.0[number]) && addShifts(1, lists.1[number])
                if !isDone { subBlocks.add(UInt32(number)) }
            }
            guard nextRegion < block.regionCount else { return true }
            if block.isShared(nextRegion), !subBlocks.contains(UInt32(nextRegion)) { open(nextRegion) }
            nextRegion += 1
        }
    }

    private mutating func open(_ number: Int) {
        (self.number, region, isOpen, row, column) = (number, block.regions[number], true, 0, 0)
        let (major, minor) = (lists.0[number], lists.1[number])
        order.begin(base: Int(region.removable), operations: major.count + minor.count)
        findLeastTags(major, leastTags.0)
        findLeastTags(minor, leastTags.1)
    }

    /// - Returns: Whether the region is in order; false if it has to be cut, nil if the step is over.
    private mutating func run(_ major: Entries, _ minor: Entries, _ budget: inout PairBudget) -> Bool? {
        // A copy, so that what changes with each operation stays in registers.
        var merge = self
        defer { self = merge }
        while merge.row < major.count || merge.column < minor.count {
            if budget.isStepOver { return nil }
            budget.countTime(Self.operationsPerLook * Self.pairsPerOperation)
            for _ in 0..<Self.operationsPerLook where merge.row < major.count || merge.column < minor.count {
                guard merge.takeNext(major, minor) else { return false }
            }
        }
        return true
    }

    /// The time that an operation takes, in pair visits.
    private static let pairsPerOperation = 8
    private static let operationsPerLook = 64

    /// Takes the next operation of either side; false if the region has to be cut.
    @inline(__always)
    private mutating func takeNext(_ major: Entries, _ minor: Entries) -> Bool {
        let (majorLeast, minorLeast) = leastTags
        let takesMajor: Bool
        if row == major.count {
            takesMajor = false
        } else if column == minor.count || !major[row].isInsert {
            takesMajor = true
        } else if !minor[column].isInsert {
            takesMajor = false
        } else {
            // The older insert must be older than all that the other side still has; of equal tags the minor one
            // counts as older. So says the tie of R14.
            let (majorTag, minorTag) = (major[row].tag, minor[column].tag)
            takesMajor = majorTag < minorTag
            if takesMajor ? minorLeast[column] <= majorTag : majorLeast[row] < minorTag { return false }
        }
        if takesMajor {
            row += 1
            return take(0, major[row - 1])
        } else {
            column += 1
            return take(1, minor[column - 1])
        }
    }

    /// The least tag of the inserts from each operation on.
    private func findLeastTags(_ list: ScratchBuffer<RegionLists.Entry>, _ least: ScratchBuffer<UInt32>) {
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
            let count = sides[number].operations[operation].count
            guard let node = order.insert(number, count: count, left: right, at: operation) else { return false }
            sides[number].positions[operation].node = node
            return true
        }
        let name = sides[number].replayed[operation].target
        let node =
            name.isOwn
            ? sides[number].positions[name.operation].node : baseNode(sides[number].positions[operation].rank)
        return order.erase(number, node, at: operation)
    }

    private func baseNode(_ rank: UInt32) -> UInt32 { RegionOrder.firstBase + rank - region.firstRank }

    @inline(__always)
    private func rightNode(_ number: Int, _ operation: UInt32) -> UInt32 {
        let sides = block.sides
        let name = sides[number].replayed[operation].right
        if name == .end { return RegionOrder.end }
        if name.isOwn { return sides[number].positions[name.operation].node }
        let rank = sides[number].positions[operation].rank
        let isRemovable = rank < region.firstRank + region.removable && block.removable[rank] == name
        return isRemovable ? baseNode(rank) : RegionOrder.end
    }

    /// Adds the shifts of a side's inserts; false if the dirty flag of a nested edit depends on something unknown.
    private func addShifts(_ number: Int, _ list: ScratchBuffer<RegionLists.Entry>) -> Bool {
        let side = block.sides[number]
        var (next, isComplete) = (0, true)
        order.forEachInsert(of: number) { left in
            while !list[next].isInsert { next += 1 }
            let operation = list[next].operation
            side.positions[operation].shift += left.remaining
            if left.any ?? false { side.positions[operation].hasInsertBefore = true }
            if left.any == nil, side.replayed[operation].hasNested, !side.positions[operation].hasInsertBefore {
                isComplete = false
            }
            next += 1
        }
        return isComplete
    }
}

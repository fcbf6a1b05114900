/// The regions of a block that are not merged in place (`Spec/Transform.md`, section 13.4): those that a move leaves or
/// enters, joined with the regions at its other end, and those whose inserts could not be put in order.
struct SubBlockRegions: BitwiseCopyable {
    /// Regions that moves join, as trees whose root is the leftmost one.
    private let parent: ScratchBuffer<UInt32>
    private let isIncluded: ScratchBuffer<Bool>
    private(set) var isEmpty = true

    init(_ block: ListBlock, _ memory: inout ScratchMemory) {
        parent = memory.take(block.regionCount)
        isIncluded = memory.take(block.regionCount, repeating: false)
        for region in 0..<block.regionCount { parent[region] = UInt32(region) }
        for side in block.sides where side.hasMoves { joinRegions(side) }
    }

    private mutating func joinRegions(_ side: ListSide) {
        for number in side.operations.indices where side.operations[number].kind == .move {
            let place = side.positions[number]
            add(place.region)
            add(place.newRegion)
            let (one, other) = (root(place.region), root(place.newRegion))
            parent[max(one, other)] = min(one, other)
        }
    }

    mutating func add(_ region: UInt32) {
        isIncluded[region] = true
        isEmpty = false
    }

    @inline(__always)
    func contains(_ region: UInt32) -> Bool { region < ListSide.fixed && isIncluded[region] }

    func root(_ region: UInt32) -> UInt32 {
        var region = region
        while parent[region] != region {
            parent[region] = parent[parent[region]]
            region = parent[region]
        }
        return region
    }
}

/// The regions of `SubBlockRegions` as lists of their own: all regions that moves join make one sub-block.
///
/// Its list consists of its regions from left to right with one element, which neither side uses, after each of them.
struct SubBlocks: BitwiseCopyable {
    /// One side's operations in the sub-blocks.
    struct Side: BitwiseCopyable {
        /// Per sub-block its first operation; one more at the end.
        let starts: ScratchBuffer<UInt32>
        /// Sub-block by sub-block, with the indices that they have in its list.
        let operations: ScratchBuffer<ListOperation>
        /// Per slot, the number of elements that the side alone adds to the region.
        let growth: ScratchBuffer<Int32>

        fileprivate func operations(_ number: Int) -> ScratchBuffer<ListOperation> {
            operations[Int(starts[number])..<Int(starts[number + 1])]
        }
    }

    let included: SubBlockRegions
    let count: Int
    /// Per region its sub-block.
    let numbers: ScratchBuffer<UInt32>
    /// Per region its slot: the regions of all sub-blocks stand in slots, sub-block by sub-block.
    let slots: ScratchBuffer<UInt32>
    /// Per slot its region.
    let regions: ScratchBuffer<UInt32>
    /// Per sub-block its first slot; one more at the end.
    let firstSlots: ScratchBuffer<UInt32>
    let sides: ScratchBuffer<Side>

    init(_ block: ListBlock, _ included: SubBlockRegions, _ memory: inout ScratchMemory) {
        self.included = included
        numbers = memory.take(block.regionCount)
        slots = memory.take(block.regionCount)
        regions = memory.take(included.isEmpty ? 0 : block.regionCount)
        firstSlots = memory.take(included.isEmpty ? 1 : block.regionCount + 2, repeating: 0)
        sides = memory.take(2)
        count = included.isEmpty ? 0 : Self.number(block.regionCount, included, numbers, slots, regions, firstSlots)
        for number in 0..<2 { sides[number] = extract(block, block.sides[number], &memory) }
    }

    var isEmpty: Bool { count == 0 }
    var slotCount: Int { Int(firstSlots[count]) }

    /// The operations of a sub-block, and its size at the start.
    func runs(_ number: Int, _ block: ListBlock) -> ListRuns {
        var size: UInt32 = 0
        for slot in firstSlots[number]..<firstSlots[number + 1] { size += block.regions[regions[slot]].removable + 1 }
        return ListRuns(major: sides[0].operations(number), minor: sides[1].operations(number), size: size)
    }

    /// Numbers the sub-blocks and their regions from left to right; returns the number of sub-blocks.
    private static func number(
        _ regionCount: Int, _ included: SubBlockRegions, _ numbers: ScratchBuffer<UInt32>,
        _ slots: ScratchBuffer<UInt32>,
        _ regions: ScratchBuffer<UInt32>, _ firstSlots: ScratchBuffer<UInt32>
    ) -> Int {
        var count = 0
        for region in 0..<UInt32(regionCount) where included.contains(region) {
            let root = included.root(region)
            if root == region {
                numbers[region] = UInt32(count)
                count += 1
            } else {
                numbers[region] = numbers[root]
            }
            firstSlots[numbers[region] + 2] += 1
        }
        for number in 0..<count { firstSlots[number + 2] += firstSlots[number + 1] }
        for region in 0..<UInt32(regionCount) where included.contains(region) {
            let slot = firstSlots[numbers[region] + 1]
            firstSlots[numbers[region] + 1] += 1
            slots[region] = slot
            regions[slot] = region
        }
        return count
    }

    /// The operations of one side in all sub-blocks, with the indices they have in the lists of those.
    private func extract(_ block: ListBlock, _ side: ListSide, _ memory: inout ScratchMemory) -> Side {
        let starts = memory.take(count + 2, of: UInt32.self)
        starts.update(repeating: 0)
        let growth = memory.take(slotCount, of: Int32.self)
        if isEmpty { return Side(starts: starts, operations: memory.take(0), growth: growth) }
        for number in side.operations.indices where included.contains(side.positions[number].region) {
            starts[numbers[side.positions[number].region] + 2] += 1
        }
        for number in 0..<count { starts[number + 2] += starts[number + 1] }
        let operations = memory.take(Int(starts[count + 1]), of: ListOperation.self)
        let sizes = RegionSizes(block, self, &memory)
        for number in side.operations.indices {
            var operation = side.operations[number]
            let place = side.positions[number]
            if included.contains(place.region) {
                let subBlock = numbers[place.region]
                operation.index = sizes.indexInSubBlock(operation.index, place.region)
                if operation.kind == .move {
                    sizes.grow(place.region, by: -1)
                    operation.to = sizes.indexInSubBlock(operation.to, place.newRegion)
                    sizes.grow(place.newRegion, by: 1)
                }
                operations[starts[subBlock + 1]] = operation
                starts[subBlock + 1] += 1
            }
            if operation.growth != 0 { sizes.grow(place.region, by: operation.growth) }
        }
        for slot in 0..<slotCount { growth[slot] = sizes.growth[regions[slot]] }
        return Side(starts: starts, operations: operations, growth: growth)
    }
}

/// The sizes of regions, and where they begin, while one side's operations change them.
struct RegionSizes: BitwiseCopyable {
    private let block: ListBlock
    private let subBlocks: SubBlocks
    /// Per region, the number of elements added since the start.
    let growth: ScratchBuffer<Int32>
    private let growthSums: PrefixSums
    /// Per slot, the size of the region and one more.
    private let sizes: PrefixSums

    init(_ block: ListBlock, _ subBlocks: SubBlocks, _ memory: inout ScratchMemory) {
        self.block = block
        self.subBlocks = subBlocks
        let count = subBlocks.isEmpty ? 0 : block.regionCount
        growth = memory.take(count, repeating: 0)
        growthSums = PrefixSums(count, &memory)
        sizes = PrefixSums(subBlocks.slotCount, &memory)
        for slot in 0..<subBlocks.slotCount {
            sizes.add(Int32(block.regions[subBlocks.regions[slot]].removable) + 1, at: slot)
        }
    }

    /// The index at which a region starts.
    @inline(__always)
    func start(_ region: UInt32) -> Int { Int(block.regions[region].start) + growthSums.sum(before: Int(region)) }

    @inline(__always)
    func grow(_ region: UInt32, by value: Int) {
        growth[region] += Int32(value)
        growthSums.add(Int32(value), at: Int(region))
        if subBlocks.included.contains(region) { sizes.add(Int32(value), at: Int(subBlocks.slots[region])) }
    }

    /// An index in a region as an index in the list of its sub-block.
    @inline(__always)
    func indexInSubBlock(_ index: UInt32, _ region: UInt32) -> UInt32 {
        let firstSlot = subBlocks.firstSlots[subBlocks.numbers[region]]
        let before = sizes.sum(before: Int(subBlocks.slots[region])) - sizes.sum(before: Int(firstSlot))
        return UInt32(truncatingIfNeeded: before + Int(index) - start(region))
    }
}

/// The regions of a block that are not merged in place: those that a move touches, joined with the regions at its other
/// end, and those whose inserts could not be put in order.
struct PartRegions: BitwiseCopyable {
    /// Regions that moves join, as trees whose root is the leftmost one.
    private let parent: Slab<UInt32>
    private let isPart: Slab<Bool>
    private(set) var isEmpty = true

    init(_ block: ListBlock, _ scratch: inout ListScratch) {
        parent = scratch.take(block.regionCount)
        isPart = scratch.take(block.regionCount, repeating: false)
        for region in 0..<block.regionCount { parent[region] = UInt32(region) }
        for side in block.sides where side.hasMoves { joinRegions(side) }
    }

    private mutating func joinRegions(_ side: ListSide) {
        for number in side.operations.indices where side.operations[number].kind == .move {
            let place = side.places[number]
            add(place.region)
            add(place.newRegion)
            let (one, other) = (root(place.region), root(place.newRegion))
            parent[max(one, other)] = min(one, other)
        }
    }

    mutating func add(_ region: UInt32) {
        isPart[region] = true
        isEmpty = false
    }

    @inline(__always)
    func contains(_ region: UInt32) -> Bool { region < ListSide.fixed && isPart[region] }

    func root(_ region: UInt32) -> UInt32 {
        var region = region
        while parent[region] != region {
            parent[region] = parent[parent[region]]
            region = parent[region]
        }
        return region
    }
}

/// The regions of `PartRegions` as lists of their own, *parts*: all regions that moves join make one.
///
/// The list of a part consists of its regions from left to right with one element, which nobody touches, after each of
/// them.
struct ListParts: BitwiseCopyable {
    /// One side's operations in the parts.
    struct Side: BitwiseCopyable {
        /// Per part its first operation; one more at the end.
        let starts: Slab<UInt32>
        let operations: Slab<ListOperation>
        /// Per slot, what the side alone adds to the region.
        let growth: Slab<Int32>
    }

    let included: PartRegions
    let count: Int
    /// Per region its part.
    let parts: Slab<UInt32>
    /// Per region its slot among those of all parts, which stand part by part; per slot its region; per part its first
    /// slot, and one more at the end.
    let slots: Slab<UInt32>
    let regions: Slab<UInt32>
    let firstSlots: Slab<UInt32>
    let sides: Slab<Side>

    init(_ block: ListBlock, _ included: PartRegions, _ scratch: inout ListScratch) {
        self.included = included
        parts = scratch.take(block.regionCount)
        slots = scratch.take(block.regionCount)
        regions = scratch.take(included.isEmpty ? 0 : block.regionCount)
        firstSlots = scratch.take(included.isEmpty ? 1 : block.regionCount + 2, repeating: 0)
        sides = scratch.take(2)
        count = included.isEmpty ? 0 : Self.number(block.regionCount, included, parts, slots, regions, firstSlots)
        for number in 0..<2 { sides[number] = extract(block, block.sides[number], &scratch) }
    }

    var isEmpty: Bool { count == 0 }
    var slotCount: Int { Int(firstSlots[count]) }

    /// The operations of a part, and its size at the start.
    func list(_ part: Int, _ block: ListBlock) -> (
        major: Slab<ListOperation>, minor: Slab<ListOperation>, size: UInt32
    ) {
        var size: UInt32 = 0
        for slot in firstSlots[part]..<firstSlots[part + 1] { size += block.regions[regions[slot]].removable + 1 }
        let operations = { (side: Side) in
            Slab(rebasing: side.operations[Int(side.starts[part])..<Int(side.starts[part + 1])])
        }
        return (operations(sides[0]), operations(sides[1]), size)
    }

    /// Numbers the parts and their regions from left to right; returns the number of parts.
    private static func number(
        _ regionCount: Int, _ included: PartRegions, _ parts: Slab<UInt32>, _ slots: Slab<UInt32>,
        _ regions: Slab<UInt32>, _ firstSlots: Slab<UInt32>
    ) -> Int {
        var count = 0
        for region in 0..<UInt32(regionCount) where included.contains(region) {
            let root = included.root(region)
            if root == region {
                parts[region] = UInt32(count)
                count += 1
            } else {
                parts[region] = parts[root]
            }
            firstSlots[parts[region] + 2] += 1
        }
        for part in 0..<count { firstSlots[part + 2] += firstSlots[part + 1] }
        for region in 0..<UInt32(regionCount) where included.contains(region) {
            let slot = firstSlots[parts[region] + 1]
            firstSlots[parts[region] + 1] += 1
            slots[region] = slot
            regions[slot] = region
        }
        return count
    }

    /// The operations of one side in all parts, with the indices they have in the lists of the parts.
    private func extract(_ block: ListBlock, _ side: ListSide, _ scratch: inout ListScratch) -> Side {
        let starts = scratch.take(count + 2, of: UInt32.self)
        starts.update(repeating: 0)
        let growth = scratch.take(slotCount, of: Int32.self)
        if isEmpty { return Side(starts: starts, operations: scratch.take(0), growth: growth) }
        for number in side.operations.indices where included.contains(side.places[number].region) {
            starts[parts[side.places[number].region] + 2] += 1
        }
        for part in 0..<count { starts[part + 2] += starts[part + 1] }
        let operations = scratch.take(Int(starts[count + 1]), of: ListOperation.self)
        let sizes = RegionSizes(block, self, &scratch)
        for number in side.operations.indices {
            var operation = side.operations[number]
            let place = side.places[number]
            if included.contains(place.region) {
                let part = parts[place.region]
                operation.index = sizes.indexInPart(operation.index, place.region)
                if operation.kind == .move {
                    sizes.grow(place.region, by: -1)
                    operation.to = sizes.indexInPart(operation.to, place.newRegion)
                    sizes.grow(place.newRegion, by: 1)
                }
                operations[starts[part + 1]] = operation
                starts[part + 1] += 1
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
    private let parts: ListParts
    /// Per region, what was added since the start.
    let growth: Slab<Int32>
    private let growthSums: PrefixSums
    /// Per slot, the size of the region and one more.
    private let sizes: PrefixSums

    init(_ block: ListBlock, _ parts: ListParts, _ scratch: inout ListScratch) {
        self.block = block
        self.parts = parts
        let count = parts.isEmpty ? 0 : block.regionCount
        growth = scratch.take(count, repeating: 0)
        growthSums = PrefixSums(count, &scratch)
        sizes = PrefixSums(parts.slotCount, &scratch)
        for slot in 0..<parts.slotCount {
            sizes.add(Int32(block.regions[parts.regions[slot]].removable) + 1, at: slot)
        }
    }

    /// The index at which a region starts.
    @inline(__always)
    func start(_ region: UInt32) -> Int { Int(block.regions[region].start) + growthSums.sum(before: Int(region)) }

    @inline(__always)
    func grow(_ region: UInt32, by value: Int) {
        growth[region] += Int32(value)
        growthSums.add(Int32(value), at: Int(region))
        if parts.included.contains(region) { sizes.add(Int32(value), at: Int(parts.slots[region])) }
    }

    /// An index in a region as an index in the list of its part.
    @inline(__always)
    func indexInPart(_ index: UInt32, _ region: UInt32) -> UInt32 {
        let firstSlot = parts.firstSlots[parts.parts[region]]
        let before = sizes.sum(before: Int(parts.slots[region])) - sizes.sum(before: Int(firstSlot))
        return UInt32(truncatingIfNeeded: before + Int(index) - start(region))
    }
}

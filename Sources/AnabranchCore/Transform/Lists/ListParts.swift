/// The regions of a block that are merged as lists of their own: those that a move touches, together with the regions
/// at its other end, and those whose inserts could not be put in order.
///
/// The list of a part consists of its regions from left to right with one element, which nobody touches, after each of
/// them.
struct ListParts: BitwiseCopyable {
    private static let none = UInt32.max

    private let block: ListBlock
    /// Regions that a move joins, as trees.
    private let joined: Slab<UInt32>
    private let isPart: Slab<Bool>
    private(set) var isEmpty = true
    private(set) var count = 0

    /// Per region its place among those of all parts, which stand part by part; and back.
    private(set) var slots: Slab<UInt32>
    private(set) var regions: Slab<UInt32>
    /// Per part its first slot, and its first operation of each side; one more at the end.
    private(set) var firstSlot: Slab<UInt32>
    private var starts: (Slab<UInt32>, Slab<UInt32>)
    private(set) var parts: Slab<UInt32>
    private(set) var operations: (Slab<ListOperation>, Slab<ListOperation>)
    /// Per slot, what each side alone adds to the region.
    private(set) var growth: (Slab<Int32>, Slab<Int32>)

    init(_ block: ListBlock, _ scratch: inout ListScratch) {
        self.block = block
        joined = scratch.take(block.regionCount)
        isPart = scratch.take(block.regionCount, repeating: false)
        let nothing32 = scratch.take(0, of: UInt32.self)
        let nothing = scratch.take(0, of: ListOperation.self)
        let nothingSigned = scratch.take(0, of: Int32.self)
        (slots, regions, firstSlot, parts) = (nothing32, nothing32, nothing32, nothing32)
        (starts, operations, growth) = ((nothing32, nothing32), (nothing, nothing), (nothingSigned, nothingSigned))
        for region in 0..<block.regionCount { joined[region] = UInt32(region) }
        for side in block.sides where side.hasMoves {
            for number in side.operations.indices where side.operations[number].kind == .move {
                let (one, other) = (root(side.region[number]), root(side.newRegion[number]))
                joined[max(one, other)] = min(one, other)
                isPart[side.region[number]] = true
                isPart[side.newRegion[number]] = true
                isEmpty = false
            }
        }
    }

    @inline(__always)
    func contains(_ region: UInt32) -> Bool { region < ListSide.fixed && isPart[region] }

    mutating func add(_ region: Int) {
        isPart[region] = true
        isEmpty = false
    }

    private func root(_ region: UInt32) -> UInt32 {
        var region = region
        while joined[region] != region {
            joined[region] = joined[joined[region]]
            region = joined[region]
        }
        return region
    }

    /// Makes the lists of the parts.
    mutating func extract(_ block: ListBlock, _ scratch: inout ListScratch) {
        number(&scratch)
        operations = (extract(block.sides[0], 0, &scratch), extract(block.sides[1], 1, &scratch))
    }

    /// The operations of a part, and its size at the start.
    func list(_ part: Int) -> (major: Slab<ListOperation>, minor: Slab<ListOperation>, size: UInt32) {
        var size: UInt32 = 0
        for slot in firstSlot[part]..<firstSlot[part + 1] { size += block.regions[regions[slot]].removable + 1 }
        return (
            Slab(rebasing: operations.0[Int(starts.0[part])..<Int(starts.0[part + 1])]),
            Slab(rebasing: operations.1[Int(starts.1[part])..<Int(starts.1[part + 1])]), size
        )
    }

    /// Numbers the parts and their regions.
    private mutating func number(_ scratch: inout ListScratch) {
        // The root of a part is its leftmost region, hence numbered first.
        parts = scratch.take(block.regionCount, repeating: Self.none)
        firstSlot = scratch.take(block.regionCount + 2, repeating: 0)
        for region in 0..<block.regionCount where isPart[region] {
            let root = root(UInt32(region))
            if root == region {
                parts[region] = UInt32(count)
                count += 1
            } else {
                parts[region] = parts[root]
            }
            firstSlot[parts[region] + 2] += 1
        }
        for part in 0..<count { firstSlot[part + 2] += firstSlot[part + 1] }
        slots = scratch.take(block.regionCount, repeating: Self.none)
        regions = scratch.take(Int(firstSlot[count + 1]))
        for region in 0..<block.regionCount where isPart[region] {
            let part = parts[region]
            let slot = firstSlot[part + 1]
            firstSlot[part + 1] += 1
            slots[region] = slot
            regions[slot] = UInt32(region)
        }
        growth = (scratch.take(regions.count, repeating: 0), scratch.take(regions.count, repeating: 0))
    }

    /// The operations of one side in all parts, with the indices they have in the lists of the parts.
    private mutating func extract(_ side: ListSide, _ number: Int, _ scratch: inout ListScratch) -> Slab<ListOperation>
    {
        let starts = scratch.take(count + 2, of: UInt32.self)
        starts.update(repeating: 0)
        for number in side.operations.indices where contains(side.region[number]) {
            starts[parts[side.region[number]] + 2] += 1
        }
        for part in 0..<count { starts[part + 2] += starts[part + 1] }
        let operations = scratch.take(Int(starts[count + 1]), of: ListOperation.self)
        let places = PartPlaces(block, self, scratch: &scratch)
        for number in side.operations.indices {
            var operation = side.operations[number]
            let region = side.region[number]
            guard contains(region) else {
                if operation.growth != 0 { places.grow(region, by: operation.growth) }
                continue
            }
            let part = parts[region]
            operation.index = places.indexInPart(operation.index, region, part)
            switch operation.kind {
            case .insert: places.grow(region, by: 1)
            case .erase: places.grow(region, by: -1)
            case .move:
                places.grow(region, by: -1)
                operation.to = places.indexInPart(operation.to, side.newRegion[number], part)
                places.grow(side.newRegion[number], by: 1)
            case .update, .touch: break
            }
            operations[starts[part + 1]] = operation
            starts[part + 1] += 1
        }
        let growth = number == 0 ? growth.0 : growth.1
        for slot in regions.indices { growth[slot] = places.growth[regions[slot]] }
        if number == 0 { self.starts.0 = starts } else { self.starts.1 = starts }
        return operations
    }

    func start(_ part: Int, _ number: Int) -> Int { Int(number == 0 ? starts.0[part] : starts.1[part]) }
}

/// Where the regions and parts begin while one side's operations change their sizes.
struct PartPlaces: BitwiseCopyable {
    private let block: ListBlock
    private let parts: ListParts
    /// Per region, what was added since the start.
    let growth: Slab<Int32>
    private let growthSums: PrefixSums
    /// Per slot, the size of the region and one more.
    let sizes: PrefixSums

    init(_ block: ListBlock, _ parts: ListParts, scratch: inout ListScratch) {
        self.block = block
        self.parts = parts
        growth = scratch.take(block.regionCount, repeating: 0)
        growthSums = PrefixSums(block.regionCount, &scratch)
        sizes = PrefixSums(parts.regions.count, &scratch)
        for slot in parts.regions.indices {
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
        if parts.contains(region) { sizes.add(Int32(value), at: Int(parts.slots[region])) }
    }

    @inline(__always)
    func indexInPart(_ index: UInt32, _ region: UInt32, _ part: UInt32) -> UInt32 {
        let before = sizes.sum(before: Int(parts.slots[region])) - sizes.sum(before: Int(parts.firstSlot[part]))
        return UInt32(truncatingIfNeeded: before + Int(index) - start(region))
    }
}

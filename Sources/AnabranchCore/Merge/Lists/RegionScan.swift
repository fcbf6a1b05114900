/// Goes over all places of a block from left to right: cuts the list into regions, and tells each operation what is to
/// the left of it (`Spec/Transform.md`, section 13.2).
struct RegionScan: BitwiseCopyable {
    private(set) var block: ListBlock
    /// The next entry.
    private var next = 0
    /// The counts of what is to the left of it.
    private var before = ListBlock.Count()
    /// The key of the gap or removable element before it.
    private var lastKey = UInt64.max
    private var sharedCount = 0

    init(_ block: ListBlock) { self.block = block }

    /// Goes on to the last place, or until the step is over.
    ///
    /// - Returns: Whether it is through: then `block` is complete.
    mutating func advance(_ budget: inout PairBudget) -> Bool {
        // A copy, so that what changes with each entry stays in registers.
        var scan = self
        defer { self = scan }
        while scan.next < block.entryCount {
            if budget.isStepOver { return false }
            let start = scan.next
            let end = start + Self.entriesPerLook
            while scan.next < block.entryCount, scan.next < end { scan.takeNext() }
            budget.countTime((scan.next - start) * Self.pairsPerEntry)
        }
        scan.block.finishRegions(scan.before, sharedCount: scan.sharedCount)
        return true
    }

    /// The time that an entry takes, in pair visits.
    private static let pairsPerEntry = 4
    private static let entriesPerLook = 256

    /// All entries about one element or gap.
    @inline(__always)
    private mutating func takeNext() {
        let group = group(from: next)
        next = group.upperBound
        let key = block.key(group.lowerBound)
        guard key & 1 == 1 else {
            let region = openRegion(at: key)
            // Of the inserts in its own region, those left of an insert are found later.
            setPlaces(group, region: UInt32(region), inserts: block.regions[region].before)
            countInserts(group)
            return
        }
        let uses = uses(of: group)
        if uses.isShared {
            block.sharedElements[sharedCount] = ListBlock.SharedElement(
                first: UInt32(group.lowerBound), end: UInt32(group.upperBound))
            sharedCount += 1
        }
        if uses.isRemovable {
            let region = openRegion(at: key)
            setPlaces(group, region: UInt32(region), inserts: before)
            addRemovable(key, uses, to: region)
        } else {
            setPlaces(group, region: ListSide.fixed | UInt32(block.regionCount), inserts: before)
        }
    }

    /// The entries from one on that name the same element or gap.
    @inline(__always)
    private func group(from first: Int) -> Range<Int> {
        var end = first + 1
        while end < block.entryCount, block.key(end) == block.key(first) { end += 1 }
        return first..<end
    }

    /// The uses that both sides make of one element.
    private struct Uses {
        var named = (major: false, minor: false)
        var erased = (major: false, minor: false)
        var isMoved = false

        var isShared: Bool { named.major && named.minor }
        var isRemovable: Bool { erased.major || erased.minor || isMoved }
    }

    @inline(__always)
    private func uses(of group: Range<Int>) -> Uses {
        var uses = Uses()
        for entry in group {
            let role = block.role(entry)
            if block.side(entry) == 0 {
                uses.named.major = true
                if role == .erases { uses.erased.major = true }
            } else {
                uses.named.minor = true
                if role == .erases { uses.erased.minor = true }
            }
            if role == .moves { uses.isMoved = true }
        }
        return uses
    }

    /// The region of a gap or a removable element: the one before, unless an element between them stays.
    @inline(__always)
    private mutating func openRegion(at key: UInt64) -> Int {
        if lastKey == .max || key - lastKey > (lastKey & 1) + 1 { block.addRegion(at: UInt32(key / 2), before) }
        lastKey = key
        return block.regionCount - 1
    }

    @inline(__always)
    private mutating func addRemovable(_ key: UInt64, _ uses: Uses, to region: Int) {
        if uses.erased.major { before.erased.0 += 1 }
        if uses.erased.minor { before.erased.1 += 1 }
        if uses.erased.major, uses.erased.minor { before.common += 1 }
        block.addRemovable(UInt32(key / 2), to: region)
    }

    /// - Parameter inserts: the counts of the inserts that count as left of the place.
    @inline(__always)
    private func setPlaces(_ group: Range<Int>, region: UInt32, inserts: ListBlock.Count) {
        for entry in group {
            let (number, operation) = (block.side(entry), block.operation(entry))
            let side = block.sides[number]
            if block.role(entry) == .receives {
                side.positions[operation].newRegion = region
                continue
            }
            let erased = number == 0 ? before.erased.1 : before.erased.0
            let remaining = number == 0 ? inserts.remaining.1 : inserts.remaining.0
            side.positions[operation] = ListSide.Position(
                region: region, newRegion: side.positions[operation].newRegion, rank: UInt32(block.removableCount),
                shift: remaining - Int32(erased), common: before.common,
                erasures: erased, hasInsertBefore: (number == 0 ? inserts.inserts.1 : inserts.inserts.0) > 0)
        }
    }

    @inline(__always)
    private mutating func countInserts(_ group: Range<Int>) {
        for entry in group where block.role(entry) != .receives {
            let remains = block.role(entry) == .adds ? block.growth(entry) : 0
            if block.side(entry) == 0 {
                before.inserts.0 += 1
                before.remaining.0 += remains
            } else {
                before.inserts.1 += 1
                before.remaining.1 += remains
            }
        }
    }
}

extension ListBlock {
    @inline(__always)
    fileprivate mutating func addRegion(at start: UInt32, _ before: Count) {
        regions[regionCount] = Region(start: start, firstRank: UInt32(removableCount), before: before)
        regionCount += 1
    }

    @inline(__always)
    fileprivate mutating func addRemovable(_ element: UInt32, to region: Int) {
        removable[removableCount] = element
        removableCount += 1
        regions[region].removable += 1
    }

    /// Completes the block when all places are scanned.
    fileprivate mutating func finishRegions(_ before: Count, sharedCount: Int) {
        regions[regionCount] = Region(start: size, firstRank: UInt32(removableCount), before: before)
        sharedElements = sharedElements[0..<sharedCount]
        inheritRegions(sides[0])
        inheritRegions(sides[1])
        if checksInvariants { checkInvariants() }
    }

    /// Operations on elements that an own operation brought to their place belong to the region of that place.
    private func inheritRegions(_ side: ListSide) {
        for operation in side.operations.indices where side.operations[operation].kind != .insert {
            let element = side.replayed[operation].target
            guard element.isOwn else { continue }
            let anchor = side.positions[element.operation]
            let isMoved = side.operations[element.operation].kind == .move
            side.positions[operation].region = isMoved ? anchor.newRegion : anchor.region
        }
    }

    /// Regions stand in order and apart, and every operation is in one or at an element that stays.
    private func checkInvariants() {
        for entry in 0..<max(entryCount - 1, 0) { invariant(key(entry) <= key(entry + 1), "entries are not in order") }
        for region in 0..<regionCount {
            let (this, next) = (regions[region], regions[region + 1])
            invariant(this.start <= next.start && this.before.isAtMost(next.before), "regions are not in order")
            invariant(this.firstRank + this.removable == next.firstRank, "region \(region) has other elements")
        }
        for rank in 0..<max(removableCount - 1, 0) {
            invariant(removable[rank] < removable[rank + 1], "removable elements are not in order")
        }
        for side in sides {
            for place in side.positions {
                let isRegion = place.region < UInt32(regionCount)
                invariant(isRegion || place.region >= ListSide.fixed, "an operation is in region \(place.region)")
            }
        }
    }
}

extension ListBlock.Count {
    fileprivate func isAtMost(_ other: ListBlock.Count) -> Bool {
        inserts.0 <= other.inserts.0 && inserts.1 <= other.inserts.1 && erased.0 <= other.erased.0
            && erased.1 <= other.erased.1 && common <= other.common
    }
}

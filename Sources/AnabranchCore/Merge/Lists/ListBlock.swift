/// Two runs of operations on one list, and what merging them needs to know about the places they touch.
///
/// An element is *removable* if a side erases or moves it. A *base gap* is the place before an element of the start; a
/// *region* is a maximal set of gaps that only removable elements separate. What happens in one region shifts the
/// indices of another one and has no other influence on it.
struct ListBlock: BitwiseCopyable {
    /// Per region: what stands in it, and what is to the left of it.
    struct Region: BitwiseCopyable {
        var start: UInt32
        var firstRank: UInt32
        var removable: UInt32 = 0
        /// What is in all regions before.
        var before: Count
    }

    /// Numbers of what is left of a place.
    struct Count: BitwiseCopyable {
        /// Per side: inserts that remain at its end; all inserts; elements of the start that it erases, and those that
        /// both erase.
        var remaining: (Int32, Int32) = (0, 0)
        var inserts: (UInt32, UInt32) = (0, 0)
        var erased: (UInt32, UInt32) = (0, 0)
        var common: UInt32 = 0

        /// What the other side than `side` adds to an index.
        @inline(__always)
        func growth(without side: Int) -> Int32 {
            side == 0 ? remaining.1 - Int32(erased.1) : remaining.0 - Int32(erased.0)
        }
    }

    /// What an operation does to the place that an entry names.
    private enum Role: UInt64 {
        case follows
        case erases
        case moves
        case inserts
        /// Inserts an element that is there at the end of the side.
        case adds
        /// Moves an element to the place.
        case receives
    }

    /// The major and the minor side.
    let sides: Slab<ListSide>
    let size: UInt32
    private(set) var regions: Slab<Region>
    private(set) var regionCount = 0
    /// The start index of each removable element.
    let removable: Slab<UInt32>
    private(set) var removableCount = 0
    var commonCount: Int { Int(regions[regionCount].before.common) }
    /// Keys of all places, sorted; equal ones are about one element or one gap. Groups in which both sides name one
    /// element are `contested`: their first entry and its region.
    private let entries: Slab<UInt64>
    private let contested: Slab<(UInt32, UInt32)>
    private var contestedCount = 0

    init(major: Slab<ListOperation>, minor: Slab<ListOperation>, size: UInt32, _ scratch: inout ListScratch) {
        sides = scratch.take(2)
        sides[0] = ListSide(major, size: size, &scratch)
        sides[1] = ListSide(minor, size: size, &scratch)
        self.size = size
        let unsorted = scratch.take(2 * (major.count + minor.count), of: UInt64.self)
        var count = Self.collect(sides[0], 0, unsorted, 0)
        count = Self.collect(sides[1], 1, unsorted, count)
        entries = sortByUpperHalf(Slab(rebasing: unsorted[..<count]), limit: 2 * size + 1, &scratch)
        regions = scratch.take(count + 1)
        removable = scratch.take(count)
        contested = scratch.take(count / 2)
        scan()
        Self.inheritRegions(sides[0])
        Self.inheritRegions(sides[1])
    }

    /// Whether both sides insert into a region.
    func isShared(_ region: Int) -> Bool {
        let (before, after) = (regions[region].before.inserts, regions[region + 1].before.inserts)
        return before.0 < after.0 && before.1 < after.1
    }

    /// An entry for every place of the start that an operation names: the key, even for a gap, odd for the element
    /// after it; the side, the role and the operation.
    private static func collect(_ side: ListSide, _ number: UInt64, _ entries: Slab<UInt64>, _ start: Int) -> Int {
        var count = start
        func add(_ key: UInt32, _ operation: Int, _ role: Role) {
            entries[count] = UInt64(key) << 32 | number << 31 | role.rawValue << 28 | UInt64(operation)
            count += 1
        }
        for operation in side.operations.indices {
            let names = side.names[operation]
            switch side.operations[operation].kind {
            case .insert: add(2 * names.gap, operation, names.remains ? .adds : .inserts)
            case .erase: if !names.target.isOwn { add(2 * names.target + 1, operation, .erases) }
            case .update, .touch: if !names.target.isOwn { add(2 * names.target + 1, operation, .follows) }
            case .move:
                if !names.target.isOwn { add(2 * names.target + 1, operation, .moves) }
                add(2 * names.gap, operation, .receives)
            }
        }
        return count
    }

    @inline(__always)
    private func reference(_ entry: Int) -> (side: Int, operation: Int, role: Role) {
        let value = entries[entry]
        return (Int(value >> 31 & 1), Int(value & (1 << 28 - 1)), Role(rawValue: value >> 28 & 7) ?? .follows)
    }

    private mutating func scan() {
        var before = Count()
        var lastKey = UInt64.max
        var first = 0
        while first < entries.count {
            let key = entries[first] >> 32
            let isElement = key & 1 == 1
            var (end, removers, namers) = (first, 0, 0)
            while end < entries.count, entries[end] >> 32 == key {
                let (side, _, role) = reference(end)
                namers |= 1 << side
                if role == .erases { removers |= 1 << side }
                if role == .moves { removers |= 4 }
                end += 1
            }
            if isElement, namers == 3 {
                contested[contestedCount] = (UInt32(first), UInt32(end))
                contestedCount += 1
            }
            if isElement, removers == 0 {
                setPlaces(first..<end, region: ListSide.fixed | UInt32(regionCount), before, before)
                first = end
                continue
            }
            if lastKey == .max || key - lastKey > (lastKey & 1) + 1 {
                regions[regionCount] = Region(start: UInt32(key / 2), firstRank: UInt32(removableCount), before: before)
                regionCount += 1
            }
            lastKey = key
            let region = regionCount - 1
            if isElement {
                setPlaces(first..<end, region: UInt32(region), before, before)
                before.erased.0 += UInt32(removers & 1)
                before.erased.1 += UInt32(removers >> 1 & 1)
                if removers & 3 == 3 { before.common += 1 }
                removable[removableCount] = UInt32(key / 2)
                removableCount += 1
                regions[region].removable += 1
            } else {
                // Of the inserts in its own region, those left of an insert are found later.
                setPlaces(first..<end, region: UInt32(region), before, regions[region].before)
                countInserts(first..<end, &before)
            }
            first = end
        }
        regions[regionCount] = Region(start: size, firstRank: UInt32(removableCount), before: before)
    }

    @inline(__always)
    private func setPlaces(_ range: Range<Int>, region: UInt32, _ before: Count, _ inserts: Count) {
        for entry in range {
            let (number, operation, role) = reference(entry)
            if role == .receives {
                sides[number].places[operation].newRegion = region
                continue
            }
            let erased = number == 0 ? before.erased.1 : before.erased.0
            let remaining = number == 0 ? inserts.remaining.1 : inserts.remaining.0
            sides[number].places[operation] = ListSide.Place(
                region: region, newRegion: sides[number].places[operation].newRegion, rank: UInt32(removableCount),
                shift: remaining - Int32(erased), common: before.common,
                erasures: erased, hasInsertBefore: (number == 0 ? inserts.inserts.1 : inserts.inserts.0) > 0)
        }
    }

    @inline(__always)
    private func countInserts(_ range: Range<Int>, _ before: inout Count) {
        for entry in range {
            let (number, _, role) = reference(entry)
            if role == .receives { continue }
            let remains: Int32 = role == .adds ? 1 : 0
            if number == 0 {
                before.inserts.0 += 1
                before.remaining.0 += remains
            } else {
                before.inserts.1 += 1
                before.remaining.1 += remains
            }
        }
    }

    /// Operations on elements that an own operation brought to their place belong to the region of that place.
    private static func inheritRegions(_ side: ListSide) {
        for operation in side.operations.indices where side.operations[operation].kind != .insert {
            let name = side.names[operation].target
            guard name.isOwn else { continue }
            let anchor = side.places[name.operation]
            let isMoved = side.operations[name.operation].kind == .move
            side.places[operation].region = isMoved ? anchor.newRegion : anchor.region
        }
    }

    /// Discards what the other side's operations on the same element make void, except in regions that are merged as
    /// lists of their own.
    ///
    /// - Parameter visits: counts pairs; whether they may be visited.
    func settleElements(except isPart: (UInt32) -> Bool, visits: (Int) -> Bool) {
        for number in 0..<contestedCount {
            let range = Int(contested[number].0)..<Int(contested[number].1)
            let (firstSide, operation, _) = reference(range.lowerBound)
            if isPart(sides[firstSide].places[operation].region) { continue }
            settleElement(range, visits)
        }
    }

    private func settleElement(_ range: Range<Int>, _ visits: (Int) -> Bool) {
        let (left, right) = (sides[0].operations, sides[1].operations)
        var middle = range.lowerBound
        while reference(middle).side == 0 { middle += 1 }
        var erased = (false, false)
        var majors = (updates: 0, touches: 0)
        for entry in range.lowerBound..<middle {
            switch left[reference(entry).operation].kind {
            case .erase: erased.0 = true
            case .touch: majors.touches += 1
            default: majors.updates += 1
            }
        }
        var minorUpdates = 0
        for entry in middle..<range.upperBound {
            let kind = right[reference(entry).operation].kind
            if kind == .erase { erased.1 = true }
            if kind == .update { minorUpdates += 1 }
        }
        let pairs = majors.updates * (range.upperBound - middle) + majors.touches * minorUpdates
        guard visits(pairs) else { return }
        // ConflictKeys meet updates only.
        let updates =
            majors.touches * minorUpdates == 0
            ? [] : (middle..<range.upperBound).filter { right[reference($0).operation].kind == .update }
        for entry in range.lowerBound..<middle {
            let row = reference(entry).operation
            switch left[row].kind {
            case .erase: break
            case .touch: settle(row, with: updates)
            default: settle(row, with: middle..<range.upperBound)
            }
        }
        if erased.0 { for entry in middle..<range.upperBound { right[reference(entry).operation].discarded = true } }
        if erased.1 { for entry in range.lowerBound..<middle { left[reference(entry).operation].discarded = true } }
    }

    /// Merges a row with the entries of columns that name its element, until it is discarded.
    @inline(__always)
    private func settle(_ row: Int, with entries: some Sequence<Int>) {
        let (left, right) = (sides[0].operations, sides[1].operations)
        for entry in entries {
            let column = reference(entry).operation
            if right[column].discarded || right[column].kind == .erase { continue }
            meet(&left[row], &right[column])
            if left[row].discarded { return }
        }
    }

    /// Two updates or touches of one element.
    private func meet(_ major: inout ListOperation, _ minor: inout ListOperation) {
        switch (major.kind, minor.kind) {
        case (.update, .update): ListRules.settle(&major, &minor)
        case (.update, .touch): if ListRules.replaces(major, minor) { minor.discarded = true }
        case (.touch, .update): if ListRules.replaces(minor, major) { major.discarded = true }
        default: break
        }
    }
}

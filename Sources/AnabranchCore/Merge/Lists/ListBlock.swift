/// Two runs of operations on one list, and what merging them needs to know about the places they name
/// (`Spec/Transform.md`, section 13.2).
///
/// An element is *removable* if a side erases or moves it. A *base gap* is the place before an element of the start; a
/// *region* is a maximal set of gaps that only removable elements separate. What happens in one region shifts the
/// indices of another one and has no other influence on it.
struct ListBlock: BitwiseCopyable {
    struct Region: BitwiseCopyable {
        /// The start index of its first gap.
        var start: UInt32
        /// The number of removable elements in the regions before.
        var firstRank: UInt32
        /// The number of its own removable elements.
        var removable: UInt32 = 0
        /// The counts of the regions before.
        var before: Count
    }

    /// Counts of elements and operations to the left of a place.
    struct Count: BitwiseCopyable {
        /// Per side: inserts that remain at its end.
        var remaining: (Int32, Int32) = (0, 0)
        /// Per side: all inserts.
        var inserts: (UInt32, UInt32) = (0, 0)
        /// Per side: elements of the start that it erases.
        var erased: (UInt32, UInt32) = (0, 0)
        /// Elements of the start that both sides erase.
        var common: UInt32 = 0

        /// The amount that the side other than `side` adds to an index.
        @inline(__always)
        func growth(without side: Int) -> Int32 {
            side == 0 ? remaining.1 - Int32(erased.1) : remaining.0 - Int32(erased.0)
        }
    }

    /// A half-open range of entries that name an element which both sides use.
    struct SharedElement: BitwiseCopyable {
        let first: UInt32
        let end: UInt32
    }

    /// The effect of an operation on the place that an entry names.
    enum Role: UInt64 {
        /// Sets the element, or changes something inside it.
        case follows
        case erases
        /// Moves the element away.
        case moves
        /// Inserts an element that the side has erased again at its end.
        case inserts
        /// Inserts an element that is there at the end of the side.
        case adds
        /// Moves an element to the place.
        case receives
    }

    /// The major and the minor side.
    let sides: ScratchBuffer<ListSide>
    /// The size of the list at the start.
    let size: UInt32
    let regions: ScratchBuffer<Region>
    var regionCount = 0
    /// The start index of each removable element.
    let removable: ScratchBuffer<UInt32>
    var removableCount = 0
    /// The number of elements of the start that both sides erase.
    var commonCount: Int { Int(regions[regionCount].before.common) }
    /// Sort keys of all operations: equal keys name one element or one gap.
    private let entries: ScratchBuffer<UInt64>
    var sharedElements: ScratchBuffer<SharedElement>

    /// Regions are found by `RegionScan`.
    ///
    /// - Parameter sides: both replayed.
    init(_ sides: ScratchBuffer<ListSide>, size: UInt32, _ memory: inout ScratchMemory) {
        self.sides = sides
        self.size = size
        let unsorted = memory.take(2 * (sides[0].operations.count + sides[1].operations.count), of: UInt64.self)
        var count = Self.collect(sides[0], 0, unsorted, 0)
        count = Self.collect(sides[1], 1, unsorted, count)
        entries = sortByUpperHalf(unsorted[0..<count], limit: 2 * size + 1, &memory)
        regions = memory.take(count + 1)
        removable = memory.take(count)
        sharedElements = memory.take(count / 2)
    }

    /// True if both sides insert into a region.
    func isShared(_ region: Int) -> Bool {
        let (before, after) = (regions[region].before.inserts, regions[region + 1].before.inserts)
        return before.0 < after.0 && before.1 < after.1
    }

    // MARK: Entries

    var entryCount: Int { entries.count }
    /// The side of an entry's operation.
    @inline(__always) func side(_ entry: Int) -> Int { Int(entries[entry] >> 31 & 1) }
    /// The number of an entry's operation on its side.
    @inline(__always) func operation(_ entry: Int) -> Int { Int(entries[entry] & (1 << 28 - 1)) }
    @inline(__always) func role(_ entry: Int) -> Role { Role(rawValue: entries[entry] >> 28 & 7) ?? .follows }
    /// The number of elements that an entry's operation adds to the list.
    @inline(__always) func growth(_ entry: Int) -> Int32 {
        Int32(truncatingIfNeeded: sides[side(entry)].operations[operation(entry)].growth)
    }
    @inline(__always) func key(_ entry: Int) -> UInt64 { entries[entry] >> 32 }
    /// The region of an entry's operation.
    func region(of entry: Int) -> UInt32 { sides[side(entry)].positions[operation(entry)].region }

    /// An entry for every place of the start that an operation names: the key, even for a gap, odd for the element
    /// after it; the side, the role and the operation.
    private static func collect(
        _ side: ListSide, _ number: UInt64, _ entries: ScratchBuffer<UInt64>, _ start: Int
    ) -> Int {
        var count = start
        func add(_ key: UInt32, _ operation: Int, _ role: Role) {
            entries[count] = UInt64(key) << 32 | number << 31 | role.rawValue << 28 | UInt64(operation)
            count += 1
        }
        for operation in side.operations.indices {
            let replayed = side.replayed[operation]
            switch side.operations[operation].kind {
            case .insert: add(2 * replayed.gap, operation, replayed.remains ? .adds : .inserts)
            case .erase: if !replayed.target.isOwn { add(2 * replayed.target + 1, operation, .erases) }
            case .update, .nested: if !replayed.target.isOwn { add(2 * replayed.target + 1, operation, .follows) }
            case .move:
                if !replayed.target.isOwn { add(2 * replayed.target + 1, operation, .moves) }
                add(2 * replayed.gap, operation, .receives)
            }
        }
        return count
    }
}

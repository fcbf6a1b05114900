/// One side of a block: its operations and what is found out about them, by operation number (`Spec/Transform.md`,
/// section 13.2).
struct ListSide: BitwiseCopyable {
    static let none = UInt32.max
    /// Marks, in `region`, an element that stays where it is and belongs to no region; the rest is the number of
    /// regions before it.
    static let fixed: UInt32 = 1 << 31

    /// The findings of the side's replay about an operation.
    struct Replayed: BitwiseCopyable {
        /// The element that an erase, update, move or nested edit names.
        var target: ElementID = .end
        /// The right neighbour at the place where an insert or move puts its element.
        var right: ElementID = .end
        /// The base gap of that place.
        var gap: UInt32 = 0
        /// True if the element that an insert or move puts there is still there at the end of the side.
        var remains = false
        /// True if the side has nested edits of that element.
        var hasNested = false
    }

    /// The findings about the place of an operation.
    struct Position: BitwiseCopyable {
        var region: UInt32 = ListSide.none
        /// Of a move: the region of the new place.
        var newRegion: UInt32 = ListSide.none
        /// Number of removable elements before the place.
        var rank: UInt32 = 0
        /// The amount that the other side adds to the index, without elements that both sides erase.
        var shift: Int32 = 0
        /// Number of elements before the place that both sides erase.
        var common: UInt32 = 0
        /// Number of elements before the place that the other side erases: they make a nested edit dirty.
        var erasures: UInt32 = 0
        /// True if the other side ever inserts something before the place: that makes a nested edit dirty as well.
        var hasInsertBefore = false
        /// The node of the insert in `RegionOrder`.
        var node: UInt32 = ListSide.none
    }

    let operations: ScratchBuffer<ListOperation>
    let replayed: ScratchBuffer<Replayed>
    let positions: ScratchBuffer<Position>
    let hasMoves: Bool
    let hasNested: Bool

    /// Nothing is known of the operations before the replay.
    init(_ operations: ScratchBuffer<ListOperation>, _ memory: inout ScratchMemory) {
        self.operations = operations
        replayed = memory.take(operations.count)
        positions = memory.take(operations.count)
        hasMoves = operations.contains { $0.kind == .move }
        hasNested = operations.contains { $0.kind == .nested }
    }

    /// The operation that has the place of this one: itself, or the one that brought the element there.
    @inline(__always)
    func anchor(_ number: Int) -> Int {
        if operations[number].kind == .insert { return number }
        let element = replayed[number].target
        return element.isOwn ? element.operation : number
    }
}

/// The operations of a side one after the other, on the list that the side sees.
struct SideReplay: BitwiseCopyable {
    private let side: ListSide
    private let size: UInt32
    private var list: ReplayList
    private var next = 0

    init(_ side: ListSide, size: UInt32, _ memory: inout ScratchMemory) {
        self.side = side
        self.size = size
        let changes = side.operations.reduce(0) { $0 + ($1.kind == .move ? 2 : $1.isShift ? 1 : 0) }
        list = ReplayList(size: size, operations: changes, &memory)
    }

    /// Continues to the end of the side, or until the step is over.
    ///
    /// - Returns: Whether it has reached the end.
    mutating func advance(_ budget: inout PairBudget) -> Bool {
        // A copy, so that what changes with each operation stays in registers.
        var replay = self
        defer { self = replay }
        while replay.next < side.operations.count {
            if budget.isStepOver { return false }
            let end = min(replay.next + Self.operationsPerLook, side.operations.count)
            budget.countTime((end - replay.next) * Self.pairsPerOperation)
            for number in replay.next..<end { replay.replay(number) }
            replay.next = end
            if checksInvariants { replay.list.checkInvariants() }
        }
        return true
    }

    /// The time that an operation takes, in pair visits.
    private static let pairsPerOperation = 16
    private static let operationsPerLook = 256

    @inline(__always)
    private mutating func replay(_ number: Int) {
        let operation = side.operations[number]
        switch operation.kind {
        case .insert: put(number, at: operation.index)
        case .erase: take(number, at: operation.index)
        case .update: side.replayed[number] = ListSide.Replayed(target: list.element(at: operation.index))
        case .nested:
            let element = list.element(at: operation.index)
            side.replayed[number] = ListSide.Replayed(target: element)
            if element.isOwn { side.replayed[element.operation].hasNested = true }
        case .move:
            take(number, at: operation.index)
            put(number, at: operation.to)
        }
    }

    @inline(__always)
    private mutating func take(_ number: Int, at index: UInt32) {
        let element = list.remove(at: index)
        side.replayed[number] = ListSide.Replayed(target: element)
        if element.isOwn { side.replayed[element.operation].remains = false }
    }

    @inline(__always)
    private mutating func put(_ number: Int, at index: UInt32) {
        let right = list.insert(.own + UInt32(number), count: side.operations[number].count, at: index)
        let target = side.operations[number].kind == .move ? side.replayed[number].target : .end
        let gap = right == .end ? size : right.isOwn ? side.replayed[right.operation].gap : right
        side.replayed[number] = ListSide.Replayed(target: target, right: right, gap: gap, remains: true)
    }
}

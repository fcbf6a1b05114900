/// One side of a block: its operations and what is found out about them, by operation number.
struct ListSide: BitwiseCopyable {
    static let none = UInt32.max
    /// Marks, in `region`, an element that stays where it is and belongs to no region; the rest is the number of
    /// regions before it.
    static let fixed: UInt32 = 1 << 31

    let operations: Slab<ListOperation>
    /// Of an erase, update, move, touch: the element.
    let target: Slab<ListName>
    /// Of an insert or move: the right neighbour at the new place, the base gap of that place, and whether the element
    /// is there at the end.
    let right: Slab<ListName>
    let gap: Slab<UInt32>
    let remains: Slab<Bool>
    let region: Slab<UInt32>
    /// Of a move: the region of the new place.
    let newRegion: Slab<UInt32>
    /// Number of removable elements before the operation's place.
    let rank: Slab<UInt32>
    /// What the other side adds to the index, without elements that both sides erase; number of such elements before
    /// the place.
    let shift: Slab<Int32>
    let common: Slab<UInt32>
    /// What makes a touch dirty: elements that the other side erases, and whether it ever inserts something, left of
    /// the place.
    let erasures: Slab<UInt32>
    let hasInsertBefore: Slab<Bool>
    /// Whether the side touches what the operation inserted.
    let isTouched: Slab<Bool>
    let node: Slab<UInt32>
    private(set) var inserts = 0
    private(set) var growth = 0
    private(set) var hasMoves = false
    private(set) var hasTouches = false

    init(_ operations: Slab<ListOperation>, size: UInt32, _ scratch: inout ListScratch) {
        let count = operations.count
        self.operations = operations
        target = scratch.take(count)
        right = scratch.take(count)
        gap = scratch.take(count)
        remains = scratch.take(count)
        region = scratch.take(count)
        newRegion = scratch.take(count)
        rank = scratch.take(count)
        shift = scratch.take(count)
        common = scratch.take(count)
        erasures = scratch.take(count)
        hasInsertBefore = scratch.take(count)
        isTouched = scratch.take(count, repeating: false)
        node = scratch.take(count)
        let mark = scratch.mark
        replay(size, &scratch)
        scratch.release(mark)
    }

    private mutating func replay(_ size: UInt32, _ scratch: inout ListScratch) {
        var changes = 0
        for operation in operations {
            growth += operation.growth
            switch operation.kind {
            case .insert: (inserts, changes) = (inserts + 1, changes + 1)
            case .erase: changes += 1
            case .move: (hasMoves, changes) = (true, changes + 2)
            case .update, .touch: break
            }
        }
        var document = ListDocument(size: size, operations: changes, &scratch)
        for number in operations.indices {
            let operation = operations[number]
            switch operation.kind {
            case .insert: place(number, at: operation.index, &document, size)
            case .erase: take(number, at: operation.index, &document)
            case .update: target[number] = document.name(at: operation.index)
            case .touch:
                let name = document.name(at: operation.index)
                target[number] = name
                hasTouches = true
                if name.isOwn { isTouched[name.operation] = true }
            case .move:
                take(number, at: operation.index, &document)
                place(number, at: operation.to, &document, size)
            }
        }
    }

    @inline(__always)
    private func take(_ number: Int, at index: UInt32, _ document: inout ListDocument) {
        let name = document.remove(at: index)
        target[number] = name
        if name.isOwn { remains[name.operation] = false }
    }

    @inline(__always)
    private func place(_ number: Int, at index: UInt32, _ document: inout ListDocument, _ size: UInt32) {
        let neighbour = document.insert(.own + UInt32(number), at: index)
        right[number] = neighbour
        gap[number] = neighbour == .end ? size : neighbour.isOwn ? gap[neighbour.operation] : neighbour
        remains[number] = true
    }

    /// The operation that has the place of this one: itself, or the one that brought the element there.
    @inline(__always)
    func anchor(_ number: Int) -> Int {
        if operations[number].kind == .insert { return number }
        let name = target[number]
        return name.isOwn ? name.operation : number
    }
}

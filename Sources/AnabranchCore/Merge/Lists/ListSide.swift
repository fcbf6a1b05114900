/// One side of a block: its operations and what is found out about them, by operation number.
struct ListSide: BitwiseCopyable {
    static let none = UInt32.max
    /// Marks, in `region`, an element that stays where it is and belongs to no region; the rest is the number of
    /// regions before it.
    static let fixed: UInt32 = 1 << 31

    /// What the replay of the side finds out about an operation.
    struct Names: BitwiseCopyable {
        /// Of an erase, update, move, touch: the element.
        var target: ListName = .end
        /// Of an insert or move: the right neighbour at the new place, the base gap of that place, whether the element
        /// is there at the end, and whether the side touches it.
        var right: ListName = .end
        var gap: UInt32 = 0
        var remains = false
        var isTouched = false
    }

    /// What is found out about the place of an operation.
    struct Place: BitwiseCopyable {
        var region: UInt32 = ListSide.none
        /// Of a move: the region of the new place.
        var newRegion: UInt32 = ListSide.none
        /// Number of removable elements before the place.
        var rank: UInt32 = 0
        /// What the other side adds to the index, without elements that both sides erase; number of such elements
        /// before the place.
        var shift: Int32 = 0
        var common: UInt32 = 0
        /// What makes a touch dirty: elements that the other side erases, and whether it ever inserts something, left
        /// of the place.
        var erasures: UInt32 = 0
        var hasInsertBefore = false
        /// The insert in `ListOrder`.
        var node: UInt32 = ListSide.none
    }

    let operations: Slab<ListOperation>
    let names: Slab<Names>
    let places: Slab<Place>
    private(set) var hasMoves = false
    private(set) var hasTouches = false

    init(_ operations: Slab<ListOperation>, size: UInt32, _ scratch: inout ListScratch) {
        let count = operations.count
        self.operations = operations
        names = scratch.take(count)
        places = scratch.take(count)
        let mark = scratch.mark
        replay(size, &scratch)
        scratch.release(mark)
    }

    private mutating func replay(_ size: UInt32, _ scratch: inout ListScratch) {
        var changes = 0
        for operation in operations {
            switch operation.kind {
            case .insert, .erase: changes += 1
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
            case .update: names[number] = Names(target: document.name(at: operation.index))
            case .touch:
                let name = document.name(at: operation.index)
                names[number] = Names(target: name)
                hasTouches = true
                if name.isOwn { names[name.operation].isTouched = true }
            case .move:
                take(number, at: operation.index, &document)
                place(number, at: operation.to, &document, size)
            }
        }
    }

    @inline(__always)
    private func take(_ number: Int, at index: UInt32, _ document: inout ListDocument) {
        let name = document.remove(at: index)
        names[number] = Names(target: name)
        if name.isOwn { names[name.operation].remains = false }
    }

    @inline(__always)
    private func place(_ number: Int, at index: UInt32, _ document: inout ListDocument, _ size: UInt32) {
        let right = document.insert(.own + UInt32(number), at: index)
        let target = operations[number].kind == .move ? names[number].target : .end
        let gap = right == .end ? size : right.isOwn ? names[right.operation].gap : right
        names[number] = Names(target: target, right: right, gap: gap, remains: true)
    }

    /// The operation that has the place of this one: itself, or the one that brought the element there.
    @inline(__always)
    func anchor(_ number: Int) -> Int {
        if operations[number].kind == .insert { return number }
        let name = names[number].target
        return name.isOwn ? name.operation : number
    }
}

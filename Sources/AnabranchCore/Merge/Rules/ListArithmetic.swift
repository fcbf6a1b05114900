// What two operations on one list do to each other's numbers (`Spec/Transform.md`, section 7.5, and N5 to N7 of
// section 6), stated once: the rules of `ListRules.swift` and `NestedRules.swift` check first and then come here, the
// merge of long lists (`Lists/`) comes here only. Numbers are unsigned and wrap at 32 bits, as malformed input makes
// those of the reference do.
//
// Two files of `Lists/` build on it: `ShiftGrid` computes R14, R19 and R21 for many pairs at once, and `RegionMerge`
// takes older inserts first because of the tie of R14. `ListArithmeticTests` and `ListMergerTests` compare them.
//
// `Lists/` also counts what either side adds to a list before it merges a pair. So it takes for granted that an
// insertion is never lost, and an erasure only to an erasure of the same element (R21).

/// An operation on a list, as far as these rules look at it and change it.
protocol ListEdit {
    /// The element that is erased, moved or set; the place of an insertion.
    var index: UInt32 { get }
    /// The place of a moved element after the move.
    var destination: UInt32 { get }
    /// The number of elements that an insertion inserts, one after the other.
    var count: UInt32 { get }

    mutating func setIndex(_ index: UInt32)
    mutating func setDestination(_ index: UInt32)
    /// The other side has made the list longer.
    mutating func listGrew()
    /// The other side has made the list shorter by one element.
    mutating func listShrank()
    mutating func discard()
}

/// Which of two changesets was made earlier.
enum TagOrder {
    case firstIsOlder
    case secondIsOlder
    case equal

    @inline(__always)
    init<Tag: Comparable>(_ first: Tag, _ second: Tag) {
        self = first < second ? .firstIsOlder : second < first ? .secondIsOlder : .equal
    }

    /// The same with exchanged sides.
    @inline(__always)
    var reversed: TagOrder {
        switch self {
        case .firstIsOlder: .secondIsOlder
        case .secondIsOlder: .firstIsOlder
        case .equal: .equal
        }
    }
}

enum ListArithmetic {
    // MARK: Where an element goes

    /// The elements from the place of an insertion on move up (R13, N5).
    @inline(__always)
    static func indexAfterInsert(_ index: UInt32, at place: UInt32, of count: UInt32 = 1) -> UInt32 {
        index >= place ? index &+ count : index
    }

    /// The elements after an erased one move down (R18, N7); nil for the erased one.
    @inline(__always)
    static func indexAfterErase(_ index: UInt32, of erased: UInt32) -> UInt32? {
        index == erased ? nil : index > erased ? index &- 1 : index
    }

    /// A moved element goes where it was moved; the others make room (R15, N6).
    @inline(__always)
    static func indexAfterMove(_ index: UInt32, from: UInt32, to destination: UInt32) -> UInt32 {
        if index == from { return destination }
        let taken = index > from ? index &- 1 : index
        return taken >= destination ? taken &+ 1 : taken
    }

    // MARK: Pairs

    /// R13. An insertion moves the elements from its place on, and the update with its element.
    @inline(__always)
    static func insertUpdate<Edit: ListEdit>(_ insert: Edit, _ update: inout Edit) {
        update.listGrew()
        update.setIndex(indexAfterInsert(update.index, at: insert.index, of: insert.count))
    }

    /// R14. Two insertions: the one further right moves; at the same place the older element comes first, at equal tags
    /// the minor one.
    @inline(__always)
    static func insertInsert<Edit: ListEdit>(
        _ major: inout Edit, _ minor: inout Edit, tags: @autoclosure () -> TagOrder
    ) {
        major.listGrew()
        minor.listGrew()
        let majorComesFirst = major.index < minor.index || (major.index == minor.index && tags() == .firstIsOlder)
        if majorComesFirst {
            minor.setIndex(minor.index &+ major.count)
        } else {
            major.setIndex(major.index &+ minor.count)
        }
    }

    /// R15. An update follows its element to where a move took it.
    @inline(__always)
    static func moveUpdate<Edit: ListEdit>(_ move: Edit, _ update: inout Edit) {
        update.setIndex(indexAfterMove(update.index, from: move.index, to: move.destination))
    }

    /// R16. A move is an erasure and an insertion: first the insertion and the place left, then the insertion and the
    /// place taken. In a tie the newer element comes first, at equal tags the moved one; the opposite of R14.
    @inline(__always)
    static func moveInsert<Edit: ListEdit>(
        _ move: inout Edit, _ insert: inout Edit, tags: @autoclosure () -> TagOrder
    ) {
        move.listGrew()
        var place = insert.index
        if place > move.index { place &-= 1 } else { move.setIndex(move.index &+ 1) }
        let destinationMoves = place < move.destination || (place == move.destination && tags() == .firstIsOlder)
        if destinationMoves { move.setDestination(move.destination &+ 1) } else { place &+= 1 }
        insert.setIndex(place)
    }

    /// R17. Two moves of one element: the newer one wins and starts where the older one took the element. Two moves of
    /// different elements are two erasures and two insertions; in a tie of destinations the older element is the
    /// first, at equal tags the minor one. A move that has become none is discarded.
    static func moveMove<Edit: ListEdit>(
        _ major: inout Edit, _ minor: inout Edit, tags: @autoclosure () -> TagOrder
    ) {
        guard major.index != minor.index else {
            if tags() == .firstIsOlder { moveOn(&minor, after: &major) } else { moveOn(&major, after: &minor) }
            return
        }
        var (from, to) = (major.index, major.destination)
        var (minorFrom, minorTo) = (minor.index, minor.destination)
        if from < minorFrom { minorFrom &-= 1 } else { from &-= 1 }
        if to > minorFrom { to &-= 1 } else { minorFrom &+= 1 }
        if from < minorTo { minorTo &-= 1 } else { from &+= 1 }
        if to < minorTo || (to == minorTo && tags() == .firstIsOlder) { minorTo &+= 1 } else { to &+= 1 }
        set(&major, from, to)
        set(&minor, minorFrom, minorTo)
    }

    /// The newer move of one element starts where the older one has brought it.
    private static func moveOn<Edit: ListEdit>(_ newer: inout Edit, after older: inout Edit) {
        set(&newer, older.destination, newer.destination)
        older.discard()
    }

    private static func set<Edit: ListEdit>(_ move: inout Edit, _ index: UInt32, _ destination: UInt32) {
        move.setIndex(index)
        move.setDestination(destination)
        if index == destination { move.discard() }
    }

    /// R18. An update of an erased element is lost, whatever the tags.
    @inline(__always)
    static func eraseUpdate<Edit: ListEdit>(_ erase: Edit, _ update: inout Edit) {
        update.listShrank()
        if let index = indexAfterErase(update.index, of: erase.index) {
            update.setIndex(index)
        } else {
            update.discard()
        }
    }

    /// R19. An erasure and an insertion: the one further right moves; at the same place the insertion comes first.
    @inline(__always)
    static func eraseInsert<Edit: ListEdit>(_ erase: inout Edit, _ insert: inout Edit) {
        erase.listGrew()
        insert.listShrank()
        if insert.index <= erase.index {
            erase.setIndex(erase.index &+ insert.count)
        } else {
            insert.setIndex(insert.index &- 1)
        }
    }

    /// R20. A moved element that the other side erases is erased where it went. Only the move's prior size changes.
    @inline(__always)
    static func eraseMove<Edit: ListEdit>(_ erase: inout Edit, _ move: inout Edit) {
        move.listShrank()
        var place = erase.index
        guard place != move.index else {
            erase.setIndex(move.destination)
            return move.discard()
        }
        if place > move.index { place &-= 1 } else { move.setIndex(move.index &- 1) }
        if place >= move.destination { place &+= 1 } else { move.setDestination(move.destination &- 1) }
        erase.setIndex(place)
        if move.index == move.destination { move.discard() }
    }

    /// R21. Both sides erase the element: it is gone already. Otherwise the erasure further right moves.
    @inline(__always)
    static func eraseErase<Edit: ListEdit>(_ major: inout Edit, _ minor: inout Edit) {
        major.listShrank()
        minor.listShrank()
        if major.index == minor.index {
            major.discard()
            minor.discard()
        } else if major.index > minor.index {
            major.setIndex(major.index &- 1)
        } else {
            minor.setIndex(minor.index &- 1)
        }
    }
}

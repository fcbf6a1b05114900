/// The effect of an instruction on a place, as far as it decides which others on the place it changes or is changed by
/// (`Spec/Transform.md`, sections 6, 7.3 and 7.4).
///
/// A set of roles stands for several instructions.
struct PlaceRole: OptionSet, Sendable {
    let rawValue: UInt16

    /// An AddInteger.
    static let increment = PlaceRole(rawValue: 1 << 0)
    /// Updates: to a number or null, which increments can be added to; to what has something inside; to anything else.
    static let number = PlaceRole(rawValue: 1 << 1)
    static let list = PlaceRole(rawValue: 1 << 2)
    static let dictionary = PlaceRole(rawValue: 1 << 3)
    static let object = PlaceRole(rawValue: 1 << 4)
    static let otherValue = PlaceRole(rawValue: 1 << 5)
    /// Clears, by the kind of the collection.
    static let clearList = PlaceRole(rawValue: 1 << 6)
    static let clearDictionary = PlaceRole(rawValue: 1 << 7)
    static let clearOther = PlaceRole(rawValue: 1 << 8)
    /// SetInsert and SetErase.
    static let setChange = PlaceRole(rawValue: 1 << 9)
    /// Instructions that go on to something inside, by an index or by a name.
    static let indexInside = PlaceRole(rawValue: 1 << 10)
    static let nameInside = PlaceRole(rawValue: 1 << 11)
    /// Along with `list` or `dictionary`: an Update of an element that does not state the size that the first one
    /// states.
    static let otherSize = PlaceRole(rawValue: 1 << 12)

    private static let clears: PlaceRole = [.clearList, .clearDictionary, .clearOther]
    private static let inside: PlaceRole = [.indexInside, .nameInside]
    private static let updates: PlaceRole = [.number, .list, .dictionary, .object, .otherValue]
    private static let settings = updates.union(clears).union(.increment)

    /// The roles that an instruction with this single role changes or is changed by. Numbers and increments do not
    /// count for each other: their tags decide, and what they do is a sum. Nor do two that go on inside.
    var conflicts: PlaceRole {
        switch subtracting(.otherSize) {
        case .increment: Self.settings.union(Self.inside).subtracting([.increment, .number])
        case .number: Self.settings.union(Self.inside).subtracting(.increment)
        case .list: Self.collection(.list, .clearList, .indexInside, hasOtherSize: contains(.otherSize))
        case .dictionary:
            Self.collection(.dictionary, .clearDictionary, .nameInside, hasOtherSize: contains(.otherSize))
        case .object: Self.settings
        case .clearList: Self.settings.union(Self.inside).union(.setChange).subtracting(.list)
        case .clearDictionary: Self.settings.union(Self.inside).union(.setChange).subtracting(.dictionary)
        case .clearOther: Self.settings.union(Self.inside).union(.setChange)
        case .setChange: Self.clears
        case .indexInside: Self.settings.subtracting([.list, .object])
        case .nameInside: Self.settings.subtracting([.dictionary, .object])
        default: Self.settings.union(Self.inside)
        }
    }

    /// Both sides make the place the same collection and fill it together, unless they state different sizes.
    private static func collection(
        _ own: PlaceRole, _ clear: PlaceRole, _ inside: PlaceRole, hasOtherSize: Bool
    ) -> PlaceRole {
        let others = settings.union(Self.inside).union(.otherSize).subtracting([clear, inside])
        return hasOtherSize ? others : others.subtracting(own)
    }
}

extension ChangesetArena {
    /// The effect of an instruction on the place that the first `depth` elements of its path lead to.
    ///
    /// - Parameter size: The prior size that Updates of an element are compared with.
    func role(of instruction: Instruction, depth: UInt32, size: UInt32? = nil) -> PlaceRole {
        if instruction.pathCount > depth { return element(depth, of: instruction).isIndex ? .indexInside : .nameInside }
        switch instruction.kind {
        case .addInteger: return .increment
        case .setInsert, .setErase: return .setChange
        case .clear:
            switch instruction.collection {
            case .list: return .clearList
            case .dictionary: return .clearDictionary
            default: return .clearOther
            }
        default: break
        }
        let statesOtherSize = instruction.isIndexed && size.map { $0 != instruction.priorSize } ?? false
        switch instruction.type {
        case .null, .int: return .number
        case .list: return statesOtherSize ? [.list, .otherSize] : .list
        case .dictionary: return statesOtherSize ? [.dictionary, .otherSize] : .dictionary
        case .objectValue: return .object
        default: return .otherValue
        }
    }

    /// True if, on both sides, the instructions that set a place leave alone what the other side does inside it: then
    /// the former and the latter are merged apart.
    func contentsStay(_ rows: [InstructionIndex], _ columns: [InstructionIndex], _ depth: UInt32) -> Bool {
        let (rows, columns) = (reach(of: rows, depth), reach(of: columns, depth))
        return rows.conflicts.isDisjoint(with: columns.contents) && columns.conflicts.isDisjoint(with: rows.contents)
    }

    /// The roles of instructions inside the place, and of all that conflict with one that sets it.
    private func reach(
        of indices: [InstructionIndex], _ depth: UInt32
    ) -> (conflicts: PlaceRole, contents: PlaceRole) {
        var (setting, contents): (PlaceRole, PlaceRole) = ([], [])
        for index in indices {
            if self[index].setsPlace(depth) {
                setting.formUnion(role(of: self[index], depth: depth))
            } else {
                contents.formUnion(role(of: self[index], depth: depth))
            }
        }
        let conflicts = setting.single.reduce(into: PlaceRole()) { $0.formUnion($1.conflicts) }
        return (conflicts, contents)
    }
}

extension Instruction {
    /// True if it sets, changes or clears as a whole the place that the first `depth` elements of its path lead to.
    @inline(__always)
    func setsPlace(_ depth: UInt32) -> Bool { pathCount == depth && !kind.isSetChange }
}

extension PlaceRole {
    /// The roles of a set one by one.
    fileprivate var single: [PlaceRole] {
        (0..<UInt16.bitWidth).map { PlaceRole(rawValue: 1 << UInt16($0)) }.filter(contains)
    }
}

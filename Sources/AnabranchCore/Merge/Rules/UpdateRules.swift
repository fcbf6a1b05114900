// Merge rules between Updates, increments and Clears of one place (`Spec/Transform.md`, section 7.3).

/// The kind of a value as far as the rules ask: whether there is something inside, and how it is reached.
enum ValueKind: UInt8, BitwiseCopyable {
    case plain
    /// An embedded object.
    case object
    /// Reached by an index.
    case list
    /// Reached by a name.
    case dictionary

    @inline(__always)
    init(_ type: PayloadType) {
        switch type {
        case .objectValue: self = .object
        case .list: self = .list
        case .dictionary: self = .dictionary
        default: self = .plain
        }
    }
}

/// An Update, as far as R6 looks at it and changes it.
protocol ValueEdit {
    var valueKind: ValueKind { get }
    var isDefault: Bool { get }
    mutating func discard()
}

extension Instruction: ValueEdit {
    @inline(__always) var valueKind: ValueKind { ValueKind(type) }
}

extension PairRules {
    static func updateVersusUpdate(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.samePath(major, minor) else { return }
        if major.isIndexed, major.priorSize != minor.priorSize { throw sizesDiffer(major, minor) }
        let (one, other) = (major.owner, minor.owner)
        resolve(&major, &minor, tags: arena.tagOrder(one, other))
    }

    /// R6. Both sides set a value: the newer one stays, at equal tags the major one. But an embedded object gives way
    /// to any other value, two collections of one kind are filled together, and a default gives way to a value that
    /// somebody chose.
    @inline(__always)
    static func resolve<Update: ValueEdit>(
        _ major: inout Update, _ minor: inout Update, tags: @autoclosure () -> TagOrder
    ) {
        let (one, other) = (major.valueKind, minor.valueKind)
        if one != other, one == .object || other == .object {
            if one == .object { major.discard() } else { minor.discard() }
        } else if one == other, one == .list || one == .dictionary {
            return
        } else if major.isDefault != minor.isDefault {
            if major.isDefault { major.discard() } else { minor.discard() }
        } else {
            if tags() == .firstIsOlder { major.discard() } else { minor.discard() }
        }
    }

    /// R7. An increment of a value that the other side sets: it counts on top of an older value and of a default, and
    /// it is lost with the value that it was meant for.
    static func addIntegerVersusUpdate(
        _ add: inout Instruction, _ update: inout Instruction, in arena: ChangesetArena
    ) {
        guard arena.samePath(add, update) else { return }
        guard arena.isOlder(update, than: add) || update.isDefault else { return add.discard() }
        switch update.type {
        case .null: break
        case .int: update.word0 &+= add.word0
        default: add.discard()
        }
    }

    /// R22. Emptying a collection against setting its place: the newer one stays; at equal tags the Clear. Emptying
    /// goes together with making the place a collection of the same kind.
    static func clearVersusUpdate(_ clear: inout Instruction, _ update: inout Instruction, in arena: ChangesetArena) {
        guard arena.samePath(clear, update) else { return }
        if clear.collection == .list && update.type == .list { return }
        if clear.collection == .dictionary && update.type == .dictionary { return }
        discardOlder(&clear, &update, in: arena)
    }

    /// R23. A place that one side makes a collection has no number to add to.
    static func clearVersusAddInteger(_ clear: inout Instruction, _ add: inout Instruction, in arena: ChangesetArena) {
        if arena.samePath(clear, add) { add.discard() }
    }

    /// R24. Both sides empty the collection: the newer Clear stays; at equal tags the major one.
    static func clearVersusClear(_ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena) {
        if arena.samePath(major, minor) { discardOlder(&major, &minor, in: arena) }
    }

    /// Discards the older of two instructions; at equal tags the second one.
    @inline(__always)
    static func discardOlder(_ first: inout Instruction, _ second: inout Instruction, in arena: ChangesetArena) {
        if arena.isOlder(first, than: second) { first.discard() } else { second.discard() }
    }
}

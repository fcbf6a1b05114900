// Merge rules between writes of one value (`Spec/Transform.md`, section 7.3).

extension ChangesetArena {
    /// R6. Two values for one place: the newer one stays; at equal tags the major one.
    ///
    /// An embedded object gives way to any other value, two collections of one kind are filled together, and a default
    /// gives way to a value that somebody chose.
    func updateVersusUpdate(_ major: inout Instruction, _ minor: inout Instruction) throws(TransformError) {
        guard samePath(major, minor) else { return }
        if major.isIndexed, major.priorSize != minor.priorSize { throw sizesDiffer(major, minor) }
        if major.type != minor.type, major.type == .objectValue || minor.type == .objectValue {
            if major.type == .objectValue { major.discard() } else { minor.discard() }
        } else if major.type == minor.type, major.type == .list || major.type == .dictionary {
            return
        } else if major.isDefault != minor.isDefault {
            if major.isDefault { major.discard() } else { minor.discard() }
        } else {
            discardOlder(&major, &minor)
        }
    }

    /// R7. An increment of a value that the other side sets: it counts on top of an older value and of a default, and
    /// it is lost with the value that it was meant for.
    func addIntegerVersusUpdate(_ add: inout Instruction, _ update: inout Instruction) {
        guard samePath(add, update) else { return }
        guard isOlder(update, than: add) || update.isDefault else { return add.discard() }
        switch update.type {
        case .null: break
        case .int: update.word0 &+= add.word0
        default: add.discard()
        }
    }

    /// R22. Emptying a collection against setting its place: the newer one stays; at equal tags the Clear. Emptying
    /// goes together with making the place a collection of the same kind.
    func clearVersusUpdate(_ clear: inout Instruction, _ update: inout Instruction) {
        guard samePath(clear, update) else { return }
        if clear.collection == .list && update.type == .list { return }
        if clear.collection == .dictionary && update.type == .dictionary { return }
        discardOlder(&clear, &update)
    }

    /// R23. A place that one side makes a collection has no number to add to.
    func clearVersusAddInteger(_ clear: inout Instruction, _ add: inout Instruction) {
        if samePath(clear, add) { add.discard() }
    }

    /// R24. Both sides empty the collection: the newer Clear stays; at equal tags the major one.
    func clearVersusClear(_ major: inout Instruction, _ minor: inout Instruction) {
        if samePath(major, minor) { discardOlder(&major, &minor) }
    }

    /// Discards the older of two instructions; at equal tags the second one.
    @inline(__always)
    func discardOlder(_ first: inout Instruction, _ second: inout Instruction) {
        if isOlder(first, than: second) { first.discard() } else { second.discard() }
    }
}

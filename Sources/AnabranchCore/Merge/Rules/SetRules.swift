// Merge rules between set instructions (`Spec/Transform.md`, section 7.4).

extension PairRules {
    /// R25. What one side puts into or takes out of a set is lost when the other side empties it.
    static func setChangeVersusClear(
        _ change: inout Instruction, _ clear: inout Instruction, in arena: ChangesetArena
    ) {
        if arena.samePath(change, clear) { change.discard() }
    }

    /// R26. Both sides insert the value: one of them is enough, and the newer one stays to meet an erasure in between.
    /// At equal tags the minor one is discarded.
    static func setInsertVersusSetInsert(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena
    ) {
        if arena.samePath(major, minor), arena.equalByValue(major, minor) {
            discardOlder(&major, &minor, in: arena)
        }
    }

    /// R27. One side erases what the other inserts: the newer one stays; at equal tags the erasure.
    static func setEraseVersusSetInsert(
        _ erase: inout Instruction, _ insert: inout Instruction, in arena: ChangesetArena
    ) {
        if arena.samePath(erase, insert), arena.equalByValue(erase, insert) {
            discardOlder(&erase, &insert, in: arena)
        }
    }

    /// R28. Both sides erase the value: the newer one stays; at equal tags the major one. "The value" is compared in
    /// the raw way of the reference, which does not look at the bytes of strings.
    static func setEraseVersusSetErase(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena
    ) {
        if arena.samePath(major, minor), arena.equalRaw(major, minor) {
            discardOlder(&major, &minor, in: arena)
        }
    }
}

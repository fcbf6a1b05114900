// Merge rules between set instructions (`Spec/Transform.md`, section 7.4).

extension ChangesetArena {
    /// R25. What one side puts into or takes out of a set is lost when the other side empties it.
    func setChangeVersusClear(_ change: inout Instruction, _ clear: inout Instruction) {
        if samePath(change, clear) { change.discard() }
    }

    /// R26. Both sides insert the value: one of them is enough, and the newer one stays to meet an erasure in between.
    /// At equal tags the minor one is discarded.
    func setInsertVersusSetInsert(_ major: inout Instruction, _ minor: inout Instruction) {
        if samePath(major, minor), equalByValue(major, minor) { discardOlder(&major, &minor) }
    }

    /// R27. One side erases what the other inserts: the newer one stays; at equal tags the erasure.
    func setEraseVersusSetInsert(_ erase: inout Instruction, _ insert: inout Instruction) {
        if samePath(erase, insert), equalByValue(erase, insert) { discardOlder(&erase, &insert) }
    }

    /// R28. Both sides erase the value: the newer one stays; at equal tags the major one. "The value" is compared in
    /// the raw way of the reference, which does not look at the bytes of strings.
    func setEraseVersusSetErase(_ major: inout Instruction, _ minor: inout Instruction) {
        if samePath(major, minor), equalRaw(major, minor) { discardOlder(&major, &minor) }
    }
}

// Merge rules between object instructions (`Spec/Transform.md`, section 7.2).

extension PairRules {
    /// R4. An object that one side erases is not created by the other.
    static func eraseObjectVersusCreateObject(_ erase: inout Instruction, _ create: inout Instruction) {
        if erase.object == create.object { create.discard() }
    }

    /// R5. Both sides erase the object: the newer erasure stays, so that it outlives a re-creation by the older side.
    /// At equal tags the major one is discarded.
    static func eraseObjectVersusEraseObject(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena
    ) {
        guard major.object == minor.object else { return }
        if arena.isOlder(minor, than: major) { minor.discard() } else { major.discard() }
    }
}

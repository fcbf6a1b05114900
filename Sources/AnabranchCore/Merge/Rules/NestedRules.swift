// Nested rules: what an outer (shorter) instruction does to an inner one (`Spec/Transform.md`, section 6). Tags play no
// part in any of them.

extension PairRules {
    /// N1. Whatever happens in an erased class is lost.
    static func eraseTable(_ outer: Instruction, outside inner: inout Instruction) {
        if outer.className == inner.className { inner.discard() }
    }

    /// N2. Whatever happens in an erased object is lost.
    static func eraseObject(_ outer: Instruction, outside inner: inout Instruction) {
        if outer.object == inner.object { inner.discard() }
    }

    static func update(_ outer: Instruction, outside inner: inout Instruction, in arena: ChangesetArena) {
        guard outer.type != .objectValue, arena.isPrefix(outer, of: inner) else { return }
        let next = arena.element(outer.pathCount, of: inner)
        if replacesContents(outer, reachedAs: next.isIndex ? .list : .dictionary) { inner.discard() }
    }

    /// N3. A new value replaces the old one, with the changes made inside it. An embedded object, and a collection of
    /// the kind that the inner path goes through, are there for both sides.
    @inline(__always)
    static func replacesContents(_ update: some ValueEdit, reachedAs inside: ValueKind) -> Bool {
        update.valueKind != .object && update.valueKind != inside
    }

    /// N4 and N8. A number has nothing inside, and a cleared collection has nothing left inside.
    static func addIntegerOrClear(
        _ outer: Instruction, outside inner: inout Instruction, in arena: ChangesetArena
    ) {
        if arena.isPrefix(outer, of: inner) { inner.discard() }
    }

    /// N5. What happens inside an element follows the element past an insertion.
    static func arrayInsert(
        _ outer: Instruction, outside inner: inout Instruction, in arena: inout ChangesetArena
    ) throws(TransformError) {
        guard arena.isContainerPrefix(outer, of: inner) else { return }
        let index = try correspondingIndex(outer, inner, in: arena)
        let moved = ListArithmetic.indexAfterInsert(index, at: outer.index)
        if moved != index { setCorrespondingIndex(outer, inner, moved, in: &arena) }
    }

    /// N6. As the reference does it: the outer move is adjusted as if the inner instruction had moved an element.
    static func arrayMove(
        _ outer: inout Instruction, outside inner: Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.isContainerPrefix(outer, of: inner) else { return }
        let index = try correspondingIndex(outer, inner, in: arena)
        outer.setIndex(ListArithmetic.indexAfterMove(outer.index, from: index, to: outer.destination))
    }

    /// N7. What happens inside an erased element is lost; what happens inside a later element follows that element.
    static func arrayErase(
        _ outer: Instruction, outside inner: inout Instruction, in arena: inout ChangesetArena
    ) throws(TransformError) {
        guard arena.isContainerPrefix(outer, of: inner) else { return }
        let index = try correspondingIndex(outer, inner, in: arena)
        guard let moved = ListArithmetic.indexAfterErase(index, of: outer.index) else { return inner.discard() }
        if moved != index { setCorrespondingIndex(outer, inner, moved, in: &arena) }
    }

    /// The index by which the inner path goes through the list that the outer instruction changes.
    private static func correspondingIndex(
        _ outer: Instruction, _ inner: Instruction, in arena: ChangesetArena
    ) throws(TransformError) -> UInt32 {
        let element = arena.element(outer.pathCount - 1, of: inner)
        guard element.isIndex else {
            throw TransformError(.inconsistentPaths, "a path goes through a list by a name")
        }
        return element.index
    }

    /// It stands before the last element of the inner path, hence among the arena's elements.
    private static func setCorrespondingIndex(
        _ outer: Instruction, _ inner: Instruction, _ index: UInt32, in arena: inout ChangesetArena
    ) {
        arena.elements[Int(inner.pathStart) + Int(outer.pathCount) - 1].index = index
        arena[inner.owner].isDirty = true
    }
}

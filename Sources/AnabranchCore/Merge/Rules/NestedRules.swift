// Nested rules: what an outer (shorter) instruction does to an inner one (`Spec/Transform.md`, section 6). Tags play no
// part in any of them.

extension ChangesetArena {
    /// N1. Whatever happens in an erased class is lost.
    func eraseTable(_ outer: Instruction, outside inner: inout Instruction) {
        if outer.className == inner.className { inner.discard() }
    }

    /// N2. Whatever happens in an erased object is lost.
    func eraseObject(_ outer: Instruction, outside inner: inout Instruction) {
        if outer.object == inner.object { inner.discard() }
    }

    /// N3. A new value takes the place of what was changed inside the old one. An embedded object, and a collection of
    /// the kind that the inner path goes through, are there for both sides.
    func update(_ outer: Instruction, outside inner: inout Instruction) {
        guard outer.type != .objectValue, isPrefix(outer, of: inner) else { return }
        let next = element(outer.pathCount, of: inner)
        if outer.type == .list && next.isIndex { return }
        if outer.type == .dictionary && !next.isIndex { return }
        inner.discard()
    }

    /// N4 and N8. A number has nothing inside, and a cleared collection has nothing left inside.
    func addIntegerOrClear(_ outer: Instruction, outside inner: inout Instruction) {
        if isPrefix(outer, of: inner) { inner.discard() }
    }

    /// N5. What happens inside an element follows the element past an insertion.
    mutating func arrayInsert(_ outer: Instruction, outside inner: inout Instruction) throws(TransformError) {
        guard isContainerPrefix(outer, of: inner) else { return }
        let index = try correspondingIndex(outer, inner)
        if index >= outer.index { setCorrespondingIndex(outer, &inner, index &+ 1) }
    }

    /// N6. As the reference does it: the outer move is adjusted as if the inner instruction had moved an element.
    func arrayMove(_ outer: inout Instruction, outside inner: Instruction) throws(TransformError) {
        guard isContainerPrefix(outer, of: inner) else { return }
        let index = try correspondingIndex(outer, inner)
        if outer.index == index {
            outer.index = outer.destination
        } else {
            if outer.index > index { outer.index &-= 1 }
            if outer.index >= outer.destination { outer.index &+= 1 }
        }
    }

    /// N7. What happens inside an erased element is lost; inside an element behind it, it follows the element.
    mutating func arrayErase(_ outer: Instruction, outside inner: inout Instruction) throws(TransformError) {
        if isPrefix(outer, of: inner) { return inner.discard() }
        guard isContainerPrefix(outer, of: inner) else { return }
        let index = try correspondingIndex(outer, inner)
        if outer.index < index { setCorrespondingIndex(outer, &inner, index &- 1) }
    }

    /// The index by which the inner path goes through the list that the outer instruction changes.
    private func correspondingIndex(_ outer: Instruction, _ inner: Instruction) throws(TransformError) -> UInt32 {
        let element = element(outer.pathCount - 1, of: inner)
        guard element.isIndex else {
            throw TransformError(.inconsistentPaths, "a path goes through a list by a name")
        }
        return element.index
    }

    /// It stands before the last element of the inner path, hence among the arena's elements.
    private mutating func setCorrespondingIndex(_ outer: Instruction, _ inner: inout Instruction, _ index: UInt32) {
        elements[Int(inner.pathStart) + Int(outer.pathCount) - 1].index = index
        headers[Int(inner.owner)].isDirty = true
    }
}

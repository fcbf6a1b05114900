// Merge rules between list instructions (`Spec/Transform.md`, section 7.5). All of them need the same container. Checks
// come first; the adjustments follow from top to bottom, each with what the one before has left. Numbers are unsigned
// and wrap at 32 bits, as malformed input makes the reference's do.

extension ChangesetArena {
    /// R13. An insertion moves the elements from its place on, and the update with its element.
    func arrayInsertVersusUpdate(_ insert: inout Instruction, _ update: inout Instruction) throws(TransformError) {
        guard sameContainer(insert, update) else { return }
        try checkIsArrayUpdate(update)
        try checkSameSize(insert, update)
        try checkInsertion(insert)
        try checkIndex(update)
        update.priorSize &+= 1
        if update.index >= insert.index { update.index &+= 1 }
    }

    /// R14. Two insertions: the one further right moves; at the same place the older element comes first, at equal tags
    /// the minor one.
    func arrayInsertVersusArrayInsert(
        _ major: inout Instruction, _ minor: inout Instruction
    ) throws(TransformError) {
        guard sameContainer(major, minor) else { return }
        try checkSameSize(major, minor)
        major.priorSize &+= 1
        minor.priorSize &+= 1
        let majorComesFirst =
            major.index < minor.index || (major.index == minor.index && isOlder(major, than: minor))
        if majorComesFirst { minor.index &+= 1 } else { major.index &+= 1 }
    }

    /// R15. An update follows its element to where a move took it.
    func arrayMoveVersusUpdate(_ move: inout Instruction, _ update: inout Instruction) throws(TransformError) {
        guard sameContainer(move, update) else { return }
        try checkIsArrayUpdate(update)
        try checkIndex(move)
        try checkIndex(update)
        if update.index == move.index {
            update.index = move.destination
        } else {
            if update.index > move.index { update.index &-= 1 }
            if update.index >= move.destination { update.index &+= 1 }
        }
    }

    /// R16. A move is an erasure and an insertion: first the insertion and the place left, then the insertion and the
    /// place taken. In a tie the newer element comes first, at equal tags the moved one; the opposite of R14.
    func arrayMoveVersusArrayInsert(_ move: inout Instruction, _ insert: inout Instruction) {
        guard sameContainer(move, insert) else { return }
        move.priorSize &+= 1
        if insert.index > move.index { insert.index &-= 1 } else { move.index &+= 1 }
        let destinationMoves =
            insert.index < move.destination || (insert.index == move.destination && isOlder(move, than: insert))
        if destinationMoves { move.destination &+= 1 } else { insert.index &+= 1 }
    }

    /// R17. Two moves of one element: the newer one wins and starts where the older one took the element. Two moves of
    /// different elements are two erasures and two insertions; in a tie of destinations the older element is the
    /// first, at equal tags the minor one. A move that has become none is discarded.
    func arrayMoveVersusArrayMove(_ major: inout Instruction, _ minor: inout Instruction) throws(TransformError) {
        guard sameContainer(major, minor) else { return }
        try checkSameSize(major, minor)
        try checkIndex(major)
        try checkIndex(minor)
        try checkDestination(major)
        try checkDestination(minor)
        if major.index == minor.index {
            if isOlder(major, than: minor) {
                retarget(&minor, to: major.destination)
                major.discard()
            } else {
                retarget(&major, to: minor.destination)
                minor.discard()
            }
            return
        }
        if major.index < minor.index { minor.index &-= 1 } else { major.index &-= 1 }
        if major.destination > minor.index { major.destination &-= 1 } else { minor.index &+= 1 }
        if major.index < minor.destination { minor.destination &-= 1 } else { major.index &+= 1 }
        let majorComesFirst =
            major.destination < minor.destination
            || (major.destination == minor.destination && isOlder(major, than: minor))
        if majorComesFirst { minor.destination &+= 1 } else { major.destination &+= 1 }
        if major.index == major.destination { major.discard() }
        if minor.index == minor.destination { minor.discard() }
    }

    /// R18. An update of an erased element is lost, whatever the tags.
    func arrayEraseVersusUpdate(_ erase: inout Instruction, _ update: inout Instruction) throws(TransformError) {
        guard sameContainer(erase, update) else { return }
        try checkIsArrayUpdate(update)
        try checkSameSize(erase, update)
        try checkIndex(erase)
        try checkIndex(update)
        update.priorSize &-= 1
        if update.index == erase.index {
            update.discard()
        } else if update.index > erase.index {
            update.index &-= 1
        }
    }

    /// R19. An erasure and an insertion: the one further right moves; at the same place the insertion comes first.
    func arrayEraseVersusArrayInsert(_ erase: inout Instruction, _ insert: inout Instruction) throws(TransformError) {
        guard sameContainer(erase, insert) else { return }
        try checkSameSize(erase, insert)
        try checkIndex(erase)
        try checkInsertion(insert)
        erase.priorSize &+= 1
        insert.priorSize &-= 1
        if insert.index <= erase.index { erase.index &+= 1 } else { insert.index &-= 1 }
    }

    /// R20. A moved element that the other side erases is erased where it went. Only the move's prior size changes.
    func arrayEraseVersusArrayMove(_ erase: inout Instruction, _ move: inout Instruction) throws(TransformError) {
        guard sameContainer(erase, move) else { return }
        try checkSameSize(erase, move)
        try checkIndex(erase)
        try checkIndex(move)
        move.priorSize &-= 1
        if erase.index == move.index {
            erase.index = move.destination
            return move.discard()
        }
        if erase.index > move.index { erase.index &-= 1 } else { move.index &-= 1 }
        if erase.index >= move.destination { erase.index &+= 1 } else { move.destination &-= 1 }
        if move.index == move.destination { move.discard() }
    }

    /// R21. Both sides erase the element: it is gone already. Otherwise the erasure further right moves.
    func arrayEraseVersusArrayErase(_ major: inout Instruction, _ minor: inout Instruction) throws(TransformError) {
        guard sameContainer(major, minor) else { return }
        try checkSameSize(major, minor)
        try checkIndex(major)
        try checkIndex(minor)
        major.priorSize &-= 1
        minor.priorSize &-= 1
        if major.index == minor.index {
            major.discard()
            minor.discard()
        } else if major.index > minor.index {
            major.index &-= 1
        } else {
            minor.index &-= 1
        }
    }

    private func retarget(_ move: inout Instruction, to index: UInt32) {
        move.index = index
        if move.index == move.destination { move.discard() }
    }

    // MARK: Checks

    @inline(__always)
    private func checkSameSize(_ first: Instruction, _ second: Instruction) throws(TransformError) {
        if first.priorSize != second.priorSize { throw sizesDiffer(first, second) }
    }

    @inline(__always)
    private func checkIndex(_ instruction: Instruction) throws(TransformError) {
        if instruction.index >= instruction.priorSize { throw outOfRange(instruction, instruction.index) }
    }

    @inline(__always)
    private func checkInsertion(_ insert: Instruction) throws(TransformError) {
        if insert.index > insert.priorSize { throw outOfRange(insert, insert.index) }
    }

    @inline(__always)
    private func checkDestination(_ move: Instruction) throws(TransformError) {
        if move.destination >= move.priorSize { throw outOfRange(move, move.destination) }
    }

    private func checkIsArrayUpdate(_ update: Instruction) throws(TransformError) {
        guard update.isIndexed else {
            throw TransformError(.inconsistentPaths, "a list and a dictionary are addressed at the same place")
        }
    }

    func sizesDiffer(_ first: Instruction, _ second: Instruction) -> TransformError {
        TransformError(
            .sizesDiffer,
            "\(first.kind) and \(second.kind) on lists of \(first.priorSize) and \(second.priorSize) elements")
    }

    private func outOfRange(_ instruction: Instruction, _ index: UInt32) -> TransformError {
        TransformError(.indexOutOfRange, "\(instruction.kind) at \(index) of \(instruction.priorSize) elements")
    }
}

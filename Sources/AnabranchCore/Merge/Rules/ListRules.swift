// Merge rules between list instructions (`Spec/Transform.md`, section 7.5): which pairs meet, and what is an error. All
// of them need the same container. Checks come first; the effect of a pair is in `ListArithmetic.swift`.

extension PairRules {
    static func arrayInsertVersusUpdate(
        _ insert: inout Instruction, _ update: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.sameContainer(insert, update) else { return }
        try checkIsArrayUpdate(update)
        try checkSameSize(insert, update)
        try checkInsertion(insert)
        try checkIndex(update)
        ListArithmetic.insertUpdate(insert, &update)
    }

    static func arrayInsertVersusArrayInsert(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.sameContainer(major, minor) else { return }
        try checkSameSize(major, minor)
        let (one, other) = (major.owner, minor.owner)
        ListArithmetic.insertInsert(&major, &minor, tags: arena.tagOrder(one, other))
    }

    static func arrayMoveVersusUpdate(
        _ move: inout Instruction, _ update: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.sameContainer(move, update) else { return }
        try checkIsArrayUpdate(update)
        try checkIndex(move)
        try checkIndex(update)
        ListArithmetic.moveUpdate(move, &update)
    }

    static func arrayMoveVersusArrayInsert(
        _ move: inout Instruction, _ insert: inout Instruction, in arena: ChangesetArena
    ) {
        guard arena.sameContainer(move, insert) else { return }
        let (one, other) = (move.owner, insert.owner)
        ListArithmetic.moveInsert(&move, &insert, tags: arena.tagOrder(one, other))
    }

    static func arrayMoveVersusArrayMove(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.sameContainer(major, minor) else { return }
        try checkSameSize(major, minor)
        try checkIndex(major)
        try checkIndex(minor)
        try checkDestination(major)
        try checkDestination(minor)
        let (one, other) = (major.owner, minor.owner)
        ListArithmetic.moveMove(&major, &minor, tags: arena.tagOrder(one, other))
    }

    static func arrayEraseVersusUpdate(
        _ erase: inout Instruction, _ update: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.sameContainer(erase, update) else { return }
        try checkIsArrayUpdate(update)
        try checkSameSize(erase, update)
        try checkIndex(erase)
        try checkIndex(update)
        ListArithmetic.eraseUpdate(erase, &update)
    }

    static func arrayEraseVersusArrayInsert(
        _ erase: inout Instruction, _ insert: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.sameContainer(erase, insert) else { return }
        try checkSameSize(erase, insert)
        try checkIndex(erase)
        try checkInsertion(insert)
        ListArithmetic.eraseInsert(&erase, &insert)
    }

    static func arrayEraseVersusArrayMove(
        _ erase: inout Instruction, _ move: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.sameContainer(erase, move) else { return }
        try checkSameSize(erase, move)
        try checkIndex(erase)
        try checkIndex(move)
        ListArithmetic.eraseMove(&erase, &move)
    }

    static func arrayEraseVersusArrayErase(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard arena.sameContainer(major, minor) else { return }
        try checkSameSize(major, minor)
        try checkIndex(major)
        try checkIndex(minor)
        ListArithmetic.eraseErase(&major, &minor)
    }

    // MARK: Checks

    @inline(__always)
    private static func checkSameSize(_ first: Instruction, _ second: Instruction) throws(TransformError) {
        if first.priorSize != second.priorSize { throw sizesDiffer(first, second) }
    }

    @inline(__always)
    private static func checkIndex(_ instruction: Instruction) throws(TransformError) {
        if instruction.index >= instruction.priorSize { throw outOfRange(instruction, instruction.index) }
    }

    @inline(__always)
    private static func checkInsertion(_ insert: Instruction) throws(TransformError) {
        if insert.index > insert.priorSize { throw outOfRange(insert, insert.index) }
    }

    @inline(__always)
    private static func checkDestination(_ move: Instruction) throws(TransformError) {
        if move.destination >= move.priorSize { throw outOfRange(move, move.destination) }
    }

    private static func checkIsArrayUpdate(_ update: Instruction) throws(TransformError) {
        guard update.isIndexed else {
            throw TransformError(.inconsistentPaths, "a list and a dictionary are addressed at the same place")
        }
    }

    static func sizesDiffer(_ first: Instruction, _ second: Instruction) -> TransformError {
        TransformError(
            .sizesDiffer,
            "\(first.kind) and \(second.kind) on lists of \(first.priorSize) and \(second.priorSize) elements")
    }

    private static func outOfRange(_ instruction: Instruction, _ index: UInt32) -> TransformError {
        TransformError(.indexOutOfRange, "\(instruction.kind) at \(index) of \(instruction.priorSize) elements")
    }
}

extension Instruction: ListEdit {
    /// The index of a list instruction.
    @inline(__always) var index: UInt32 { last.index }
    @inline(__always) var count: UInt32 { 1 }

    @inline(__always) mutating func setIndex(_ index: UInt32) { last.index = index }
    @inline(__always) mutating func setDestination(_ index: UInt32) { destination = index }
    @inline(__always) mutating func listGrew() { priorSize &+= 1 }
    @inline(__always) mutating func listShrank() { priorSize &-= 1 }
    @inline(__always) mutating func discard() { flags.insert(.discarded) }
}

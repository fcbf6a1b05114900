/// The grid of all pairs of two runs that fit each other (`Spec/Transform.md`, section 13.5).
///
/// This type only says which rule applies to two operations; the rules themselves are in `Rules/`. No check can fail,
/// and prior sizes follow from what is discarded.
struct ListGrid: BitwiseCopyable {
    private let runs: ListRuns
    private var nextRow = 0
    /// The faster way, if both sides only insert and erase.
    private var shifts: ShiftGrid?
    /// The state of the memory before the grid.
    let mark: ScratchMemory.Mark

    init(_ runs: ListRuns, _ memory: inout ScratchMemory) {
        self.runs = runs
        mark = memory.mark
        if runs.major.allSatisfy(\.isShift), runs.minor.allSatisfy(\.isShift) {
            shifts = ShiftGrid(columns: runs.minor, &memory)
        }
    }

    /// Merges the rows that are left, or as many as the step allows.
    ///
    /// - Returns: Whether all are merged.
    mutating func advance(_ budget: inout PairBudget) -> Bool {
        while nextRow < runs.major.count {
            if budget.isStepOver { return false }
            budget.countTime(runs.minor.count)
            mergeRow()
        }
        shifts?.finish()
        return true
    }

    /// Merges all rows.
    mutating func mergeAll() {
        while nextRow < runs.major.count { mergeRow() }
        shifts?.finish()
    }

    @inline(__always)
    private mutating func mergeRow() {
        var row = runs.major[nextRow]
        if !row.discarded {
            if shifts != nil { shifts?.merge(&row) } else { Self.merge(&row, with: runs.minor) }
            runs.major[nextRow] = row
        }
        nextRow += 1
    }

    private static func merge(_ row: inout ListOperation, with columns: ScratchBuffer<ListOperation>) {
        for column in columns.indices where !columns[column].discarded {
            merge(&row, &columns[column])
            if row.discarded { return }
        }
    }

    /// The rule for two operations; the first is the major one.
    @inline(__always)
    static func merge(_ major: inout ListOperation, _ minor: inout ListOperation) {
        let tags = TagOrder(major.tag, minor.tag)
        switch (major.kind, minor.kind) {
        case (.insert, .insert): ListArithmetic.insertInsert(&major, &minor, tags: tags)
        case (.insert, .erase): ListArithmetic.eraseInsert(&minor, &major)
        case (.insert, .update): ListArithmetic.insertUpdate(major, &minor)
        case (.insert, .move): ListArithmetic.moveInsert(&minor, &major, tags: tags.reversed)
        case (.insert, .nested): insertNested(major, &minor)
        case (.erase, .insert): ListArithmetic.eraseInsert(&major, &minor)
        case (.erase, .erase): ListArithmetic.eraseErase(&major, &minor)
        case (.erase, .update): ListArithmetic.eraseUpdate(major, &minor)
        case (.erase, .move): ListArithmetic.eraseMove(&major, &minor)
        case (.erase, .nested): eraseNested(major, &minor)
        case (.update, .insert): ListArithmetic.insertUpdate(minor, &major)
        case (.update, .erase): ListArithmetic.eraseUpdate(minor, &major)
        case (.update, .update): if major.index == minor.index { updateUpdate(&major, &minor) }
        case (.update, .move): ListArithmetic.moveUpdate(minor, &major)
        case (.update, .nested): if major.index == minor.index { updateNested(major, &minor) }
        case (.move, .insert): ListArithmetic.moveInsert(&major, &minor, tags: tags)
        case (.move, .erase): ListArithmetic.eraseMove(&minor, &major)
        case (.move, .update): ListArithmetic.moveUpdate(major, &minor)
        case (.move, .move): ListArithmetic.moveMove(&major, &minor, tags: tags)
        case (.move, .nested): moveNested(&major, minor)
        case (.nested, .insert): insertNested(minor, &major)
        case (.nested, .erase): eraseNested(minor, &major)
        case (.nested, .update): if major.index == minor.index { updateNested(minor, &major) }
        case (.nested, .move): moveNested(&minor, major)
        case (.nested, .nested): break
        }
    }

    /// R6 for array Updates of one element.
    @inline(__always)
    static func updateUpdate(_ major: inout ListOperation, _ minor: inout ListOperation) {
        let tags = TagOrder(major.tag, minor.tag)
        PairRules.resolve(&major, &minor, tags: tags)
    }

    /// N3 for what is inside an element.
    @inline(__always)
    static func updateNested(_ update: ListOperation, _ nested: inout ListOperation) {
        if PairRules.replacesContents(update, reachedAs: nested.value) { nested.discard() }
    }

    /// N5.
    @inline(__always)
    private static func insertNested(_ insert: ListOperation, _ nested: inout ListOperation) {
        nested.setIndex(ListArithmetic.indexAfterInsert(nested.index, at: insert.index))
    }

    /// N6.
    @inline(__always)
    private static func moveNested(_ move: inout ListOperation, _ nested: ListOperation) {
        move.setIndex(ListArithmetic.indexAfterMove(move.index, from: nested.index, to: move.to))
    }

    /// N7.
    @inline(__always)
    private static func eraseNested(_ erase: ListOperation, _ nested: inout ListOperation) {
        if let index = ListArithmetic.indexAfterErase(nested.index, of: erase.index) {
            nested.setIndex(index)
        } else {
            nested.discard()
        }
    }
}

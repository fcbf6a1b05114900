/// One pair of the grid: what happens around the rule that applies to it.
enum Cell {
    /// Merges a row with a column, both live.
    static func merge(
        _ row: InstructionIndex, with column: InstructionIndex, _ budget: inout PairBudget,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        budget.count()
        var (major, minor) = (arena[row], arena[column])
        try PairRules.merge(&major, &minor, in: &arena)
        if major.isDiscarded || !major.isUnchanged(from: arena[row]) { arena.store(major, at: row) }
        if minor.isDiscarded || !minor.isUnchanged(from: arena[column]) { arena.store(minor, at: column) }
    }

    /// Merges a row, held by the caller, with one live column.
    @inline(__always)
    static func merge(
        _ major: inout Instruction, with column: InstructionIndex, _ budget: inout PairBudget,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        let majorBefore = major
        let minorBefore = arena[column]
        budget.count(major.comparisons(with: minorBefore))
        var minor = minorBefore
        try PairRules.merge(&major, &minor, in: &arena)
        if minor.isDiscarded || !minor.isUnchanged(from: minorBefore) { arena.store(minor, at: column) }
        if !major.isUnchanged(from: majorBefore) { arena[major.owner].isDirty = true }
    }
}

extension Instruction {
    /// The number of pairs that a pair counts for: comparing long paths takes longer, and so does comparing values of
    /// sets.
    @inline(__always)
    fileprivate func comparisons(with other: Instruction) -> Int {
        var count = 1 &+ Int(min(pathCount, other.pathCount) >> 4)
        if kind.isSetChange, other.kind.isSetChange, type == .string || type == .binary, type == other.type {
            count &+= min(bytesCount, other.bytesCount) >> 6
        }
        return count
    }

    /// Both are live and a merge has changed neither of them, as far as it stands in the instruction itself.
    @inline(__always)
    func isUnchanged(from before: Instruction) -> Bool {
        last == before.last && priorSize == before.priorSize && destination == before.destination
            && word0 == before.word0
    }
}

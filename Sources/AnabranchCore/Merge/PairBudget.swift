/// The number of pairs of instructions that a merge may still visit: in the current step, and in all steps to come.
struct PairBudget: Sendable {
    /// The pairs of the current step, which is over when none is left.
    private var step = 0
    /// The pairs of all later steps. Negative where work was paid for that is still to be done.
    private var later: Int

    init(pairs: Int) { later = pairs }

    var isStepOver: Bool {
        @inline(__always) get { step <= 0 }
    }

    /// True if more was visited than allowed: the merge is refused.
    var isOverdrawn: Bool {
        @inline(__always) get { step &+ later < 0 }
    }

    /// The pairs that may still be visited in all steps together.
    var left: Int { step &+ later }

    /// A step visits one pair at least, so that each of them advances the merge.
    mutating func beginStep(pairs: Int) { divide(left, step: max(1, min(pairs, left))) }

    /// Counts pairs that are visited, or work that could grow faster than the instructions.
    @inline(__always)
    mutating func count(_ pairs: Int = 1) { step &-= pairs }

    /// Counts looks at single instructions, which may be many where they are looked at again and again.
    @inline(__always)
    mutating func countLooks(_ looks: Int) { count(looks / Self.looksPerPair) }

    private static let looksPerPair = 4

    /// Pays for pairs before they are visited; `countTime` is for when they are.
    ///
    /// - Returns: Whether they may be visited.
    mutating func reserve(_ pairs: Int) -> Bool {
        let rest = left &- pairs
        divide(rest, step: min(step, rest))
        return rest >= 0
    }

    /// Counts what takes time in this step and is paid for, or grows with the instructions only.
    @inline(__always)
    mutating func countTime(_ pairs: Int) {
        step &-= pairs
        later &+= pairs
    }

    private mutating func divide(_ left: Int, step: Int) {
        self.step = step
        later = left &- step
    }
}

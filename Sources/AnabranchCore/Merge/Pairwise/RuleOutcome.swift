/// The effect that a rule had on a pair of instructions when they met (`Spec/Explain.md`, section 2).
///
/// Its instructions are copies, to be read with the arena of the merge: what later pairs do to the instructions does
/// not change them.
package struct RuleOutcome: Sendable {
    /// One of the two instructions.
    package struct Side: Sendable {
        package let changeset: ChangesetIndex
        /// The number of the instruction in its changeset as it was decoded, from 0; nil if a merge has added it.
        package let position: Int?
        package let before: Instruction
        /// Nil if the rule has discarded it.
        package let after: Instruction?
        /// True if the rule has changed or discarded it.
        package let isAffected: Bool
    }

    package let rule: MergeRule
    package let major: Side
    package let minor: Side
}

/// A pair before a rule is applied to it, to find out what the rule does.
struct MeetingPair {
    private let (row, column): (InstructionIndex, InstructionIndex)
    private let (major, minor): (Instruction, Instruction)
    /// The element of the inner path that N5 and N7 can change: it stands in the arena, not in the instruction.
    private let element: (position: Int, before: PathElement)?

    init(_ major: Instruction, at row: InstructionIndex, _ column: InstructionIndex, in arena: ChangesetArena) {
        (self.row, self.column) = (row, column)
        (self.major, minor) = (major, arena[column])
        let (outer, inner) = major.length < minor.length ? (major, minor) : (minor, major)
        element =
            if outer.pathCount > 0, inner.pathCount > outer.pathCount {
                (Int(outer.pathCount) - 1, arena.element(outer.pathCount - 1, of: inner))
            } else {
                nil
            }
    }

    private var isMajorInner: Bool { major.length > minor.length }

    /// The outcome, after the rule; nil if there was no effect.
    func outcome(_ majorAfter: Instruction, in arena: inout ChangesetArena) -> RuleOutcome? {
        let minorAfter = arena[column]
        var isMoved = false
        if let element {
            let start = Int((isMajorInner ? major : minor).pathStart)
            isMoved = arena.elements[start + element.position] != element.before
        }
        let isMajorAffected =
            majorAfter.isDiscarded || !majorAfter.isUnchanged(from: major) || isMoved && isMajorInner
        let isMinorAffected =
            minorAfter.isDiscarded || !minorAfter.isUnchanged(from: minor) || isMoved && !isMajorInner
        guard isMajorAffected || isMinorAffected, let rule = MergeRule(major, minor) else {
            invariant(!isMajorAffected && !isMinorAffected, "a pair without a rule was changed")
            return nil
        }
        return RuleOutcome(
            rule: rule, major: side(row, major, majorAfter, isMajorAffected, isInner: isMajorInner, in: &arena),
            minor: side(column, minor, minorAfter, isMinorAffected, isInner: !isMajorInner, in: &arena))
    }

    private func side(
        _ index: InstructionIndex, _ before: Instruction, _ after: Instruction, _ isAffected: Bool, isInner: Bool,
        in arena: inout ChangesetArena
    ) -> RuleOutcome.Side {
        let copy = arena.copy(of: before)
        if isInner, let element { arena.elements[Int(copy.pathStart) + element.position] = element.before }
        let own = arena[before.owner].instructions
        return RuleOutcome.Side(
            changeset: before.owner, position: own.contains(index) ? own.lowerBound.distance(to: index) : nil,
            before: copy, after: after.isDiscarded ? nil : arena.copy(of: after), isAffected: isAffected)
    }

    /// The outcome of R8: the column of one of the two is lost.
    func outcomeOfErasedLink(isOfMajor: Bool, in arena: inout ChangesetArena) -> RuleOutcome {
        var (majorAfter, minorAfter) = (major, minor)
        if isOfMajor { majorAfter.discard() } else { minorAfter.discard() }
        return RuleOutcome(
            rule: .R8, major: side(row, major, majorAfter, isOfMajor, isInner: false, in: &arena),
            minor: side(column, minor, minorAfter, !isOfMajor, isInner: false, in: &arena))
    }
}

extension ChangesetArena {
    /// A copy with a path of its own, which no rule changes.
    package mutating func copy(of instruction: Instruction) -> Instruction {
        guard instruction.pathCount > 1 else { return instruction }
        var copy = instruction
        copy.pathStart = UInt32(truncatingIfNeeded: elements.count)
        let start = Int(instruction.pathStart)
        elements += Array(elements[start..<start + Int(instruction.pathCount) - 1])
        return copy
    }
}

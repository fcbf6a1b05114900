// The two sides of a merge as instructions in the order of the grid (`Spec/Transform.md`, section 2).

extension ChangesetArena {
    /// The minor side is in the order of versions, and of arrival where they are equal.
    func inVersionOrder(_ changesets: [ChangesetIndex]) -> [ChangesetIndex] {
        let isSorted = zip(changesets, changesets.dropFirst()).allSatisfy { self[$0].version <= self[$1].version }
        guard !isSorted else { return changesets }
        return changesets.enumerated().sorted {
            (self[$0.element].version, $0.offset) < (self[$1.element].version, $1.offset)
        }.map(\.element)
    }

    /// The live instructions of changesets, one changeset after the other.
    func liveInstructions(of changesets: [ChangesetIndex]) -> [InstructionIndex] {
        var result: [InstructionIndex] = []
        result.reserveCapacity(changesets.reduce(0) { $0 + self[$1].liveCount })
        // Changesets that were decoded one after another and are whole stand together.
        var whole = InstructionIndex(0)..<InstructionIndex(0)
        for changeset in changesets {
            let header = self[changeset]
            let own = header.instructions
            let isWhole = header.liveCount == own.count && (additions.isEmpty || additions[changeset] == nil)
            if isWhole, own.lowerBound == whole.upperBound {
                whole = whole.lowerBound..<own.upperBound
                continue
            }
            result += whole
            whole = isWhole ? own : InstructionIndex(0)..<InstructionIndex(0)
            if !isWhole { result += instructionIndices(of: changeset) }
        }
        result += whole
        return result
    }
}

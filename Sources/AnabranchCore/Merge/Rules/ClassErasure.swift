// R8. An AddColumn of links to a class that the other side erases: the side that erases the class erases the column
// first, and the AddColumn is lost (`Spec/Transform.md`, sections 2.1 and 7.1). The only rule that adds an instruction,
// so the grid asks for it before the others.

extension Instruction {
    /// True for an AddColumn of links to the class that the other instruction erases, but not for a column of that
    /// class: N1 discards it.
    @inline(__always)
    func addsLink(toErased other: Instruction) -> Bool {
        kind == .addColumn && other.kind == .eraseTable && type == .link && target == other.className
            && className != other.className
    }
}

extension ChangesetArena {
    /// Adds to the changeset of an EraseTable the erasure of a column, directly before it.
    mutating func prependEraseColumn(of column: Instruction, before index: InstructionIndex) -> InstructionIndex {
        let owner = self[index].owner
        var erase = Instruction(kind: .eraseColumn, owner: owner, className: column.className)
        erase.field = column.field
        var added = additions.removeValue(forKey: owner) ?? Additions(to: strings[self[owner].strings])
        for name in [column.className, column.field] where added.known.insert(name).inserted {
            added.strings.append(name)
        }
        additions[owner] = added
        return insert(erase, before: index)
    }

    /// True if the rule can apply at all: one side links to a class that the other erases.
    func linksToErasedClass(_ rows: [InstructionIndex], _ columns: [InstructionIndex]) -> Bool {
        links(rows, toClassErasedBy: columns) || links(columns, toClassErasedBy: rows)
    }

    private func links(_ linking: [InstructionIndex], toClassErasedBy erasing: [InstructionIndex]) -> Bool {
        let erased = Set(erasing.lazy.map { self[$0] }.filter { $0.kind == .eraseTable }.map(\.className))
        return !erased.isEmpty
            && linking.contains {
                let instruction = self[$0]
                return instruction.kind == .addColumn && instruction.type == .link
                    && erased.contains(instruction.target)
            }
    }
}

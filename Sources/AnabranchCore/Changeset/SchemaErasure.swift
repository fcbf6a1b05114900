// Finds out whether a changeset erases classes or columns, and whether it does so in a way that no client survives
// (`Spec/History.md`, section 16.2).

extension ChangesetArena {
    /// The first live instruction of a changeset that erases a class or a column, in words; nil if there is none.
    package func firstErasure(in changeset: ChangesetIndex) -> String? {
        guard holdsErasure else { return nil }
        return instructions(of: changeset).first { $0.kind == .eraseTable || $0.kind == .eraseColumn }
            .map { excerpt(of: $0) }
    }

    /// The first live instruction of a changeset that uses a class which the same changeset has erased and added
    /// again, in words; nil if there is none.
    ///
    /// While clients apply a changeset they cache the class that they looked up last; here they would use the erased
    /// one, and crash.
    package func firstUseOfReplacedClass(in changeset: ChangesetIndex) -> String? {
        guard holdsErasure else { return nil }
        var erased: Set<NameID> = []
        for instruction in instructions(of: changeset) {
            switch instruction.kind {
            case .eraseTable: erased.insert(instruction.className)
            case .addTable: break
            default: if erased.contains(instruction.className) { return excerpt(of: instruction) }
            }
        }
        return nil
    }

    /// An instruction in words, cut to a length into which the names of any class and column of a state fit.
    private func excerpt(of instruction: Instruction) -> String {
        String(excerptOf: text(of: instruction).utf8, upTo: 4 * String.excerptBytesMax)
    }
}

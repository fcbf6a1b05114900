// Merge rules between schema instructions (`Spec/Transform.md`, section 7.1). In each rule for two instructions of one
// kind the first is the major one. Rule R8 is in `Transformer.swift`, because it adds an instruction.

extension ChangesetArena {
    /// R1. Both sides declare the class: neither needs to hear of it, unless they disagree on what it is.
    func addTableVersusAddTable(_ major: inout Instruction, _ minor: inout Instruction) throws(TransformError) {
        guard major.className == minor.className else { return }
        let isEmbedded = major.tableType == .embedded
        guard isEmbedded == (minor.tableType == .embedded) else {
            throw incompatible(major, "is embedded on one side only")
        }
        if !isEmbedded {
            guard major.field == minor.field else { throw incompatible(major, "has two primary keys") }
            guard major.type == minor.type else { throw incompatible(major, "has a primary key of two types") }
            guard major.isNullable == minor.isNullable else {
                throw incompatible(major, "has a primary key that is nullable on one side only")
            }
            guard major.tableType == minor.tableType else {
                throw incompatible(major, "is asymmetric on one side only")
            }
        }
        major.discard()
        minor.discard()
    }

    /// R2. A class that one side erases is not declared by the other.
    func eraseTableVersusAddTable(_ erase: inout Instruction, _ add: inout Instruction) {
        if erase.className == add.className { add.discard() }
    }

    /// R3. Both sides erase the class: it is gone already.
    func eraseTableVersusEraseTable(_ major: inout Instruction, _ minor: inout Instruction) {
        guard major.className == minor.className else { return }
        major.discard()
        minor.discard()
    }

    /// R9. Both sides declare the column: neither needs to hear of it, unless they disagree on what it is.
    func addColumnVersusAddColumn(_ major: inout Instruction, _ minor: inout Instruction) throws(TransformError) {
        guard major.sameColumn(as: minor) else { return }
        guard major.type == minor.type else { throw incompatible(major, "has a column of two types") }
        guard major.isNullable == minor.isNullable else {
            throw incompatible(major, "has a column that is nullable on one side only")
        }
        guard major.collection == minor.collection else {
            throw incompatible(major, "has a column of two collection types")
        }
        guard major.type != .link || major.target == minor.target else {
            throw incompatible(major, "has a column that links to two classes")
        }
        major.discard()
        minor.discard()
    }

    /// R10 and R11. What is added to or written into an erased column is lost.
    func eraseColumnVersusColumnUse(_ erase: inout Instruction, _ use: inout Instruction) {
        if erase.sameColumn(as: use) { use.discard() }
    }

    /// R12. Both sides erase the column: it is gone already.
    func eraseColumnVersusEraseColumn(_ major: inout Instruction, _ minor: inout Instruction) {
        guard major.sameColumn(as: minor) else { return }
        major.discard()
        minor.discard()
    }

    private func incompatible(_ instruction: Instruction, _ what: String) -> TransformError {
        let name = quotation(of: instruction.className)
        let place = instruction.kind == .addColumn ? "\(name).\(quotation(of: instruction.field))" : name
        return TransformError(.incompatibleSchema, "\(instruction.kind): \(place) \(what)")
    }

    /// A peer's name in words of ours: not all of it, since it can be megabytes.
    private func quotation(of name: NameID) -> String {
        let bytes = bytes(of: name)
        return String(decoding: bytes.prefix(64), as: UTF8.self) + (bytes.count > 64 ? "…" : "")
    }
}

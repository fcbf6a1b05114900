// Merge rules between schema instructions (`Spec/Transform.md`, section 7.1). In each rule for two instructions of one
// kind the first is the major one. Rule R8 is in `ClassErasure.swift`, because it adds an instruction.

extension PairRules {
    /// R1. Both sides declare the class: neither needs the other's declaration, unless they contradict each other.
    static func addTableVersusAddTable(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard major.className == minor.className else { return }
        let isEmbedded = major.tableType == .embedded
        guard isEmbedded == (minor.tableType == .embedded) else {
            throw incompatible(major, "is embedded on one side only", in: arena)
        }
        if !isEmbedded {
            guard major.field == minor.field else {
                throw incompatible(major, "has two primary keys", in: arena)
            }
            guard major.type == minor.type else {
                throw incompatible(major, "has a primary key of two types", in: arena)
            }
            guard major.isNullable == minor.isNullable else {
                throw incompatible(major, "has a primary key that is nullable on one side only", in: arena)
            }
            guard major.tableType == minor.tableType else {
                throw incompatible(major, "is asymmetric on one side only", in: arena)
            }
        }
        major.discard()
        minor.discard()
    }

    /// R2. A class that one side erases is not declared by the other.
    static func eraseTableVersusAddTable(_ erase: inout Instruction, _ add: inout Instruction) {
        if erase.className == add.className { add.discard() }
    }

    /// R3. Both sides erase the class: it is gone already.
    static func eraseTableVersusEraseTable(_ major: inout Instruction, _ minor: inout Instruction) {
        guard major.className == minor.className else { return }
        major.discard()
        minor.discard()
    }

    /// R9. Both sides declare the column: neither needs the other's declaration, unless they contradict each other.
    static func addColumnVersusAddColumn(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        guard major.sameColumn(as: minor) else { return }
        guard major.type == minor.type else {
            throw incompatible(major, "has a column of two types", in: arena)
        }
        guard major.isNullable == minor.isNullable else {
            throw incompatible(major, "has a column that is nullable on one side only", in: arena)
        }
        guard major.collection == minor.collection else {
            throw incompatible(major, "has a column of two collection types", in: arena)
        }
        guard major.type != .link || major.target == minor.target else {
            throw incompatible(major, "has a column that links to two classes", in: arena)
        }
        major.discard()
        minor.discard()
    }

    /// R10 and R11. What is added to or written into an erased column is lost.
    static func eraseColumnVersusColumnUse(_ erase: inout Instruction, _ use: inout Instruction) {
        if erase.sameColumn(as: use) { use.discard() }
    }

    /// R12. Both sides erase the column: it is gone already.
    static func eraseColumnVersusEraseColumn(_ major: inout Instruction, _ minor: inout Instruction) {
        guard major.sameColumn(as: minor) else { return }
        major.discard()
        minor.discard()
    }

    private static func incompatible(
        _ instruction: Instruction, _ what: String, in arena: ChangesetArena
    ) -> TransformError {
        let name = String(excerptOf: arena.bytes(of: instruction.className))
        let place =
            instruction.kind == .addColumn
            ? "\(name).\(String(excerptOf: arena.bytes(of: instruction.field)))" : name
        return TransformError(.incompatibleSchema, "\(instruction.kind): \(place) \(what)")
    }
}

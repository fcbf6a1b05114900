// The classes and columns that schema instructions declare.

extension ChangesetArena {
    /// The class of an AddTable.
    func declaredClass(_ instruction: Instruction) -> ClassDeclaration {
        var declared = ClassDeclaration(
            name: Array(bytes(of: instruction.className)), kind: instruction.tableType)
        if declared.kind != .embedded, instruction.type != .globalKey {
            declared.key = ClassState.KeyColumn(
                name: Array(bytes(of: instruction.field)), type: instruction.type,
                isNullable: instruction.isNullable)
        }
        return declared
    }

    /// The column of an AddColumn.
    func declaredColumn(_ instruction: Instruction) -> ColumnDeclaration {
        var declared = ColumnDeclaration(
            name: Array(bytes(of: instruction.field)), type: instruction.type,
            isNullable: instruction.isNullable, collection: instruction.collection)
        if declared.type == .link { declared.target = Array(bytes(of: instruction.target)) }
        if declared.collection == .dictionary { declared.keyType = instruction.keyType }
        return declared
    }
}

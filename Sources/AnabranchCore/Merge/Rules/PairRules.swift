/// The rules, and which of them applies to a pair of instructions (`Spec/Transform.md`, sections 5 to 7): the
/// definition of the merge. `Lists/ListGrid.swift` dispatches the same rules for the operations of long lists.
enum PairRules {
    /// Merges one pair: both are live, the first belongs to the major side. A rule discards by setting the flag.
    @inline(__always)
    static func merge(
        _ major: inout Instruction, _ minor: inout Instruction, in arena: inout ChangesetArena
    ) throws(TransformError) {
        let (majorLength, minorLength) = (major.length, minor.length)
        if majorLength != minorLength {
            if majorLength < minorLength {
                try applyNestedRule(&major, &minor, in: &arena)
                if minor.isDiscarded { return }
            } else {
                try applyNestedRule(&minor, &major, in: &arena)
                if major.isDiscarded { return }
            }
        }
        if major.kind.rawValue >= minor.kind.rawValue {
            try applyRule(&major, &minor, in: arena)
        } else {
            try applyRule(&minor, &major, in: arena)
        }
    }

    private static func applyNestedRule(
        _ outer: inout Instruction, _ inner: inout Instruction, in arena: inout ChangesetArena
    ) throws(TransformError) {
        switch outer.kind {
        case .eraseTable: eraseTable(outer, outside: &inner)
        case .eraseObject: eraseObject(outer, outside: &inner)
        case .update: update(outer, outside: &inner, in: arena)
        case .addInteger, .clear: addIntegerOrClear(outer, outside: &inner, in: arena)
        case .arrayInsert: try arrayInsert(outer, outside: &inner, in: &arena)
        case .arrayMove: try arrayMove(&outer, outside: inner, in: arena)
        case .arrayErase: try arrayErase(outer, outside: &inner, in: &arena)
        case .addTable, .createObject, .addColumn, .eraseColumn, .setInsert, .setErase: break
        }
    }

    /// The same-level rules. The kind of `first` has the higher opcode, or both are of one kind and `first` is the
    /// major one. Rule R8 (AddColumn against EraseTable) is in `ClassErasure.swift`.
    private static func applyRule(
        _ first: inout Instruction, _ second: inout Instruction, in arena: ChangesetArena
    ) throws(TransformError) {
        switch first.kind {
        case .addTable: try addTableVersusAddTable(&first, &second, in: arena)
        case .eraseTable:
            if second.kind == .addTable {
                eraseTableVersusAddTable(&first, &second)
            } else {
                eraseTableVersusEraseTable(&first, &second)
            }
        case .createObject: break
        case .eraseObject:
            switch second.kind {
            case .createObject: eraseObjectVersusCreateObject(&first, &second)
            case .eraseObject: eraseObjectVersusEraseObject(&first, &second, in: arena)
            default: break
            }
        case .update: if second.kind == .update { try updateVersusUpdate(&first, &second, in: arena) }
        case .addInteger:
            if second.kind == .update { addIntegerVersusUpdate(&first, &second, in: arena) }
        case .addColumn:
            if second.kind == .addColumn { try addColumnVersusAddColumn(&first, &second, in: arena) }
        case .eraseColumn:
            switch second.kind {
            case .update, .addColumn: eraseColumnVersusColumnUse(&first, &second)
            case .eraseColumn: eraseColumnVersusEraseColumn(&first, &second)
            default: break
            }
        case .arrayInsert:
            switch second.kind {
            case .update: try arrayInsertVersusUpdate(&first, &second, in: arena)
            case .arrayInsert: try arrayInsertVersusArrayInsert(&first, &second, in: arena)
            default: break
            }
        case .arrayMove:
            switch second.kind {
            case .update: try arrayMoveVersusUpdate(&first, &second, in: arena)
            case .arrayInsert: arrayMoveVersusArrayInsert(&first, &second, in: arena)
            case .arrayMove: try arrayMoveVersusArrayMove(&first, &second, in: arena)
            default: break
            }
        case .arrayErase:
            switch second.kind {
            case .update: try arrayEraseVersusUpdate(&first, &second, in: arena)
            case .arrayInsert: try arrayEraseVersusArrayInsert(&first, &second, in: arena)
            case .arrayMove: try arrayEraseVersusArrayMove(&first, &second, in: arena)
            case .arrayErase: try arrayEraseVersusArrayErase(&first, &second, in: arena)
            default: break
            }
        case .clear:
            switch second.kind {
            case .update: clearVersusUpdate(&first, &second, in: arena)
            case .addInteger: clearVersusAddInteger(&first, &second, in: arena)
            case .clear: clearVersusClear(&first, &second, in: arena)
            default: break
            }
        case .setInsert:
            switch second.kind {
            case .clear: setChangeVersusClear(&first, &second, in: arena)
            case .setInsert: setInsertVersusSetInsert(&first, &second, in: arena)
            default: break
            }
        case .setErase:
            switch second.kind {
            case .clear: setChangeVersusClear(&first, &second, in: arena)
            case .setInsert: setEraseVersusSetInsert(&first, &second, in: arena)
            case .setErase: setEraseVersusSetErase(&first, &second, in: arena)
            default: break
            }
        }
    }
}

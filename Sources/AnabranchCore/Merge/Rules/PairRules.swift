// Which rule applies to a pair of instructions (`Spec/Transform.md`, sections 5 to 7): the one place where the kinds of
// two instructions meet.

extension Instruction {
    @inline(__always)
    mutating func discard() { flags.insert(.discarded) }
}

extension ChangesetArena {
    /// Merges one pair: both are live, the first belongs to the major side. A rule discards by setting the flag.
    @inline(__always)
    mutating func mergePair(_ major: inout Instruction, _ minor: inout Instruction) throws(TransformError) {
        let (majorLength, minorLength) = (major.length, minor.length)
        if majorLength != minorLength {
            if majorLength < minorLength {
                try applyNestedRule(&major, &minor)
                if minor.isDiscarded { return }
            } else {
                try applyNestedRule(&minor, &major)
                if major.isDiscarded { return }
            }
        }
        if major.kind.rawValue >= minor.kind.rawValue {
            try applyRule(&major, &minor)
        } else {
            try applyRule(&minor, &major)
        }
    }

    private mutating func applyNestedRule(
        _ outer: inout Instruction, _ inner: inout Instruction
    ) throws(TransformError) {
        switch outer.kind {
        case .eraseTable: eraseTable(outer, outside: &inner)
        case .eraseObject: eraseObject(outer, outside: &inner)
        case .update: update(outer, outside: &inner)
        case .addInteger, .clear: addIntegerOrClear(outer, outside: &inner)
        case .arrayInsert: try arrayInsert(outer, outside: &inner)
        case .arrayMove: try arrayMove(&outer, outside: inner)
        case .arrayErase: try arrayErase(outer, outside: &inner)
        case .addTable, .createObject, .addColumn, .eraseColumn, .setInsert, .setErase: break
        }
    }

    /// The same-level rules. The kind of `first` has the higher opcode, or both are of one kind and `first` is the
    /// major one. Rule R8 (AddColumn against EraseTable) is the transformer's.
    private func applyRule(_ first: inout Instruction, _ second: inout Instruction) throws(TransformError) {
        switch first.kind {
        case .addTable: try addTableVersusAddTable(&first, &second)
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
            case .eraseObject: eraseObjectVersusEraseObject(&first, &second)
            default: break
            }
        case .update: if second.kind == .update { try updateVersusUpdate(&first, &second) }
        case .addInteger: if second.kind == .update { addIntegerVersusUpdate(&first, &second) }
        case .addColumn: if second.kind == .addColumn { try addColumnVersusAddColumn(&first, &second) }
        case .eraseColumn:
            switch second.kind {
            case .update, .addColumn: eraseColumnVersusColumnUse(&first, &second)
            case .eraseColumn: eraseColumnVersusEraseColumn(&first, &second)
            default: break
            }
        case .arrayInsert:
            switch second.kind {
            case .update: try arrayInsertVersusUpdate(&first, &second)
            case .arrayInsert: try arrayInsertVersusArrayInsert(&first, &second)
            default: break
            }
        case .arrayMove:
            switch second.kind {
            case .update: try arrayMoveVersusUpdate(&first, &second)
            case .arrayInsert: arrayMoveVersusArrayInsert(&first, &second)
            case .arrayMove: try arrayMoveVersusArrayMove(&first, &second)
            default: break
            }
        case .arrayErase:
            switch second.kind {
            case .update: try arrayEraseVersusUpdate(&first, &second)
            case .arrayInsert: try arrayEraseVersusArrayInsert(&first, &second)
            case .arrayMove: try arrayEraseVersusArrayMove(&first, &second)
            case .arrayErase: try arrayEraseVersusArrayErase(&first, &second)
            default: break
            }
        case .clear:
            switch second.kind {
            case .update: clearVersusUpdate(&first, &second)
            case .addInteger: clearVersusAddInteger(&first, &second)
            case .clear: clearVersusClear(&first, &second)
            default: break
            }
        case .setInsert:
            switch second.kind {
            case .clear: setChangeVersusClear(&first, &second)
            case .setInsert: setInsertVersusSetInsert(&first, &second)
            default: break
            }
        case .setErase:
            switch second.kind {
            case .clear: setChangeVersusClear(&first, &second)
            case .setInsert: setEraseVersusSetInsert(&first, &second)
            case .setErase: setEraseVersusSetErase(&first, &second)
            default: break
            }
        }
    }
}

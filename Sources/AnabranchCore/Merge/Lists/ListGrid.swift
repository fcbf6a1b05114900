/// The rules for two operations on one list whose sides fit each other, and the grid of all pairs (`Spec/Transform.md`,
/// sections 2, 6, 7.5).
///
/// No check can fail then, and prior sizes follow from the discards, so that neither has a place here.
enum ListRules {
    typealias Operations = UnsafeMutableBufferPointer<ListOperation>

    /// Merges every major operation with every minor one, in grid order.
    static func mergeGrid(major: Operations, minor: Operations) {
        if ShiftGrid.accepts(major), ShiftGrid.accepts(minor) { return ShiftGrid.merge(major: major, minor: minor) }
        for row in major.indices where !major[row].discarded {
            var operation = major[row]
            switch operation.kind {
            case .insert: mergeInsert(&operation, minor)
            case .erase: mergeErase(&operation, minor)
            case .update: mergeUpdate(&operation, minor)
            case .move: mergeMove(&operation, minor)
            case .touch: mergeTouch(&operation, minor)
            }
            major[row] = operation
        }
    }

    private static func mergeInsert(_ major: inout ListOperation, _ minor: Operations) {
        for column in minor.indices where !minor[column].discarded {
            switch minor[column].kind {
            case .insert: insertInsert(&major, &minor[column])
            case .erase: eraseInsert(&minor[column], &major)
            case .update: insertUpdate(major, &minor[column])
            case .move: moveInsert(&minor[column], &major)
            case .touch: insertTouch(major, &minor[column])
            }
        }
    }

    private static func mergeErase(_ major: inout ListOperation, _ minor: Operations) {
        for column in minor.indices where !minor[column].discarded {
            switch minor[column].kind {
            case .insert: eraseInsert(&major, &minor[column])
            case .erase: eraseErase(&major, &minor[column])
            case .update: eraseUpdate(major, &minor[column])
            case .move: eraseMove(&major, &minor[column])
            case .touch: eraseTouch(major, &minor[column])
            }
            if major.discarded { return }
        }
    }

    private static func mergeUpdate(_ major: inout ListOperation, _ minor: Operations) {
        for column in minor.indices where !minor[column].discarded {
            switch minor[column].kind {
            case .insert: insertUpdate(minor[column], &major)
            case .erase: eraseUpdate(minor[column], &major)
            case .update: updateUpdate(&major, &minor[column])
            case .move: moveUpdate(minor[column], &major)
            case .touch: updateTouch(major, &minor[column])
            }
            if major.discarded { return }
        }
    }

    private static func mergeMove(_ major: inout ListOperation, _ minor: Operations) {
        for column in minor.indices where !minor[column].discarded {
            switch minor[column].kind {
            case .insert: moveInsert(&major, &minor[column])
            case .erase: eraseMove(&minor[column], &major)
            case .update: moveUpdate(major, &minor[column])
            case .move: moveMove(&major, &minor[column])
            case .touch: moveTouch(&major, minor[column])
            }
            if major.discarded { return }
        }
    }

    private static func mergeTouch(_ major: inout ListOperation, _ minor: Operations) {
        for column in minor.indices where !minor[column].discarded {
            switch minor[column].kind {
            case .insert: insertTouch(minor[column], &major)
            case .erase: eraseTouch(minor[column], &major)
            case .update: updateTouch(minor[column], &major)
            case .move: moveTouch(&minor[column], major)
            case .touch: break
            }
            if major.discarded { return }
        }
    }

    // MARK: Pairs

    @inline(__always)
    private static func discard(_ operation: inout ListOperation) {
        operation.discarded = true
        operation.dirty = true
    }

    /// R6 for array updates.
    @inline(__always)
    private static func updateUpdate(_ major: inout ListOperation, _ minor: inout ListOperation) {
        guard major.index == minor.index else { return }
        settle(&major, &minor)
    }

    /// Decides between two updates of one element.
    @inline(__always)
    static func settle(_ major: inout ListOperation, _ minor: inout ListOperation) {
        if major.value != minor.value, major.value == .object || minor.value == .object {
            if major.value == .object { discard(&major) } else { discard(&minor) }
        } else if major.value == minor.value, major.value == .list || major.value == .dictionary {
            return
        } else if major.tag < minor.tag {
            discard(&major)
        } else {
            discard(&minor)
        }
    }

    /// N3: an update of the element replaces what lies below it, unless it only says again which collection it is.
    @inline(__always)
    private static func updateTouch(_ update: ListOperation, _ touch: inout ListOperation) {
        if update.index == touch.index, replaces(update, touch) { discard(&touch) }
    }

    @inline(__always)
    static func replaces(_ update: ListOperation, _ touch: ListOperation) -> Bool {
        update.value != .object && update.value != touch.value
    }

    /// R13.
    @inline(__always)
    private static func insertUpdate(_ insert: ListOperation, _ update: inout ListOperation) {
        if update.index >= insert.index { update.index &+= 1 }
        update.dirty = true
    }

    /// N5.
    @inline(__always)
    private static func insertTouch(_ insert: ListOperation, _ touch: inout ListOperation) {
        if touch.index >= insert.index {
            touch.index &+= 1
            touch.dirty = true
        }
    }

    /// R14.
    @inline(__always)
    private static func insertInsert(_ major: inout ListOperation, _ minor: inout ListOperation) {
        if major.index < minor.index || (major.index == minor.index && major.tag < minor.tag) {
            minor.index &+= 1
        } else {
            major.index &+= 1
        }
        major.dirty = true
        minor.dirty = true
    }

    /// R18.
    @inline(__always)
    private static func eraseUpdate(_ erase: ListOperation, _ update: inout ListOperation) {
        update.dirty = true
        if update.index == erase.index {
            update.discarded = true
        } else if update.index > erase.index {
            update.index &-= 1
        }
    }

    /// N7.
    @inline(__always)
    private static func eraseTouch(_ erase: ListOperation, _ touch: inout ListOperation) {
        if touch.index == erase.index {
            discard(&touch)
        } else if touch.index > erase.index {
            touch.index &-= 1
            touch.dirty = true
        }
    }

    /// R19.
    @inline(__always)
    private static func eraseInsert(_ erase: inout ListOperation, _ insert: inout ListOperation) {
        if insert.index <= erase.index {
            erase.index &+= 1
        } else {
            insert.index &-= 1
        }
        erase.dirty = true
        insert.dirty = true
    }

    /// R21.
    @inline(__always)
    private static func eraseErase(_ major: inout ListOperation, _ minor: inout ListOperation) {
        major.dirty = true
        minor.dirty = true
        if major.index > minor.index {
            major.index &-= 1
        } else if major.index < minor.index {
            minor.index &-= 1
        } else {
            major.discarded = true
            minor.discarded = true
        }
    }

    /// R15.
    @inline(__always)
    private static func moveUpdate(_ move: ListOperation, _ update: inout ListOperation) {
        let index = through(update.index, from: move.index, to: move.to)
        if index != update.index {
            update.index = index
            update.dirty = true
        }
    }

    /// N6: it is the move that changes, as if the element below which the other instruction lies had been moved.
    @inline(__always)
    private static func moveTouch(_ move: inout ListOperation, _ touch: ListOperation) {
        let index = through(move.index, from: touch.index, to: move.to)
        if index != move.index {
            move.index = index
            move.dirty = true
        }
    }

    /// Where the element at `index` is after a move.
    @inline(__always)
    private static func through(_ index: UInt32, from: UInt32, to: UInt32) -> UInt32 {
        if index == from { return to }
        let taken = index > from ? index &- 1 : index
        return taken >= to ? taken &+ 1 : taken
    }

    /// R16.
    @inline(__always)
    private static func moveInsert(_ move: inout ListOperation, _ insert: inout ListOperation) {
        let index = insert.index
        move.dirty = true
        if insert.index > move.index {
            insert.index &-= 1
        } else {
            move.index &+= 1
        }
        if insert.index < move.to || (insert.index == move.to && move.tag < insert.tag) {
            move.to &+= 1
        } else {
            insert.index &+= 1
        }
        if insert.index != index { insert.dirty = true }
    }

    /// R17.
    private static func moveMove(_ major: inout ListOperation, _ minor: inout ListOperation) {
        if major.index == minor.index {
            if major.tag < minor.tag {
                discard(&major)
                retarget(&minor, major.to)
            } else {
                discard(&minor)
                retarget(&major, minor.to)
            }
            return
        }
        let (before, beforeMinor) = (major, minor)
        if major.index < minor.index { minor.index &-= 1 } else { major.index &-= 1 }
        if major.to > minor.index { major.to &-= 1 } else { minor.index &+= 1 }
        if major.index < minor.to { minor.to &-= 1 } else { major.index &+= 1 }
        if major.to < minor.to || (major.to == minor.to && major.tag < minor.tag) {
            minor.to &+= 1
        } else {
            major.to &+= 1
        }
        if major != before { major.dirty = true }
        if minor != beforeMinor { minor.dirty = true }
        if major.index == major.to { discard(&major) }
        if minor.index == minor.to { discard(&minor) }
    }

    /// The newer move of one element starts where the older one brought it.
    @inline(__always)
    private static func retarget(_ move: inout ListOperation, _ index: UInt32) {
        if move.index != index {
            move.index = index
            move.dirty = true
        }
        if move.index == move.to { discard(&move) }
    }

    /// R20.
    @inline(__always)
    private static func eraseMove(_ erase: inout ListOperation, _ move: inout ListOperation) {
        let index = erase.index
        move.dirty = true
        if erase.index == move.index {
            erase.index = move.to
            move.discarded = true
        } else {
            if erase.index > move.index { erase.index &-= 1 } else { move.index &-= 1 }
            if erase.index >= move.to { erase.index &+= 1 } else { move.to &-= 1 }
            if move.index == move.to { move.discarded = true }
        }
        if erase.index != index { erase.dirty = true }
    }
}

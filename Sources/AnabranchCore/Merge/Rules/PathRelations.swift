// Levels and the relations of paths (`Spec/Transform.md`, section 4), and the comparison of values (section 3).

extension Instruction {
    /// The level at which the instruction works: the shorter of two is the outer one.
    @inline(__always)
    var length: UInt32 {
        switch kind {
        case .addTable, .eraseTable: 1
        case .addColumn, .eraseColumn, .createObject, .eraseObject: 2
        default: 3 &+ pathCount
        }
    }

    /// True if both have the same object and field, for path instructions.
    @inline(__always)
    func sameField(as other: Instruction) -> Bool { object == other.object && field == other.field }

    /// True if both have the same class and field, for instructions that name a column.
    @inline(__always)
    func sameColumn(as other: Instruction) -> Bool {
        className == other.className && field == other.field
    }
}

extension ChangesetArena {
    /// An element of an instruction's path.
    @inline(__always)
    func element(_ position: UInt32, of instruction: Instruction) -> PathElement {
        position &+ 1 == instruction.pathCount
            ? instruction.last : elements[Int(instruction.pathStart) + Int(position)]
    }

    /// True if the first elements of two paths are equal.
    @inline(__always)
    private func agree(_ first: Instruction, _ second: Instruction, upTo count: UInt32) -> Bool {
        var position: UInt32 = 0
        while position < count {
            guard element(position, of: first) == element(position, of: second) else { return false }
            position += 1
        }
        return true
    }

    /// True if both have the same field, and equal elements.
    @inline(__always)
    func samePath(_ first: Instruction, _ second: Instruction) -> Bool {
        first.sameField(as: second) && first.pathCount == second.pathCount
            && agree(first, second, upTo: first.pathCount)
    }

    /// True if both have the same field, and equal elements except for the last one, of whatever kind.
    @inline(__always)
    func sameContainer(_ first: Instruction, _ second: Instruction) -> Bool {
        first.sameField(as: second) && first.pathCount == second.pathCount
            && (first.pathCount < 2 || agree(first, second, upTo: first.pathCount - 1))
    }

    /// True if the outer path is a proper prefix of the inner one.
    @inline(__always)
    func isPrefix(_ outer: Instruction, of inner: Instruction) -> Bool {
        outer.sameField(as: inner) && outer.pathCount < inner.pathCount
            && agree(outer, inner, upTo: outer.pathCount)
    }

    /// True if the outer path without its last element is a prefix of the inner one, which is longer than the outer
    /// path.
    @inline(__always)
    func isContainerPrefix(_ outer: Instruction, of inner: Instruction) -> Bool {
        outer.sameField(as: inner) && outer.pathCount > 0 && outer.pathCount < inner.pathCount
            && agree(outer, inner, upTo: outer.pathCount - 1)
    }

    @inline(__always)
    func tagOrder(_ first: ChangesetIndex, _ second: ChangesetIndex) -> TagOrder {
        TagOrder(self[first].tag, self[second].tag)
    }

    /// True if the first instruction's changeset was made earlier.
    @inline(__always)
    func isOlder(_ first: Instruction, than second: Instruction) -> Bool {
        self[first.owner].tag < self[second.owner].tag
    }

    // MARK: Values

    /// True if two payloads are equal by value (rules R26 and R27).
    func equalByValue(_ first: Instruction, _ second: Instruction) -> Bool {
        guard first.type == second.type else { return false }
        switch first.type {
        case .null, .erased, .list, .dictionary, .set, .objectValue, .globalKey: return true
        case .string, .binary: return content(of: first).elementsEqual(content(of: second))
        case .float:
            return Float(bitPattern: UInt32(truncatingIfNeeded: first.word0))
                == Float(bitPattern: UInt32(truncatingIfNeeded: second.word0))
        case .double: return Double(bitPattern: first.word0) == Double(bitPattern: second.word0)
        case .decimal:
            return Decimal128(low: first.word0, high: first.word1)
                .isEqualNumber(to: Decimal128(low: second.word0, high: second.word1))
        case .int, .bool, .link: return first.word0 == second.word0
        case .timestamp, .objectID, .uuid:
            return first.word0 == second.word0 && first.word1 == second.word1
        }
    }

    /// True if two payloads are equal in the way of rule R28: strings and binaries by length and by their offset in the
    /// string buffer of their own changeset, links by the indices of their names.
    func equalRaw(_ first: Instruction, _ second: Instruction) -> Bool {
        guard first.type == second.type else { return false }
        switch first.type {
        case .string, .binary:
            return first.bytesCount == second.bytesCount && first.bufferOffset == second.bufferOffset
        case .link:
            guard first.linkedIndices == second.linkedIndices else { return false }
            let (left, right) = (
                objects.keys[Int(first.linked.rawValue)], objects.keys[Int(second.linked.rawValue)]
            )
            return left.type == right.type
                && (left.type == .string || (left.word0 == right.word0 && left.word1 == right.word1))
        default: return equalByValue(first, second)
        }
    }
}

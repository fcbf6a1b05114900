// The encoder: the mirror of `ChangesetDecoder.swift`, in the same order (`Spec/Changeset.md`, sections 10 and 12).

extension ChangesetArena {
    /// The changeset's bytes: all its strings in order, then its live instructions; nothing if none is left.
    ///
    /// A changeset that no merge has touched and whose bytes were canonical keeps them.
    public func encoded(_ changeset: ChangesetIndex) -> [UInt8] {
        var encoder = ChangesetEncoder()
        return encoder.encode(changeset, of: self)
    }

    /// The bytes of several changesets.
    public func encoded(_ changesets: Range<ChangesetIndex>) -> [[UInt8]] {
        var encoder = ChangesetEncoder()
        var encoded: [[UInt8]] = []
        encoded.reserveCapacity(changesets.count)
        for changeset in changesets { encoded.append(encoder.encode(changeset, of: self)) }
        return encoded
    }

    /// The bytes of one changeset with the instructions of several, in their order.
    package func encoded(joining changesets: Range<ChangesetIndex>) -> [UInt8] {
        var encoder = ChangesetEncoder()
        return encoder.encode(joining: changesets, of: self)
    }

    /// As `encoded`, but written from the instructions even where the decoded bytes could be kept.
    public func encodedAnew(_ changeset: ChangesetIndex) -> [UInt8] {
        var encoder = ChangesetEncoder()
        return encoder.encodeAnew(changeset, of: self)
    }
}

/// Encodes changesets one after another, reusing its storage.
public struct ChangesetEncoder: Sendable {
    private var writer = ByteWriter()
    /// The index of each name in the string table of the current changeset; meaningless for names that are not in it.
    private var localIndices: [UInt32] = []

    /// An encoder without storage yet.
    public init() {}

    /// The bytes of one changeset of an arena.
    public mutating func encode(_ changeset: ChangesetIndex, of arena: ChangesetArena) -> [UInt8] {
        let header = arena[changeset]
        if header.isCanonical && !header.isDirty {
            return arena.bytes.withUnsafeBufferPointer { Array(UnsafeBufferPointer(rebasing: $0[header.bytes])) }
        }
        return encodeAnew(changeset, of: arena)
    }

    mutating func encodeAnew(_ changeset: ChangesetIndex, of arena: ChangesetArena) -> [UInt8] {
        let header = arena[changeset]
        if header.liveCount == 0 { return [] }
        writer.reserve(header.bytes.count + header.bytes.count / 8 + 16)
        intern(arena.stringTable(of: changeset), of: arena)
        if arena.additions.isEmpty {
            for index in header.instructions where !arena[index].isDiscarded {
                instruction(arena[index], of: arena)
            }
        } else {
            for index in arena.instructionIndices(of: changeset) { instruction(arena[index], of: arena) }
        }
        return writer.take()
    }

    fileprivate mutating func encode(joining changesets: Range<ChangesetIndex>, of arena: ChangesetArena) -> [UInt8] {
        let instructions = changesets.flatMap { arena.instructionIndices(of: $0) }
        guard !instructions.isEmpty else { return [] }
        var known: Set<NameID> = []
        let strings = changesets.flatMap { arena.stringTable(of: $0) }.filter { known.insert($0).inserted }
        intern(strings[...], of: arena)
        for index in instructions { self.instruction(arena[index], of: arena) }
        return writer.take()
    }

    // MARK: intern := u64(63) u32(index) string

    private mutating func intern(_ strings: ArraySlice<NameID>, of arena: ChangesetArena) {
        if localIndices.count < arena.names.count {
            localIndices += repeatElement(0, count: arena.names.count - localIndices.count)
        }
        for (index, name) in strings.enumerated() {
            localIndices[Int(name.rawValue)] = UInt32(truncatingIfNeeded: index)
            writer.write(small: 63)
            writer.write(UInt32(truncatingIfNeeded: index))
            let span = arena.names.spans[Int(name.rawValue)]
            write(counted: Int(span.offset), Int(span.count), of: arena)
        }
    }

    /// Writes a count and that many bytes of the arena. A slice of them would be retained and released each time.
    @inline(__always)
    private mutating func write(counted offset: Int, _ count: Int, of arena: ChangesetArena) {
        arena.bytes.withUnsafeBufferPointer {
            writer.write(counted: UnsafeBufferPointer(rebasing: $0[offset..<offset + count]))
        }
    }

    // MARK: instruction := u64(opcode) operands

    private mutating func instruction(_ instruction: Instruction, of arena: ChangesetArena) {
        writer.write(small: instruction.kind.rawValue)
        name(instruction.className)
        if instruction.kind.hasPath { pathHead(instruction, of: arena) }
        switch instruction.kind {
        case .addTable: addTable(instruction)
        case .eraseTable: break
        case .createObject, .eraseObject: key(arena.objects.keys[Int(instruction.object.rawValue)])
        case .addColumn: addColumn(instruction)
        case .eraseColumn: name(instruction.field)
        case .update:
            value(instruction, of: arena)
            if instruction.isIndexed {
                writer.write(instruction.priorSize)
            } else {
                writer.write(instruction.isDefault)
            }
        case .addInteger: writer.write(Int64(bitPattern: instruction.word0))
        case .arrayInsert, .arrayMove, .arrayErase:
            if instruction.kind == .arrayInsert { value(instruction, of: arena) }
            if instruction.kind == .arrayMove { writer.write(instruction.destination) }
            writer.write(instruction.priorSize)
        case .clear: writer.write(small: instruction.detail)
        case .setInsert, .setErase: value(instruction, of: arena)
        }
    }

    private mutating func addTable(_ instruction: Instruction) {
        writer.write(small: instruction.detail)
        guard instruction.tableType != .embedded else { return }
        name(instruction.field)
        writer.write(instruction.type)
        writer.write(instruction.isNullable)
    }

    private mutating func addColumn(_ instruction: Instruction) {
        name(instruction.field)
        writer.write(instruction.type)
        writer.write(instruction.isNullable)
        writer.write(small: instruction.detail)
        if instruction.type == .link { name(instruction.target) }
        if instruction.collection == .dictionary { writer.write(instruction.keyType) }
    }

    // MARK: name := u32(index)

    @inline(__always)
    private mutating func name(_ name: NameID) { writer.write(localIndices[Int(name.rawValue)]) }

    // MARK: key := type key-body

    private mutating func key(_ key: ObjectKey) {
        writer.write(key.type)
        switch key.type {
        case .int: writer.write(Int64(bitPattern: key.word0))
        case .string: name(NameID(UInt32(truncatingIfNeeded: key.word0)))
        case .globalKey:
            writer.write(key.word0)
            writer.write(key.word1)
        case .objectID: twelveBytes(key.word0, key.word1)
        case .uuid: sixteenBytes(key.word0, key.word1)
        default: break
        }
    }

    // MARK: value := type value-body

    private mutating func value(_ instruction: Instruction, of arena: ChangesetArena) {
        let (word0, word1) = (instruction.word0, instruction.word1)
        writer.write(instruction.type)
        switch instruction.type {
        case .null, .erased, .list, .dictionary, .set, .objectValue, .globalKey: break
        case .int: writer.write(Int64(bitPattern: word0))
        case .bool: writer.write(word0 != 0)
        case .string, .binary:
            write(counted: instruction.bytesOffset, instruction.bytesCount, of: arena)
        case .timestamp:
            writer.write(Int64(bitPattern: word0))
            writer.write(Int64(bitPattern: word1))
        case .float: writer.write(littleEndian: word0, count: 4)
        case .double: writer.write(littleEndian: word0, count: 8)
        case .decimal:
            let value = Decimal128(low: word0, high: word1)
            let (low, high) = value.coefficient
            writer.write(coefficientLow: low, high: high)
            writer.write(Int64(value.exponent))
            writer.write(value.isNegative)
        case .link:
            let key = arena.objects.keys[Int(instruction.linked.rawValue)]
            name(key.className)
            self.key(key)
        case .objectID: twelveBytes(word0, word1)
        case .uuid: sixteenBytes(word0, word1)
        }
    }

    private mutating func twelveBytes(_ word0: UInt64, _ word1: UInt64) {
        writer.write(littleEndian: word0, count: 8)
        writer.write(littleEndian: word1, count: 4)
    }

    private mutating func sixteenBytes(_ word0: UInt64, _ word1: UInt64) {
        writer.write(littleEndian: word0, count: 8)
        writer.write(littleEndian: word1, count: 8)
    }

    // MARK: path := u32(n) element{n}

    private mutating func pathHead(_ instruction: Instruction, of arena: ChangesetArena) {
        key(arena.objects.keys[Int(instruction.object.rawValue)])
        name(instruction.field)
        writer.write(instruction.pathCount)
        guard instruction.pathCount > 0 else { return }
        let start = Int(instruction.pathStart)
        for index in start..<start + Int(instruction.pathCount) - 1 { element(arena.elements[index]) }
        element(instruction.last)
    }

    @inline(__always)
    private mutating func element(_ element: PathElement) {
        if element.isIndex {
            writer.write(element.index)
        } else {
            writer.write(Int64(-1))
            name(element.name)
        }
    }
}

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
        var room = ByteRoom(capacity: header.bytes.count + header.bytes.count / 8 + Self.instructionBytesMax)
        intern(arena.stringTable(of: changeset), of: arena, to: &room)
        var latest = Head()
        if arena.additions.isEmpty {
            for index in header.instructions where !arena[index].isDiscarded {
                instruction(arena[index], after: &latest, of: arena, to: &room)
            }
        } else {
            for index in arena.instructionIndices(of: changeset) {
                instruction(arena[index], after: &latest, of: arena, to: &room)
            }
        }
        return room.bytes
    }

    fileprivate mutating func encode(joining changesets: Range<ChangesetIndex>, of arena: ChangesetArena) -> [UInt8] {
        let instructions = changesets.flatMap { arena.instructionIndices(of: $0) }
        guard !instructions.isEmpty else { return [] }
        var known: Set<NameID> = []
        let strings = changesets.flatMap { arena.stringTable(of: $0) }.filter { known.insert($0).inserted }
        var room = ByteRoom(capacity: 1024)
        intern(strings[...], of: arena, to: &room)
        var latest = Head()
        for index in instructions { instruction(arena[index], after: &latest, of: arena, to: &room) }
        return room.bytes
    }

    // MARK: intern := u64(63) u32(index) string

    private mutating func intern(
        _ strings: ArraySlice<NameID>, of arena: ChangesetArena, to room: inout ByteRoom
    ) {
        if localIndices.count < arena.names.count {
            localIndices += repeatElement(0, count: arena.names.count - localIndices.count)
        }
        for (index, name) in strings.enumerated() {
            localIndices[Int(name.rawValue)] = UInt32(truncatingIfNeeded: index)
            let span = arena.names.spans[Int(name.rawValue)]
            room.makeRoom(Self.instructionBytesMax + Int(span.count))
            room.write(small: 63)
            room.write(UInt32(truncatingIfNeeded: index))
            write(counted: Int(span.offset), Int(span.count), of: arena, to: &room)
        }
    }

    /// Writes a count and that many bytes of the arena. A slice of them would be retained and released each time.
    @inline(__always)
    private func write(counted offset: Int, _ count: Int, of arena: ChangesetArena, to room: inout ByteRoom) {
        arena.bytes.withUnsafeBufferPointer {
            room.write(all: UnsafeBufferPointer(rebasing: $0[offset..<offset + count]))
        }
    }

    // MARK: instruction := u64(opcode) operands

    /// More than an instruction takes, and a word, without the elements of its path and the bytes of its value.
    private static let instructionBytesMax = 256
    /// The most bytes that a path element takes.
    private static let elementBytesMax = 6

    /// The bytes before the path element of an instruction that has one: those of the next one are often the same.
    private struct Head {
        private var kind = InstructionKind.addTable
        private var className = NameID(0)
        private var object = ObjectKeyID.none
        private var field = NameID(0)
        private(set) var bytes = 0..<0

        init() {}

        init(of instruction: Instruction, _ bytes: Range<Int>) {
            (kind, className, object) = (instruction.kind, instruction.className, instruction.object)
            (field, self.bytes) = (instruction.field, bytes)
        }

        @inline(__always)
        func fits(_ instruction: Instruction) -> Bool {
            kind == instruction.kind && object == instruction.object && field == instruction.field
                && className == instruction.className && instruction.pathCount == 1
        }
    }

    @inline(__always)
    private func instruction(
        _ instruction: Instruction, after latest: inout Head, of arena: ChangesetArena, to room: inout ByteRoom
    ) {
        let hasBytes = instruction.type == .string || instruction.type == .binary
        room.makeRoom(
            Self.instructionBytesMax + Self.elementBytesMax * Int(instruction.pathCount)
                + (hasBytes ? instruction.bytesCount : 0))
        if latest.fits(instruction) {
            room.append(again: latest.bytes)
            element(instruction.last, to: &room)
        } else {
            let start = room.count
            room.write(small: instruction.kind.rawValue)
            name(instruction.className, to: &room)
            if instruction.kind.hasPath {
                pathHead(instruction, of: arena, to: &room)
                if instruction.pathCount == 1 { latest = Head(of: instruction, start..<room.count) }
                pathElements(instruction, of: arena, to: &room)
            }
        }
        switch instruction.kind {
        case .addTable: addTable(instruction, to: &room)
        case .eraseTable: break
        case .createObject, .eraseObject: key(arena.objects.keys[Int(instruction.object.rawValue)], to: &room)
        case .addColumn: addColumn(instruction, to: &room)
        case .eraseColumn: name(instruction.field, to: &room)
        case .update:
            value(instruction, of: arena, to: &room)
            if instruction.isIndexed {
                room.write(instruction.priorSize)
            } else {
                room.write(instruction.isDefault)
            }
        case .addInteger: room.write(Int64(bitPattern: instruction.word0))
        case .arrayInsert, .arrayMove, .arrayErase:
            if instruction.kind == .arrayInsert { value(instruction, of: arena, to: &room) }
            if instruction.kind == .arrayMove { room.write(instruction.destination) }
            room.write(instruction.priorSize)
        case .clear: room.write(small: instruction.detail)
        case .setInsert, .setErase: value(instruction, of: arena, to: &room)
        }
    }

    private func addTable(_ instruction: Instruction, to room: inout ByteRoom) {
        room.write(small: instruction.detail)
        guard instruction.tableType != .embedded else { return }
        name(instruction.field, to: &room)
        room.write(instruction.type)
        room.write(instruction.isNullable)
    }

    private func addColumn(_ instruction: Instruction, to room: inout ByteRoom) {
        name(instruction.field, to: &room)
        room.write(instruction.type)
        room.write(instruction.isNullable)
        room.write(small: instruction.detail)
        if instruction.type == .link { name(instruction.target, to: &room) }
        if instruction.collection == .dictionary { room.write(instruction.keyType) }
    }

    // MARK: name := u32(index)

    @inline(__always)
    private func name(_ name: NameID, to room: inout ByteRoom) { room.write(localIndices[Int(name.rawValue)]) }

    // MARK: key := type key-body

    private func key(_ key: ObjectKey, to room: inout ByteRoom) {
        room.write(key.type)
        switch key.type {
        case .int: room.write(Int64(bitPattern: key.word0))
        case .string: name(NameID(UInt32(truncatingIfNeeded: key.word0)), to: &room)
        case .globalKey:
            room.write(key.word0)
            room.write(key.word1)
        case .objectID: twelveBytes(key.word0, key.word1, to: &room)
        case .uuid: sixteenBytes(key.word0, key.word1, to: &room)
        default: break
        }
    }

    // MARK: value := type value-body

    private func value(_ instruction: Instruction, of arena: ChangesetArena, to room: inout ByteRoom) {
        let (word0, word1) = (instruction.word0, instruction.word1)
        room.write(instruction.type)
        switch instruction.type {
        case .null, .erased, .list, .dictionary, .set, .objectValue, .globalKey: break
        case .int: room.write(Int64(bitPattern: word0))
        case .bool: room.write(word0 != 0)
        case .string, .binary:
            write(counted: instruction.bytesOffset, instruction.bytesCount, of: arena, to: &room)
        case .timestamp:
            room.write(Int64(bitPattern: word0))
            room.write(Int64(bitPattern: word1))
        case .float: room.write(littleEndian: word0, count: 4)
        case .double: room.write(littleEndian: word0, count: 8)
        case .decimal:
            let value = Decimal128(low: word0, high: word1)
            let (low, high) = value.coefficient
            room.write(coefficientLow: low, high: high)
            room.write(Int64(value.exponent))
            room.write(value.isNegative)
        case .link:
            let key = arena.objects.keys[Int(instruction.linked.rawValue)]
            name(key.className, to: &room)
            self.key(key, to: &room)
        case .objectID: twelveBytes(word0, word1, to: &room)
        case .uuid: sixteenBytes(word0, word1, to: &room)
        }
    }

    private func twelveBytes(_ word0: UInt64, _ word1: UInt64, to room: inout ByteRoom) {
        room.write(littleEndian: word0, count: 8)
        room.write(littleEndian: word1, count: 4)
    }

    private func sixteenBytes(_ word0: UInt64, _ word1: UInt64, to room: inout ByteRoom) {
        room.write(littleEndian: word0, count: 8)
        room.write(littleEndian: word1, count: 8)
    }

    // MARK: path := u32(n) element{n}

    private func pathHead(_ instruction: Instruction, of arena: ChangesetArena, to room: inout ByteRoom) {
        key(arena.objects.keys[Int(instruction.object.rawValue)], to: &room)
        name(instruction.field, to: &room)
        room.write(instruction.pathCount)
    }

    @inline(__always)
    private func pathElements(_ instruction: Instruction, of arena: ChangesetArena, to room: inout ByteRoom) {
        guard instruction.pathCount > 0 else { return }
        let start = Int(instruction.pathStart)
        for index in start..<start + Int(instruction.pathCount) - 1 { element(arena.elements[index], to: &room) }
        element(instruction.last, to: &room)
    }

    @inline(__always)
    private func element(_ element: PathElement, to room: inout ByteRoom) {
        if element.isIndex {
            room.write(element.index)
        } else {
            room.write(Int64(-1))
            name(element.name, to: &room)
        }
    }
}

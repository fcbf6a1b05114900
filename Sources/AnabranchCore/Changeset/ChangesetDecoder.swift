// The decoder: one method per line of the grammar of `Spec/Changeset.md`, section 1, in the order of that grammar. It
// raises R1–R17, and S1–S8 where the reference would wrap, truncate or abort.

extension ChangesetArena {
    /// Decodes a changeset and adds it to the arena.
    ///
    /// - Parameters:
    ///   - version: The version that the changeset produced where it comes from; it orders the minor side of a merge.
    ///   - tag: When and where it was made.
    /// - Returns: The index of the new changeset.
    /// - Throws: `ChangesetError`; the arena is then as it was before.
    @discardableResult
    public mutating func decode(
        _ changeset: [UInt8], version: UInt64, tag: OriginTag
    ) throws(ChangesetError) -> ChangesetIndex {
        try decode(changeset, version: version, tag: tag, memoryBytesMax: .max)
    }

    /// The same, unless the changeset would occupy more memory than `memoryBytesMax`: instructions that have two bytes
    /// each occupy 32 times as much.
    package mutating func decode(
        _ changeset: [UInt8], version: UInt64, tag: OriginTag, memoryBytesMax: Int
    ) throws(ChangesetError) -> ChangesetIndex {
        let before = Mark(of: self)
        guard bytes.count + changeset.count < Int(UInt32.max) else {
            throw ChangesetError(.tooLarge, at: 0, "too many bytes to merge at once")
        }
        names.beginChangeset()
        do {
            let isCanonical = try changeset.withUnsafeBufferPointer { input throws(ChangesetError) in
                bytes.append(contentsOf: input)
                var decoder = ItemDecoder(
                    reader: ByteReader(input), owner: ChangesetIndex(headers.count), start: before,
                    likelyNames: headers.last?.strings ?? 0..<0)
                // Asking costs something, and short changesets cannot have so much.
                if changeset.count > memoryBytesMax / MemoryLayout<Instruction>.stride {
                    decoder.memoryBytesMax = memoryBytes + memoryBytesMax
                }
                while !decoder.reader.isAtEnd { try decoder.item(into: &self) }
                return decoder.isCanonical
            }
            let decoded = before.instructions..<instructions.count
            headers.append(
                ChangesetHeader(
                    version: version, tag: tag, bytes: before.bytes..<bytes.count,
                    strings: before.strings..<strings.count, instructions: decoded,
                    isCanonical: isCanonical && (!decoded.isEmpty || changeset.isEmpty)))
        } catch {
            truncate(to: before)
            throw error
        }
        return ChangesetIndex(headers.count - 1)
    }

    /// The sizes of an arena's arrays and what it knows of their contents, to go back to.
    struct Mark {
        var bytes: Int
        var names: Int
        var objects: Int
        var strings: Int
        var instructions: Int
        var elements: Int
        var holdsNaN: Bool
        var holdsErasure: Bool
        var holdsNullErasure: Bool

        init(of arena: borrowing ChangesetArena) {
            bytes = arena.bytes.count
            names = arena.names.count
            objects = arena.objects.count
            strings = arena.strings.count
            instructions = arena.instructions.count
            elements = arena.elements.count
            holdsNaN = arena.holdsNaN
            holdsErasure = arena.holdsErasure
            holdsNullErasure = arena.holdsNullErasure
        }
    }

    private mutating func truncate(to mark: Mark) {
        objects.truncate(to: mark.objects)
        names.truncate(to: mark.names)
        bytes.removeLast(bytes.count - mark.bytes)
        strings.removeLast(strings.count - mark.strings)
        instructions.removeLast(instructions.count - mark.instructions)
        elements.removeLast(elements.count - mark.elements)
        holdsNaN = mark.holdsNaN
        holdsErasure = mark.holdsErasure
        holdsNullErasure = mark.holdsNullErasure
    }
}

struct ItemDecoder {
    static let internOpcode: UInt64 = 63
    /// The longest string that a reader accepts (rule R9).
    static let stringBytesMax: UInt64 = 16_777_199

    var reader: ByteReader
    private let owner: ChangesetIndex
    let start: ChangesetArena.Mark
    /// The string table of the previous changeset, in the arena's strings: this one's is often the same.
    private let likelyNames: Range<Int>
    /// The total length of the strings and binaries so far: the reference's string buffer (rule R28).
    var bufferOffset: UInt64 = 0
    private var hasInstruction = false
    /// The index, in the changeset's string table, of the name that was read last.
    private(set) var latestName: UInt64 = 0
    private var isStringsFirst = true
    /// The most memory that the arena may occupy, in bytes; nil if the changeset cannot bring it to more than allowed.
    var memoryBytesMax: Int?

    init(reader: ByteReader, owner: ChangesetIndex, start: ChangesetArena.Mark, likelyNames: Range<Int>) {
        self.reader = reader
        self.owner = owner
        self.start = start
        self.likelyNames = likelyNames
    }

    var isCanonical: Bool { reader.isCanonical && isStringsFirst }

    // MARK: changeset := item*; item := intern | instruction

    mutating func item(into arena: inout ChangesetArena) throws(ChangesetError) {
        let offset = reader.offset
        let (opcode, hasSign) = try reader.opcode()
        if opcode == Self.internOpcode, !hasSign { return try intern(into: &arena, at: offset) }
        guard let kind = InstructionKind(rawValue: UInt8(truncatingIfNeeded: opcode)) else {
            let number = hasSign ? "\(Int64(bitPattern: opcode))" : "\(opcode)"
            throw ChangesetError(.unknownInstruction, at: offset, "unknown instruction \(number)")
        }
        guard !hasSign else { throw ChangesetError(.unexpectedSign, at: offset, "opcode with a sign") }
        guard opcode <= 255 else { throw ChangesetError(.codeTooLarge, at: offset, "opcode \(opcode) exceeds a byte") }
        hasInstruction = true
        if kind == .eraseTable || kind == .eraseColumn { arena.holdsErasure = true }
        var result = Instruction(kind: kind, owner: owner, className: try name(in: &arena))
        if kind.hasPath, try pathHead(of: &result, into: &arena) {
            // Users type in runs, and apps append: what comes next often begins with the same bytes.
            let head = offset..<reader.offset
            let model = result
            repeat {
                result = model
                result.last = try element(in: &arena)
                try operands(of: &result, into: &arena)
            } while reader.skip(head)
        } else {
            try operands(of: &result, into: &arena)
        }
    }

    private mutating func intern(into arena: inout ChangesetArena, at offset: Int) throws(ChangesetError) {
        let index = try reader.u32()
        let expected = arena.strings.count - start.strings
        guard index == expected else {
            throw ChangesetError(.stringOutOfOrder, at: offset, "string number \(index) where \(expected) was due")
        }
        let range = try reader.counted(atMost: Self.stringBytesMax)
        bufferOffset += UInt64(range.count)
        let place = start.bytes + range.lowerBound..<start.bytes + range.upperBound
        let guess = expected < likelyNames.count ? arena.strings[likelyNames.lowerBound + expected] : nil
        let (name, isNew) = arena.names.define(place, in: arena.bytes, guess: guess)
        guard isNew else { throw ChangesetError(.duplicateString, at: offset, "a string is defined twice") }
        arena.strings.append(name)
        if hasInstruction { isStringsFirst = false }
    }

    // MARK: instruction := u64(opcode) operands

    /// Decodes the operands after the path and adds the instruction.
    @inline(__always)
    private mutating func operands(
        of result: inout Instruction, into arena: inout ChangesetArena
    ) throws(ChangesetError) {
        switch result.kind {
        case .addTable: try addTable(&result, in: &arena)
        case .eraseTable: break
        case .createObject, .eraseObject: result.object = try key(of: result.className, in: &arena)
        case .addColumn: try addColumn(&result, in: &arena)
        case .eraseColumn: result.field = try name(in: &arena)
        case .update:
            try value(of: &result, in: &arena)
            if result.isIndexed {
                result.priorSize = try reader.u32()
            } else if try reader.bool() {
                result.flags.insert(.isDefault)
            }
        case .addInteger:
            result.type = .int
            result.word0 = UInt64(bitPattern: try reader.i64())
        case .arrayInsert, .arrayMove, .arrayErase: try arrayOperands(of: &result, in: &arena)
        case .clear: result.detail = try collection()
        case .setInsert: try value(of: &result, in: &arena)
        case .setErase:
            try value(of: &result, in: &arena)
            if result.type == .null { arena.holdsNullErasure = true }
        }
        arena.instructions.append(result)
        if let memoryBytesMax, arena.memoryBytes > memoryBytesMax {
            throw ChangesetError(.tooLarge, at: reader.offset, "the changeset needs too much memory")
        }
    }

    private mutating func addTable(_ result: inout Instruction, in arena: inout ChangesetArena) throws(ChangesetError) {
        let offset = reader.offset
        let code = try reader.u8()
        guard let tableType = TableType(rawValue: code) else {
            throw ChangesetError(.unknownTableType, at: offset, "AddTable: unknown table type \(code)")
        }
        result.detail = code
        guard tableType != .embedded else { return }
        result.field = try name(in: &arena)
        let typeOffset = reader.offset
        result.type = try type()
        guard result.type.isKeyType, result.type != .null else {
            throw ChangesetError(
                .invalidPrimaryKeyType, at: typeOffset, "AddTable: \(result.type) cannot be a primary key")
        }
        if try reader.bool() { result.flags.insert(.nullable) }
    }

    private mutating func addColumn(_ result: inout Instruction, in arena: inout ChangesetArena) throws(ChangesetError)
    {
        result.field = try name(in: &arena)
        let offset = reader.offset
        result.type = try type()
        if try reader.bool() { result.flags.insert(.nullable) }
        result.detail = try collection()
        if result.type == .link { result.word0 = UInt64(try name(in: &arena).rawValue) }
        if result.collection == .dictionary {
            result.word1 = UInt64(bitPattern: Int64(try type().rawValue))
        }
        guard result.type.isColumnType else {
            throw ChangesetError(
                .invalidColumnType, at: offset, "AddColumn: \(result.type) cannot be the type of a column")
        }
        guard result.type != .null || result.isNullable else {
            throw ChangesetError(.mixedNotNullable, at: offset, "AddColumn: a Mixed column that is not nullable")
        }
    }

    @inline(__always)
    private mutating func arrayOperands(
        of result: inout Instruction, in arena: inout ChangesetArena
    ) throws(ChangesetError) {
        guard result.isIndexed else {
            throw ChangesetError(.missingIndex, at: reader.offset, "\(result.kind) without an index")
        }
        if result.kind == .arrayInsert { try value(of: &result, in: &arena) }
        if result.kind == .arrayMove { result.destination = try reader.u32() }
        result.priorSize = try reader.u32()
    }

    // MARK: name := u32(index)

    @inline(__always)
    mutating func name(in arena: inout ChangesetArena) throws(ChangesetError) -> NameID {
        let offset = reader.offset
        let index = Int(try reader.u32())
        guard index < arena.strings.count - start.strings else {
            throw ChangesetError(.undefinedString, at: offset, "string number \(index) is not defined")
        }
        latestName = UInt64(index)
        return arena.strings[start.strings + index]
    }

    // MARK: type := i64; collection := u8

    @inline(__always)
    private mutating func type() throws(ChangesetError) -> PayloadType {
        let offset = reader.offset
        let code = try reader.i64()
        guard let type = PayloadType(rawValue: Int8(truncatingIfNeeded: code)) else {
            throw ChangesetError(.unknownDataType, at: offset, "unknown data type \(code)")
        }
        guard Int64(type.rawValue) == code else {
            throw ChangesetError(.codeTooLarge, at: offset, "data type \(code) exceeds a byte")
        }
        return type
    }

    private mutating func collection() throws(ChangesetError) -> UInt8 {
        let offset = reader.offset
        let code = try reader.u8()
        guard code <= CollectionType.set.rawValue else {
            throw ChangesetError(.unknownCollectionType, at: offset, "unknown collection type \(code)")
        }
        return code
    }

    // MARK: key := type key-body

    @inline(__always)
    mutating func key(
        of className: NameID, in arena: inout ChangesetArena
    ) throws(ChangesetError) -> ObjectKeyID {
        let offset = reader.offset
        var key = ObjectKey(className: className, type: try type())
        switch key.type {
        case .null: break
        case .int: key.word0 = UInt64(bitPattern: try reader.i64())
        case .string: key.word0 = UInt64(try name(in: &arena).rawValue)
        case .globalKey:
            key.word0 = try reader.u64()
            key.word1 = try reader.u64()
        case .objectID:
            key.word0 = try reader.littleEndian(8)
            key.word1 = try reader.littleEndian(4)
        case .uuid:
            key.word0 = try reader.littleEndian(8)
            key.word1 = try reader.littleEndian(8)
        default: throw ChangesetError(.invalidObjectKeyType, at: offset, "\(key.type) cannot be an object key")
        }
        return arena.objects.number(of: key)
    }

    // MARK: value := type value-body

    @inline(__always)
    private mutating func value(
        of result: inout Instruction, in arena: inout ChangesetArena
    ) throws(ChangesetError) {
        let offset = reader.offset
        result.type = try type()
        if result.type == .int { return result.word0 = UInt64(bitPattern: try reader.i64()) }
        try otherValue(of: &result, at: offset, in: &arena)
    }

    // MARK: path := u32(n) element{n}

    /// Decodes an object, a field and a path.
    /// - Returns: Whether the path has one element, which is left to be decoded: nothing before it is its own.
    @inline(__always)
    private mutating func pathHead(
        of result: inout Instruction, into arena: inout ChangesetArena
    ) throws(ChangesetError) -> Bool {
        result.object = try key(of: result.className, in: &arena)
        result.field = try name(in: &arena)
        let count = try reader.u32()
        guard count > 0 else { return false }
        // Each element takes a byte or more, so the elements of an arena are fewer than its bytes, whatever the count
        // says.
        result.pathStart = UInt32(arena.elements.count)
        result.pathCount = count
        guard count > 1 else { return true }
        for _ in 1..<count { arena.elements.append(try element(in: &arena)) }
        result.last = try element(in: &arena)
        return false
    }

    @inline(__always)
    private mutating func element(in arena: inout ChangesetArena) throws(ChangesetError) -> PathElement {
        let offset = reader.offset
        let code = try reader.i64()
        if code < 0 {
            if code != -1 { reader.isCanonical = false }
            return PathElement(name: try name(in: &arena))
        }
        guard code <= UInt32.max else {
            throw ChangesetError(.indexTooLarge, at: offset, "list index \(code) out of range")
        }
        return PathElement(index: UInt32(code))
    }
}

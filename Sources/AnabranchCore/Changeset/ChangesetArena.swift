/// Decoded changesets that share one table of names and one of objects, so that comparing names and objects
/// is comparing integers.
///
/// All changesets of a merge or an integration are decoded into one arena: instructions and path elements of all
/// changesets stand in contiguous arrays, and the bytes of payloads stay where they arrived. Format:
/// `Spec/Changeset.md`; merging: `Spec/Transform.md`.
public struct ChangesetArena: Sendable {
    /// The instructions and strings that a merge adds to a changeset (by rule R8 only, hence rarely any).
    struct Additions: Sendable {
        /// The instructions to be placed directly before one of the changeset's own, in this order.
        var prepended: [InstructionIndex: [InstructionIndex]] = [:]
        var strings: [NameID] = []
        /// The names of the changeset's string table, added ones included.
        var known: Set<NameID>

        init(to strings: ArraySlice<NameID>) { known = Set(strings) }
    }

    var bytes: [UInt8] = []
    var names = InternedStrings()
    var objects = ObjectTable()
    var strings: [NameID] = []
    var instructions: [Instruction] = []
    var elements: [PathElement] = []
    var headers: [ChangesetHeader] = []
    var additions: [ChangesetIndex: Additions] = [:]
    /// True if some payload is a Float or Double NaN: merging it at all makes its changeset dirty.
    var holdsNaN = false
    /// True if some instruction erases a class or a column: these meet instructions beyond those on the same object.
    var holdsErasure = false
    /// True if some SetErase takes null out of a set.
    package internal(set) var holdsNullErasure = false

    /// An arena without changesets.
    public init() {}

    /// Makes room for `count` changesets of `byteCount` bytes in total.
    public mutating func reserve(changesets count: Int, byteCount: Int) {
        headers.reserveCapacity(headers.count + count)
        bytes.reserveCapacity(bytes.count + byteCount)
        instructions.reserveCapacity(instructions.count + byteCount / Self.probableInstructionBytes)
    }

    private static let probableInstructionBytes = 9

    /// The number of changesets.
    public var count: Int { headers.count }

    /// The indices of all changesets, in the order in which they were decoded.
    public var changesets: Range<ChangesetIndex> { ChangesetIndex(0)..<ChangesetIndex(headers.count) }

    @inline(__always)
    subscript(changeset: ChangesetIndex) -> ChangesetHeader {
        get { headers[changeset.position] }
        _modify { yield &headers[changeset.position] }
    }

    @inline(__always)
    subscript(index: InstructionIndex) -> Instruction {
        get { instructions[index.position] }
        _modify { yield &instructions[index.position] }
    }

    /// The approximate size of the arena in memory, in bytes.
    public var memoryBytes: Int {
        bytes.count + headers.count * MemoryLayout<ChangesetHeader>.stride + instructions.count
            * MemoryLayout<Instruction>.stride
            + elements.count * MemoryLayout<PathElement>.stride + strings.count * MemoryLayout<NameID>.stride
            + (names.count + objects.count) * 2 * MemoryLayout<ObjectKey>.stride
    }

    /// The version that the changeset produced at its origin.
    public func version(of changeset: ChangesetIndex) -> UInt64 { self[changeset].version }

    /// When and where the changeset was made.
    public func tag(of changeset: ChangesetIndex) -> OriginTag { self[changeset].tag }

    /// True if a merge has changed the changeset since it was decoded (`Spec/Transform.md`, section 2.2).
    public func isDirty(_ changeset: ChangesetIndex) -> Bool { self[changeset].isDirty }

    /// True if no instruction is left: such a changeset encodes to zero bytes, whatever strings it has.
    public func isEmpty(_ changeset: ChangesetIndex) -> Bool { self[changeset].liveCount == 0 }

    /// The changeset's live instructions in order.
    public func instructions(of changeset: ChangesetIndex) -> [Instruction] {
        instructionIndices(of: changeset).map { self[$0] }
    }

    /// The instructions of a changeset as it was decoded, in order, as merges have left them: nil for those that they
    /// have discarded. The ones that merges have added are not among them.
    package func ownInstructions(of changeset: ChangesetIndex) -> [Instruction?] {
        self[changeset].instructions.map { self[$0].isDiscarded ? nil : self[$0] }
    }

    /// The indices of the changeset's live instructions, in order.
    func instructionIndices(of changeset: ChangesetIndex) -> [InstructionIndex] {
        var indices: [InstructionIndex] = []
        indices.reserveCapacity(self[changeset].liveCount)
        let prepended = additions.isEmpty ? [:] : additions[changeset]?.prepended ?? [:]
        for index in self[changeset].instructions {
            if !prepended.isEmpty, let before = prepended[index] {
                indices += before.filter { !self[$0].isDiscarded }
            }
            if !self[index].isDiscarded { indices.append(index) }
        }
        return indices
    }

    /// The names of the changeset's string table by local index, strings added by merges included.
    func stringTable(of changeset: ChangesetIndex) -> ArraySlice<NameID> {
        let own = strings[self[changeset].strings]
        guard !additions.isEmpty, let added = additions[changeset]?.strings else { return own }
        return own + added
    }

    /// The UTF-8 of a name in the table of this arena; they are valid as long as the arena.
    public func bytes(of name: NameID) -> ArraySlice<UInt8> {
        let span = names.spans[Int(name.rawValue)]
        return bytes[Int(span.offset)..<Int(span.offset) + Int(span.count)]
    }

    /// Assigns the GlobalKeys without an owner, which a client made before it had an ident, to its client file. Nothing
    /// may be decoded afterwards.
    package mutating func adopt(_ ident: ClientFileID) { objects.adopt(ident) }

    // MARK: Changing

    /// Stores an instruction that a merge has changed or discarded. Its changeset becomes dirty.
    @inline(__always)
    mutating func store(_ instruction: Instruction, at index: InstructionIndex) {
        if instruction.isDiscarded { self[instruction.owner].liveCount -= 1 }
        self[instruction.owner].isDirty = true
        self[index] = instruction
    }

    /// Discards an instruction. Its changeset becomes dirty.
    mutating func discard(_ index: InstructionIndex) {
        var instruction = self[index]
        instruction.discard()
        store(instruction, at: index)
    }

    /// Inserts an instruction into the changeset of another one, directly before it and after those that were inserted
    /// there earlier. The changeset becomes dirty. The names that the instruction uses have to be among the changeset's
    /// strings.
    @discardableResult
    mutating func insert(_ instruction: Instruction, before index: InstructionIndex) -> InstructionIndex {
        let owner = self[index].owner
        let inserted = InstructionIndex(instructions.count)
        var added = additions.removeValue(forKey: owner) ?? Additions(to: strings[self[owner].strings])
        added.prepended[index, default: []].append(inserted)
        additions[owner] = added
        self[owner].liveCount += 1
        self[owner].isDirty = true
        instructions.append(instruction)
        return inserted
    }

    /// The path of a path instruction, below its field.
    public func path(of instruction: Instruction) -> [PathElement] {
        guard instruction.pathCount > 0 else { return [] }
        let start = Int(instruction.pathStart)
        return elements[start..<start + Int(instruction.pathCount) - 1] + [instruction.last]
    }

    // MARK: Values

    /// The class name and primary key that an object number of this arena stands for.
    public func primaryKey(of object: ObjectKeyID) -> (className: NameID, key: PrimaryKey) {
        let key = objects.keys[Int(object.rawValue)]
        let value: PrimaryKey =
            switch key.type {
            case .int: .int(Int64(bitPattern: key.word0))
            case .string: .string(Array(bytes(of: NameID(UInt32(truncatingIfNeeded: key.word0)))))
            case .globalKey: .globalKey(GlobalKey(high: key.word0, low: key.word1))
            case .objectID: .objectID(ObjectID(low: key.word0, high: key.word1))
            case .uuid: .uuid(UUIDBytes(low: key.word0, high: key.word1))
            default: .null
            }
        return (key.className, value)
    }

    /// The bytes of a String or Binary payload.
    func content(of instruction: Instruction) -> ArraySlice<UInt8> {
        bytes[instruction.bytesOffset..<instruction.bytesOffset + instruction.bytesCount]
    }

    /// The payload of an Update, ArrayInsert, SetInsert or SetErase, and the amount of an AddInteger.
    public func payload(of instruction: Instruction) -> Payload {
        let (word0, word1) = (instruction.word0, instruction.word1)
        switch instruction.type {
        case .null, .globalKey: return .null
        case .set: return .set
        case .list: return .list
        case .erased: return .erased
        case .dictionary: return .dictionary
        case .objectValue: return .objectValue
        case .int: return .int(Int64(bitPattern: word0))
        case .bool: return .bool(word0 != 0)
        case .string: return .string(Array(content(of: instruction)))
        case .binary: return .binary(Array(content(of: instruction)))
        case .timestamp:
            return .timestamp(
                Timestamp(seconds: Int64(bitPattern: word0), nanoseconds: Int32(truncatingIfNeeded: word1)))
        case .float: return .float(Float(bitPattern: UInt32(truncatingIfNeeded: word0)))
        case .double: return .double(Double(bitPattern: word0))
        case .decimal: return .decimal(Decimal128(low: word0, high: word1))
        case .objectID: return .objectID(ObjectID(low: word0, high: word1))
        case .uuid: return .uuid(UUIDBytes(low: word0, high: word1))
        case .link:
            let (className, key) = primaryKey(of: instruction.linked)
            return .link(className: Array(bytes(of: className)), key: key)
        }
    }
}

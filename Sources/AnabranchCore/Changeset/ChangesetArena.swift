/// Decoded changesets that share one table of names and one of objects, so that comparing names and objects
/// is comparing integers.
///
/// Everything that a merge or an integration looks at together is decoded into one arena: instructions and path
/// elements of all changesets stand in contiguous arrays, and the bytes of payloads stay where they arrived.
/// Format: `Spec/Changeset.md`; merging: `Spec/Transform.md`.
public struct ChangesetArena: Sendable {
    struct Header: Sendable {
        let version: UInt64
        let tag: OriginTag
        private let places: (bytes: Place, strings: Place, instructions: Place)
        /// How many instructions are not discarded, prepended ones included.
        var liveCount: Int
        /// The encoder would write exactly the bytes that were decoded.
        let isCanonical: Bool
        var isDirty = false

        /// A range in as few bytes as will do: what an arena may hold is limited to 2^32 bytes.
        private struct Place: Sendable {
            var start: UInt32
            var end: UInt32

            init(_ range: Range<Int>) {
                start = UInt32(truncatingIfNeeded: range.lowerBound)
                end = UInt32(truncatingIfNeeded: range.upperBound)
            }

            @inline(__always) var range: Range<Int> { Int(start)..<Int(end) }
        }

        init(
            version: UInt64, tag: OriginTag, bytes: Range<Int>, strings: Range<Int>, instructions: Range<Int>,
            isCanonical: Bool
        ) {
            self.version = version
            self.tag = tag
            places = (Place(bytes), Place(strings), Place(instructions))
            liveCount = instructions.count
            self.isCanonical = isCanonical
        }

        @inline(__always) var bytes: Range<Int> { places.bytes.range }
        /// The changeset's own string table: the names of the arena by local index.
        @inline(__always) var strings: Range<Int> { places.strings.range }
        @inline(__always) var instructions: Range<Int> { places.instructions.range }
    }

    /// What a merge adds to a changeset (rule R8 only, hence rarely any).
    struct Additions: Sendable {
        /// Instructions to stand directly before one of the changeset, in this order.
        var prepended: [Int: [Int]] = [:]
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
    var headers: [Header] = []
    var additions: [Int: Additions] = [:]
    /// Some payload is a Float or Double NaN: it makes a changeset dirty by being merged at all.
    var holdsNaN = false
    /// Some instruction erases a class or a column: such ones meet others than those on the same object.
    var holdsErasure = false
    /// Kept between merges: chains of the instructions on each object, and their links by instruction.
    var objectChains = InstructionChains()
    var links: [UInt32] = []
    var postponed = Postponed()
    /// How many more pairs merges may visit.
    var pairsLeft = mergedPairsMax

    /// The order of the changesets' tags, for as many changesets as there were when a list was last merged.
    var tagRanks: [UInt32] = []

    package var tuning = MergeThresholds()
    package internal(set) var listPairs = ListPairs()

    public init() {}

    /// Makes room for changesets of so many bytes together.
    public mutating func reserve(changesets count: Int, byteCount: Int) {
        headers.reserveCapacity(headers.count + count)
        bytes.reserveCapacity(bytes.count + byteCount)
        instructions.reserveCapacity(instructions.count + byteCount / Self.probableInstructionBytes)
    }

    private static let probableInstructionBytes = 9

    /// The number of changesets.
    public var count: Int { headers.count }

    /// About what the arena occupies, in bytes.
    public var memoryBytes: Int {
        bytes.count + headers.count * MemoryLayout<Header>.stride + instructions.count
            * MemoryLayout<Instruction>.stride
            + elements.count * MemoryLayout<PathElement>.stride + strings.count * MemoryLayout<NameID>.stride
            + (names.count + objects.count) * 2 * MemoryLayout<ObjectKey>.stride
    }

    /// The version that the changeset produced where it comes from.
    public func version(of changeset: Int) -> UInt64 { headers[changeset].version }

    public func tag(of changeset: Int) -> OriginTag { headers[changeset].tag }

    /// Whether a merge has changed the changeset since it was decoded (`Spec/Transform.md`, section 2.2).
    public func isDirty(_ changeset: Int) -> Bool { headers[changeset].isDirty }

    /// Whether no instruction is left: such a changeset encodes to zero bytes, whatever strings it has.
    public func isEmpty(_ changeset: Int) -> Bool { headers[changeset].liveCount == 0 }

    /// The changeset's live instructions in order.
    public func instructions(of changeset: Int) -> [Instruction] {
        instructionIndices(of: changeset).map { instructions[$0] }
    }

    /// Where the changeset's live instructions stand, in order.
    func instructionIndices(of changeset: Int) -> [Int] {
        var indices: [Int] = []
        indices.reserveCapacity(headers[changeset].liveCount)
        let prepended = additions.isEmpty ? [:] : additions[changeset]?.prepended ?? [:]
        for index in headers[changeset].instructions {
            if !prepended.isEmpty, let before = prepended[index] {
                indices += before.filter { !instructions[$0].isDiscarded }
            }
            if !instructions[index].isDiscarded { indices.append(index) }
        }
        return indices
    }

    /// The names of the changeset's string table by local index, strings added by merges included.
    func stringTable(of changeset: Int) -> ArraySlice<NameID> {
        let own = strings[headers[changeset].strings]
        guard !additions.isEmpty, let added = additions[changeset]?.strings else { return own }
        return own + added
    }

    /// The bytes of a name.
    public func bytes(of name: NameID) -> ArraySlice<UInt8> {
        let place = names.places[Int(name.rawValue)]
        return bytes[Int(place.offset)..<Int(place.offset) + Int(place.count)]
    }

    /// The path of a path instruction, below its field.
    public func path(of instruction: Instruction) -> [PathElement] {
        guard instruction.pathCount > 0 else { return [] }
        let start = Int(instruction.pathStart)
        return elements[start..<start + Int(instruction.pathCount) - 1] + [instruction.last]
    }

    // MARK: Values

    /// The class and primary key of an object.
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

    /// The payload of an Update, ArrayInsert, SetInsert or SetErase, and the amount of an AddInteger.
    public func payload(of instruction: Instruction) -> Payload {
        let (word0, word1) = (instruction.word0, instruction.word1)
        let content = { bytes[instruction.bytesOffset..<instruction.bytesOffset + instruction.bytesCount] }
        switch instruction.type {
        case .null, .globalKey: return .null
        case .set: return .set
        case .list: return .list
        case .erased: return .erased
        case .dictionary: return .dictionary
        case .objectValue: return .objectValue
        case .int: return .int(Int64(bitPattern: word0))
        case .bool: return .bool(word0 != 0)
        case .string: return .string(Array(content()))
        case .binary: return .binary(Array(content()))
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

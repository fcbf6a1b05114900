/// The number of a name in the common table of a `ChangesetArena`: equal names have equal numbers.
public struct NameID: Hashable, Sendable {
    /// The number, from 0.
    public let rawValue: UInt32

    @inline(__always) init(_ rawValue: UInt32) { self.rawValue = rawValue }
}

/// The number of an object, that is of a class and a primary key, in the common table of a `ChangesetArena`.
public struct ObjectKeyID: Hashable, Sendable {
    /// The number, from 0.
    public let rawValue: UInt32

    @inline(__always) init(_ rawValue: UInt32) { self.rawValue = rawValue }

    /// The number in instructions that name no object.
    static let none = ObjectKeyID(.max)
}

/// One element of a path: a list index, or the name of a dictionary key or of a field (`Spec/Changeset.md`, section 8).
public struct PathElement: Hashable, Sendable {
    /// An index as it is; a name as the complement of its number, hence negative.
    private var raw: Int64

    @inline(__always) init(index: UInt32) { raw = Int64(index) }
    @inline(__always) init(name: NameID) { raw = ~Int64(name.rawValue) }

    /// True if the element is a list index, not a name.
    @inline(__always) public var isIndex: Bool { raw >= 0 }

    /// Different elements have different keys.
    @inline(__always) var key: UInt64 { UInt64(bitPattern: raw) }

    /// The list index; meaningless for a name.
    @inline(__always)
    public var index: UInt32 {
        get { UInt32(truncatingIfNeeded: raw) }
        set { raw = Int64(newValue) }
    }

    /// The name; meaningless for an index.
    @inline(__always) public var name: NameID { NameID(UInt32(truncatingIfNeeded: ~raw)) }
}

/// A decoded instruction: a value of fixed size in the contiguous storage of its `ChangesetArena`.
///
/// Names and objects are numbers of the arena's common tables. What merging can change stands here or in the arena's
/// path elements; the bytes of strings and binaries stay where they arrived and are referenced. One cache line.
public struct Instruction: Sendable {
    /// The kind of instruction, such as Update or ArrayInsert.
    public internal(set) var kind: InstructionKind
    var flags: Flags = []
    /// The type of the payload; for AddColumn of the column, for AddTable of the primary key.
    public internal(set) var type: PayloadType = .null
    /// A `CollectionType` (AddColumn, Clear) or a `TableType` (AddTable).
    var detail: UInt8 = 0
    /// The changeset of the arena that the instruction belongs to.
    var owner: ChangesetIndex
    /// The class that the instruction is about, or whose object it is about.
    public internal(set) var className: NameID
    /// The field or column; for AddTable the primary key field.
    public internal(set) var field = NameID(0)
    /// The object; of an instruction on the schema, no meaningful number.
    public internal(set) var object: ObjectKeyID = .none
    /// The position of the path's elements, except the last one, among the arena's path elements.
    var pathStart: UInt32 = 0
    /// The number of path elements, the last one included.
    var pathCount: UInt32 = 0
    /// The size of the list before the instruction (array instructions and array Updates).
    public internal(set) var priorSize: UInt32 = 0
    /// The index of the element after an ArrayMove.
    public internal(set) var destination: UInt32 = 0
    /// The last path element; the index of a list instruction. Meaningless when the path is empty.
    var last = PathElement(index: 0)
    /// The payload, see `ChangesetArena.payload(of:)`.
    var word0: UInt64 = 0
    var word1: UInt64 = 0

    struct Flags: OptionSet, Sendable {
        let rawValue: UInt8
        static let discarded = Flags(rawValue: 1)
        static let isDefault = Flags(rawValue: 2)
        static let nullable = Flags(rawValue: 4)
    }

    /// True once a merge has discarded it: it is never merged, applied or encoded again.
    @inline(__always) public var isDiscarded: Bool { flags.contains(.discarded) }
    /// True for an Update whose value was set as a default of a newly created object.
    public var isDefault: Bool { flags.contains(.isDefault) }
    /// True if the column of an AddColumn, or the primary key of an AddTable, is nullable.
    public var isNullable: Bool { flags.contains(.nullable) }
    /// The collection type of an AddColumn or Clear.
    public var collection: CollectionType { CollectionType(rawValue: detail) ?? .single }
    /// The kind of class of an AddTable.
    public var tableType: TableType { TableType(rawValue: detail) ?? .topLevel }

    /// True if the path is not empty and ends in a list index.
    @inline(__always) public var isIndexed: Bool { pathCount > 0 && last.isIndex }

    /// True if it inserts, erases, moves or sets an element of a list that is a field of its object.
    @inline(__always)
    var editsElement: Bool {
        guard pathCount == 1, last.isIndex else { return false }
        switch kind {
        case .arrayInsert, .arrayErase, .arrayMove, .update: return true
        default: return false
        }
    }

    /// True if both edit elements of one list, `head` those of a list that is a field of its object.
    @inline(__always)
    func editsElement(ofListOf head: Instruction) -> Bool {
        object == head.object && field == head.field && editsElement
    }

    /// Of an AddColumn of type Link, the target class.
    var target: NameID { NameID(UInt32(truncatingIfNeeded: word0)) }
    /// Of an AddColumn of a dictionary, the type of its keys.
    var keyType: PayloadType { PayloadType(rawValue: Int8(truncatingIfNeeded: word1)) ?? .string }
    /// The linked object of a payload of type Link.
    var linked: ObjectKeyID { ObjectKeyID(UInt32(truncatingIfNeeded: word0)) }
    /// The offset of a String or Binary payload in the arena's bytes.
    var bytesOffset: Int { Int(word0 >> 32) }
    /// The length of a String or Binary payload in bytes.
    var bytesCount: Int { Int(word0 & 0xFFFF_FFFF) }
    /// The offset of a String or Binary payload in the string buffer of its changeset (rule R28).
    var bufferOffset: UInt64 { word1 }
    /// Of a payload of type Link: the indices of the class and of a String key in the changeset's own string table, in
    /// one number (rule R28).
    var linkedIndices: UInt64 { word1 }
}

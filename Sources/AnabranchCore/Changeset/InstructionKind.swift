/// The fourteen instructions, by opcode (`Spec/Changeset.md`, section 10).
public enum InstructionKind: UInt8, CaseIterable, Sendable {
    /// The cases are named as in the chapter.
    case addTable = 0
    case eraseTable
    case createObject
    case eraseObject
    case update
    case addInteger
    case addColumn
    case eraseColumn
    case arrayInsert
    case arrayMove
    case arrayErase
    case clear
    case setInsert
    case setErase

    /// True for AddTable, EraseTable, AddColumn and EraseColumn, which name no object.
    @inline(__always)
    public var isSchema: Bool { 0b0000_0000_1100_0011 >> UInt16(rawValue) & 1 == 1 }

    /// True for the instructions that address a place in an object: class, key, field and path.
    @inline(__always)
    public var hasPath: Bool { 0b0011_1111_0011_0000 >> UInt16(rawValue) & 1 == 1 }

    /// True for the instructions that carry a payload.
    @inline(__always)
    public var hasPayload: Bool { 0b0011_0001_0001_0000 >> UInt16(rawValue) & 1 == 1 }
}

/// The type of a payload, of a column or of a primary key (`Spec/Changeset.md`, section 6.1).
public enum PayloadType: Int8, CaseIterable, Sendable {
    /// The types from −6 to −1 stand in values and keys only, never in a column.
    case set = -6
    case list
    case erased
    case dictionary
    case objectValue
    case globalKey
    /// As a value: null of any type. As the type of a column: Mixed.
    case null
    /// Types of values, and of columns that hold them.
    case int
    case bool
    case string
    case binary
    case timestamp
    case float
    case double
    case decimal
    case link
    case objectID
    case uuid

    /// True for a type that an object key may have.
    var isKeyType: Bool {
        switch self {
        case .null, .int, .string, .globalKey, .objectID, .uuid: true
        default: false
        }
    }

    /// True for a type that a column may be declared with; `null` declares a Mixed column.
    var isColumnType: Bool { rawValue >= PayloadType.null.rawValue }
}

/// The kind of content that a property holds: one value or a collection (`Spec/Changeset.md`, section 9).
public enum CollectionType: UInt8, CaseIterable, Sendable {
    /// One value.
    case single = 0
    /// Collections of values.
    case list
    case dictionary
    case set
}

/// The kind of a class (`Spec/Changeset.md`, section 9).
public enum TableType: UInt8, CaseIterable, Sendable {
    /// Objects that stand for themselves.
    case topLevel = 0
    /// Objects that belong to a field of another object.
    case embedded
    /// Objects that clients only send: the server keeps them, clients do not.
    case topLevelAsymmetric
}

import Synchronization

/// The classes of an `ObjectGraph`: their kinds, keys and columns (`Spec/State.md`, A1 to A4).
struct Schema: Sendable {
    /// The most classes that a state can have had, erased ones included. Honest schemas have some hundreds.
    static let classCountMax = 16_384
    /// The most columns that all present classes together can have had, erased ones included.
    static let slotCountMax = 262_144
    /// The longest String that is a primary key: it stands in the row of each link from and to its object. Rows can
    /// have a lower bound.
    static let primaryKeyBytesMax = 4_096

    /// The classes by class number minus one; an erased class keeps its place.
    private(set) var classes: [ClassState] = []
    /// The traits of the classes, by class number minus one.
    private var traits: [ClassTraits] = []
    private var numbers: [[UInt8]: ClassID] = [:]
    /// The number of columns that all present classes together have had, erased ones included.
    private(set) var slotCount = 0
    /// The number of columns that have ever been erased.
    private(set) var erasedColumnCount: UInt32
    /// Two schemas with one stamp have the same classes and columns.
    private(set) var stamp = SchemaStamp() {
        didSet { classSchemas = ClassSchemas() }
    }
    /// The classes of the stamp as readers know them.
    private(set) var classSchemas = ClassSchemas()

    init(erasedColumnCount: UInt32 = 0) { self.erasedColumnCount = erasedColumnCount }

    func number(of name: [UInt8]) -> ClassID? { numbers[name] }

    /// A class by a number that this schema has given out.
    subscript(number: ClassID) -> ClassState {
        @inline(__always) _read { yield classes[Int(number.rawValue) - 1] }
        @inline(__always) _modify { yield &classes[Int(number.rawValue) - 1] }
    }

    /// The traits of a class, which instructions on objects need: reading the whole `ClassState` would be costly.
    @inline(__always)
    func traits(of number: ClassID) -> ClassTraits { traits[Int(number.rawValue) - 1] }

    /// The numbers of the present classes, ascending.
    var present: [ClassID] {
        classes.indices.filter { !classes[$0].isErased }.map { ClassID(UInt32($0 + 1)) }
    }

    func contains(_ number: ClassID) -> Bool {
        number.rawValue > 0 && number.rawValue <= classes.count && !self[number].isErased
    }

    mutating func add(_ state: ClassState) {
        classes.append(state)
        traits.append(ClassTraits(of: state))
        slotCount += state.columns.count
        if !state.isErased { numbers[state.name] = ClassID(UInt32(classes.count)) }
        stamp = SchemaStamp()
    }

    /// Adds a column to a class.
    mutating func add(_ column: Column, to number: ClassID) {
        self[number].add(column)
        slotCount += 1
        stamp = SchemaStamp()
    }

    mutating func eraseColumn(at slot: Int, of number: ClassID) {
        self[number].eraseColumn(at: slot)
        erasedColumnCount &+= 1
        stamp = SchemaStamp()
    }

    mutating func erase(_ number: ClassID) {
        slotCount -= self[number].columns.count
        numbers[self[number].name] = nil
        self[number] = .erased
        traits[Int(number.rawValue) - 1] = ClassTraits(of: .erased)
        stamp = SchemaStamp()
    }

    /// A column that holds, or may hold, links: an embedded class stands for itself, not for its owners.
    struct LinkingColumn: Hashable, Sendable {
        var owner: ClassID
        var slot: Int
    }
}

/// Identifies a set of classes and columns for as long as the process runs.
package struct SchemaStamp: Hashable, Sendable {
    private static let last = Atomic<UInt64>(0)
    private let number = SchemaStamp.last.wrappingAdd(1, ordering: .relaxed).newValue
}

/// One class.
struct ClassState: Sendable {
    /// The most columns that a class can have had, erased ones included: an object may have a value for each.
    static let slotCountMax = 4_096

    let name: [UInt8]
    let kind: TableType
    /// The primary key column; nil where objects have GlobalKeys or, embedded, no keys.
    let key: KeyColumn?
    /// The columns by slot; the slot of an erased column stays empty and is never used again.
    private(set) var columns: [Column?] = []
    private var slots: [[UInt8]: Int] = [:]
    /// The columns that link to this class, in the order in which they became known to it: a link column when it was
    /// added, a Mixed column when it first held a link. They stay when they are erased.
    private(set) var linkingColumns: [Schema.LinkingColumn] = []
    private var knownLinkingColumns: Set<Schema.LinkingColumn> = []
    /// Classes whose Mixed columns have ever held a link to this one, which protects it from EraseTable (B3).
    var mixedLinkers: Set<ClassID> = []
    /// The low word of the next GlobalKey made here (A2).
    var nextGlobalKey: UInt64 = 0
    private(set) var isErased = false

    /// Keeps the place of a class that was erased.
    static let erased: ClassState = {
        var state = ClassState(name: [], kind: .topLevel, key: nil)
        state.isErased = true
        return state
    }()

    struct KeyColumn: Equatable, Sendable {
        let name: [UInt8]
        let type: PayloadType
        let isNullable: Bool
    }

    init(name: [UInt8], kind: TableType, key: KeyColumn?) {
        self.name = name
        self.kind = kind
        self.key = key
    }

    func place(of field: [UInt8]) -> Place? {
        guard let slot = slots[field] else { return nil }
        return columns[slot]?.place
    }

    func isLinked(from linking: Schema.LinkingColumn) -> Bool { knownLinkingColumns.contains(linking) }

    /// Adds a column that links to this class, unless it is known.
    mutating func add(_ linking: Schema.LinkingColumn) {
        if knownLinkingColumns.insert(linking).inserted { linkingColumns.append(linking) }
    }

    func isKey(_ field: [UInt8]) -> Bool { key?.name == field }

    /// Adds a column, or nil in place of one that was erased.
    mutating func add(_ column: Column?) {
        if let column { slots[column.name] = columns.count }
        columns.append(column)
    }

    fileprivate mutating func eraseColumn(at slot: Int) {
        if let column = columns[slot] { slots[column.name] = nil }
        columns[slot] = nil
    }
}

/// The properties of a class that never change.
struct ClassTraits: Sendable {
    let kind: TableType
    private let keyType: PayloadType?
    private let isKeyNullable: Bool

    init(of state: ClassState) {
        kind = state.kind
        keyType = state.key?.type
        isKeyNullable = state.key?.isNullable == true
    }

    /// True if objects of the class can have this key (B1, step 2).
    func accepts(_ key: PrimaryKey) -> Bool {
        switch key {
        case .globalKey: keyType == nil
        case .null: isKeyNullable
        default: keyType == key.type
        }
    }
}

/// A column and what may stand in it.
struct Column: Sendable {
    let name: [UInt8]
    let place: Place

    /// The content of this column in a new object (A4).
    var initial: Content {
        switch place.collection {
        case .list: return .list(ContentList())
        case .set: return .set(ContentSet())
        case .dictionary: return .dictionary(ContentDictionary())
        case .single: break
        }
        guard !place.isNullable else { return .null }
        switch place.type {
        case .int: return .int(0)
        case .bool: return .bool(false)
        case .string: return .string([])
        case .binary: return .binary([])
        case .timestamp: return .timestamp(Timestamp(seconds: 0, nanoseconds: 0))
        case .float: return .float(0)
        case .double: return .double(0)
        case .decimal: return .decimal(.zero)
        case .objectID: return .objectID(ObjectID(low: 0, high: 0))
        case .uuid: return .uuid(UUIDBytes(low: 0, high: 0))
        default: return .null
        }
    }
}

/// The type of a place: a column, an element of its collection, or a place in a collection nested in a Mixed.
struct Place: Sendable {
    /// The class of the top-level or embedded object whose column the place is, or is in.
    var owner: ClassID
    var slot: Int
    /// The type of the value or of the elements; `null` means Mixed.
    var type: PayloadType
    var isNullable: Bool
    var collection: CollectionType
    /// The class linked to, if the place holds links.
    var target = ClassID(0)
    /// True if the class linked to is embedded: the place holds the objects themselves.
    var isEmbedded = false

    static let none = Place(owner: ClassID(0), slot: 0, type: .null, isNullable: true, collection: .single)

    @inline(__always) var isMixed: Bool { type == .null }

    /// True for a set of a nullable type other than Mixed: released clients cannot apply a SetErase of null there (B9).
    var holdsTypedNulls: Bool { collection == .set && isNullable && !isMixed }

    /// An element of the collection here, or of a collection nested in the Mixed here.
    @inline(__always)
    var element: Place {
        var element = self
        element.collection = .single
        return element
    }
}

extension Decimal128 {
    /// 0 × 10^0.
    package static let zero = Decimal128(low: 0, high: 0x3040_0000_0000_0000)
    /// Stands for null wherever it is read (`Spec/State.md`, A5).
    static let nullMarker = Decimal128(low: 0xAA, high: 0x7C00_0000_0000_0000)
}

import AnabranchCore

/// An element as the file has it, before links are followed and collections read.
enum Element {
    /// A value that is not a link; null of any type.
    case value(Payload)
    case link(ObjectReference)
    /// The root of the collection that a property holds; 0 if it is empty.
    case collection(Int64)
    /// A collection inside a Mixed value.
    case list(Int64)
    case dictionary(Int64)

    var isNull: Bool { if case .value(.null) = self { true } else { false } }
    var isCollection: Bool {
        switch self {
        case .list, .dictionary: true
        case .value, .link, .collection: false
        }
    }
}

/// The object that a link refers to.
struct ObjectReference {
    /// The number of the table; nil where only the column states it.
    var table: Int64?
    /// From 0 on an object, from -2 down a tombstone.
    var object: Int64
}

/// The values of up to 256 objects in one column, or of up to 1,000 elements of a collection (`Spec/RealmFile.md`,
/// section 2). All elements of an existing leaf are known to be readable.
protocol ColumnLeaf {
    var count: Int { get }
    func element(at index: Int) -> Element
}

/// Integers that are never null.
struct IntegerLeaf: ColumnLeaf {
    private let node: ArrayNode

    init(_ node: ArrayNode) throws(RealmFileError) {
        try node.requireIntegers()
        self.node = node
    }

    var count: Int { node.count }
    func integer(at index: Int) -> Int64 { node.integer(at: index) }
    func element(at index: Int) -> Element { .value(.int(integer(at: index))) }
}

/// Integers, preceded by one that stands for null.
struct OptionalIntegerLeaf: ColumnLeaf {
    private let node: ArrayNode

    init(_ node: ArrayNode) throws(RealmFileError) {
        try node.requireIntegers()
        guard node.count > 0 else { throw .damaged(at: node.ref, "nullable integers without the one that is null") }
        self.node = node
    }

    var count: Int { node.count - 1 }

    func integer(at index: Int) -> Int64? {
        let value = node.integer(at: index + 1)
        return value == node.integer(at: 0) ? nil : value
    }

    func element(at index: Int) -> Element { .value(integer(at: index).map(Payload.int) ?? .null) }
}

struct BoolLeaf: ColumnLeaf {
    private let node: ArrayNode
    private static let null: Int64 = 3

    init(_ node: ArrayNode) throws(RealmFileError) {
        try node.requireIntegers()
        for index in 0..<node.count where ![0, 1, Self.null].contains(node.integer(at: index)) {
            throw .damaged(at: node.ref, "\(node.integer(at: index)) is not of type Bool")
        }
        self.node = node
    }

    var count: Int { node.count }

    func element(at index: Int) -> Element {
        let value = node.integer(at: index)
        return .value(value == Self.null ? .null : .bool(value == 1))
    }
}

/// Floats or Doubles; one pattern of bits is null.
struct FloatingPointLeaf: ColumnLeaf {
    private let node: ArrayNode
    private let isDouble: Bool

    init(_ node: ArrayNode, isDouble: Bool) throws(RealmFileError) {
        guard node.kind == .bytes, node.count == 0 || node.width == (isDouble ? 8 : 4) else {
            throw .damaged(
                at: node.ref, "an array of \(node.width) bytes an element holds no \(isDouble ? "Double" : "Float")s")
        }
        (self.node, self.isDouble) = (node, isDouble)
    }

    var count: Int { node.count }

    func element(at index: Int) -> Element {
        if isDouble {
            let bits = node.load(index, as: UInt64.self)
            return .value(bits == 0x7FF8_0000_0000_00AA ? .null : .double(Double(bitPattern: bits)))
        }
        let bits = node.load(index, as: UInt32.self)
        return .value(bits == 0x7FC0_00AA ? .null : .float(Float(bitPattern: bits)))
    }
}

/// Links of a property that is not a collection, stored as the number of the object plus one; 0 is null. In lists and
/// sets the number itself.
struct LinkLeaf: ColumnLeaf {
    private let node: ArrayNode
    private let table: Int64?
    private let isOptional: Bool

    init(_ node: ArrayNode, to table: Int64?, isOptional: Bool) throws(RealmFileError) {
        try node.requireIntegers()
        (self.node, self.table, self.isOptional) = (node, table, isOptional)
    }

    var count: Int { node.count }

    func element(at index: Int) -> Element {
        let value = node.integer(at: index)
        if isOptional, value == 0 { return .value(.null) }
        return .link(ObjectReference(table: table, object: isOptional ? value &- 1 : value))
    }
}

/// The roots of collections; 0 is an empty one.
struct CollectionLeaf: ColumnLeaf {
    private let node: ArrayNode

    init(_ node: ArrayNode) throws(RealmFileError) {
        guard node.hasRefs || node.count == 0 || node.width == 0 else {
            throw .damaged(at: node.ref, "collections without refs")
        }
        try node.requireIntegers()
        self.node = node
    }

    var count: Int { node.count }
    func element(at index: Int) -> Element { .collection(node.integer(at: index)) }
}

/// Seconds, and nanoseconds of the same sign.
struct TimestampLeaf: ColumnLeaf {
    private let seconds: OptionalIntegerLeaf
    private let nanoseconds: IntegerLeaf

    init(_ node: ArrayNode, in reading: FileReading) throws(RealmFileError) {
        try node.requireRefs()
        guard node.count == 2 else { throw .damaged(at: node.ref, "timestamps of \(node.count) parts") }
        seconds = try OptionalIntegerLeaf(try reading.array(node.integer(at: 0)))
        nanoseconds = try IntegerLeaf(try reading.array(node.integer(at: 1)))
        guard seconds.count == nanoseconds.count else {
            throw .damaged(at: node.ref, "\(seconds.count) seconds, and \(nanoseconds.count) nanoseconds")
        }
        for index in 0..<count {
            guard let whole = seconds.integer(at: index) else { continue }
            _ = try Timestamp(seconds: whole, checking: nanoseconds.integer(at: index), of: node)
        }
    }

    var count: Int { seconds.count }

    func element(at index: Int) -> Element {
        guard let whole = seconds.integer(at: index) else { return .value(.null) }
        let part = Int32(truncatingIfNeeded: nanoseconds.integer(at: index))
        return .value(.timestamp(Timestamp(seconds: whole, nanoseconds: part)))
    }
}

extension Timestamp {
    init(seconds: Int64, checking nanoseconds: Int64, of node: ArrayNode) throws(RealmFileError) {
        guard nanoseconds.magnitude < 1_000_000_000, seconds.signum() * nanoseconds.signum() >= 0 else {
            throw .damaged(at: node.ref, "\(nanoseconds) nanoseconds beside \(seconds) seconds")
        }
        self.init(seconds: seconds, nanoseconds: Int32(truncatingIfNeeded: nanoseconds))
    }
}

/// ObjectIds or UUIDs: blocks of up to eight, each preceded by a byte whose bits tell which are null.
struct IdentifierLeaf: ColumnLeaf {
    private let node: ArrayNode
    private let isUUID: Bool
    let count: Int

    init(_ node: ArrayNode, isUUID: Bool) throws(RealmFileError) {
        (self.node, self.isUUID) = (node, isUUID)
        let valueBytes = isUUID ? 16 : 12
        let (blocks, rest) = node.byteCount.quotientAndRemainder(dividingBy: 8 * valueBytes + 1)
        guard node.kind == .bytes, node.count == 0 || node.width == 1,
            rest == 0 || rest > 1 && (rest - 1).isMultiple(of: valueBytes)
        else { throw .damaged(at: node.ref, "\(node.byteCount) bytes are no \(isUUID ? "UUID" : "ObjectId")s") }
        count = blocks * 8 + max(0, rest - 1) / valueBytes
    }

    func element(at index: Int) -> Element {
        let valueBytes = isUUID ? 16 : 12
        let (block, place) = index.quotientAndRemainder(dividingBy: 8)
        let start = block * (8 * valueBytes + 1), first = start + 1 + place * valueBytes
        guard node.bytes(start..<start + 1)[0] >> UInt8(place) & 1 == 0 else { return .value(.null) }
        let bytes = node.bytes(first..<first + valueBytes)
        let value = isUUID ? UUIDBytes(bytes).map(Payload.uuid) : ObjectID(bytes).map(Payload.objectID)
        return .value(value ?? .null)
    }
}

/// The number of a class in one `ObjectGraph`, in order of creation from 1; never used again, so a link to a class that
/// was erased and added again stays distinct.
public struct ClassID: Hashable, Comparable, Sendable {
    /// The number, from 1; 0 stands for no class.
    public let rawValue: UInt32

    /// The class with this number.
    public init(_ rawValue: UInt32) { self.rawValue = rawValue }

    /// A class that was created before another one comes first.
    public static func < (left: ClassID, right: ClassID) -> Bool { left.rawValue < right.rawValue }
}

/// A top-level object of an `ObjectGraph`, whether it exists or not.
public struct ObjectReference: Hashable, Comparable, Sendable {
    /// The class of the object.
    public let classID: ClassID
    /// The primary key of the object.
    public let key: PrimaryKey

    /// The object of a class that has this key.
    public init(classID: ClassID, key: PrimaryKey) {
        self.classID = classID
        self.key = key
    }

    /// Orders objects by class, then by key in the order of the class's rows (`Spec/State.md`, D2).
    public static func < (left: ObjectReference, right: ObjectReference) -> Bool {
        left.classID != right.classID ? left.classID < right.classID : left.key < right.key
    }
}

/// The content of a place in an object: a value, a collection or an embedded object (`Spec/State.md`, A3 to A8).
///
/// A link is a value like any other; whether its target exists is decided when it is read.
enum Content: Sendable {
    case null
    case int(Int64)
    case bool(Bool)
    case string([UInt8])
    case binary([UInt8])
    case timestamp(Timestamp)
    case float(Float)
    case double(Double)
    case decimal(Decimal128)
    case objectID(ObjectID)
    case uuid(UUIDBytes)
    indirect case link(ObjectReference)
    /// An embedded object; the place determines its class.
    case object(Fields)
    case list(ContentList)
    case dictionary(ContentDictionary)
    case set(ContentSet)
    /// A long String or Binary that is read when it is needed.
    case stored(StoredValue)
}

extension Content {
    /// True if this is a list or a dictionary; as an element of a list, such a collection is always in a Mixed.
    var isNestedCollection: Bool {
        switch self {
        case .list, .dictionary: true
        default: false
        }
    }
}

// Taking a collection out leaves null in its place, so that the collection is changed in place and not copied.
extension Content {
    mutating func takeList() -> ContentList? {
        guard case .list(let list) = self else { return nil }
        self = .null
        return list
    }

    mutating func takeDictionary() -> ContentDictionary? {
        guard case .dictionary(let entries) = self else { return nil }
        self = .null
        return entries
    }

    mutating func takeSet() -> ContentSet? {
        guard case .set(let elements) = self else { return nil }
        self = .null
        return elements
    }

    mutating func takeObject() -> Fields? {
        guard case .object(let fields) = self else { return nil }
        self = .null
        return fields
    }
}

/// An element of a collection: its tree may be stored.
protocol ContentElement: TreeElement, Sendable where Source == PartSource, Failure == ApplyError {
    var content: Content { get set }
    /// The length of a dictionary entry's key, in bytes; 0 for other elements.
    var keyBytes: Int { get }
    /// True if both elements have the same content (`SameContent.swift`).
    func isSame(as other: Self) -> Bool
    func write(to row: inout RowEncoder)
    static func read(from row: inout RowDecoder) throws(ChangesetError) -> Self
    static func write(_ separator: Separator, to row: inout RowEncoder)
    static func readSeparator(from row: inout RowDecoder) throws(ChangesetError) -> Separator
}

extension ContentElement {
    var keyBytes: Int { 0 }
}

typealias ContentList = CountedTree<ListElement>

struct ListElement: ContentElement {
    var content: Content
    var separator: NoSeparator { NoSeparator() }
    static var leafCountMax: Int { 128 }
}

/// Distinct values in the order of `Content.compare` (`Spec/State.md`, A7).
typealias ContentSet = CountedTree<SetElement>

struct SetElement: ContentElement {
    var content: Content
    var separator: Content { content }
    static var leafCountMax: Int { 64 }
}

extension ContentSet {
    /// Finds where a value stands or would be inserted.
    /// - Parameter read: Reads an element that is in a part; called only for elements of the value's kind.
    func find(
        _ value: Content,
        reading read: (StoredValue) throws(ApplyError) -> Content = { stored throws(ApplyError) in
            try stored.content()
        }
    ) throws(ApplyError) -> (index: Int, element: SetElement?) {
        try find { element throws(ApplyError) in
            guard case .stored(let stored) = element, element.isOfKind(of: value) else {
                return Content.compare(element, value)
            }
            return Content.compare(try read(stored), value)
        }
    }
}

/// Entries in the order of their keys' bytes (`Spec/State.md`, A8).
typealias ContentDictionary = CountedTree<DictionaryEntry>

struct DictionaryEntry: ContentElement {
    let key: [UInt8]
    var content: Content
    var separator: [UInt8] { key }
    static var leafCountMax: Int { 64 }
}

extension ContentDictionary {
    /// Finds where an entry stands or would be inserted.
    func find(_ key: [UInt8]) throws(ApplyError) -> (index: Int, element: DictionaryEntry?) {
        try find { $0.compare(key) }
    }
}

/// The fields of an object by the slots of its class. Slots beyond the end hold their initial values (A4), so that a
/// new column costs existing objects nothing; the slots of erased columns have no meaning.
struct Fields: Sendable {
    var contents: [Content] = []
}

extension [UInt8] {
    /// Bytewise order, a shorter prefix first: negative, zero or positive.
    func compare(_ other: [UInt8]) -> Int {
        withUnsafeBytes { left in
            other.withUnsafeBytes { right in
                let count = Swift.min(left.count, right.count)
                var index = 0
                // Eight bytes at a time, as long as they are equal.
                while index + 8 <= count,
                    left.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                        == right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                {
                    index += 8
                }
                for index in index..<count where left[index] != right[index] {
                    return left[index] < right[index] ? -1 : 1
                }
                return left.count - right.count
            }
        }
    }
}

/// Negative, zero or positive.
@inline(__always)
func order<Value: Comparable>(_ left: Value, _ right: Value) -> Int {
    left < right ? -1 : left == right ? 0 : 1
}

extension PrimaryKey: Comparable {
    public static func < (left: PrimaryKey, right: PrimaryKey) -> Bool { left.compare(right) < 0 }

    /// The order of objects in a class: by type, then by value, texts by bytes. Rows have the same order
    /// (`Spec/State.md`, D2).
    func compare(_ other: PrimaryKey) -> Int {
        switch (self, other) {
        case (.int(let left), .int(let right)): order(left, right)
        case (.string(let left), .string(let right)): left.compare(right)
        case (.globalKey(let left), .globalKey(let right)):
            left.high != right.high ? order(left.high, right.high) : order(left.low, right.low)
        case (.objectID(let left), .objectID(let right)): order(left.order, right.order)
        case (.uuid(let left), .uuid(let right)): order(left.order, right.order)
        default: Int(rank) - Int(other.rank)
        }
    }

    /// The rank of the key's type in the order of keys; also the key's first byte in a row.
    var rank: UInt8 {
        switch self {
        case .null: 0
        case .int: 1
        case .string: 2
        case .globalKey: 3
        case .objectID: 4
        case .uuid: 5
        }
    }

    /// The key as a state knows it: of a GlobalKey only the low 30 and 32 bits count (`Spec/State.md`, A2).
    package var normalised: PrimaryKey {
        guard case .globalKey(let key) = self else { return self }
        return .globalKey(GlobalKey(high: key.high & 0x3FFF_FFFF, low: key.low & 0xFFFF_FFFF))
    }
}

extension ObjectID {
    /// Sorts like the bytes.
    var order: UInt128 { UInt128(low.byteSwapped) << 64 | UInt128(high.byteSwapped) }
}

extension UUIDBytes {
    /// Sorts like the bytes.
    var order: UInt128 { UInt128(low.byteSwapped) << 64 | UInt128(high.byteSwapped) }
}

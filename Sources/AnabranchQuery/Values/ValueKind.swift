import AnabranchCore

/// The static type of an operand (`Spec/Query.md`, section 5.2).
enum StaticType: Hashable {
    case int, bool, string, binary, timestamp, float, double, decimal, objectID, uuid, mixed, link
    /// A kind of value, which `@type` gives; its values are `int` with the bits of `TypeSet`.
    case typeOf
    /// The type of a null that is compared with something else than strings and binaries.
    case null

    init(_ type: PayloadType) {
        switch type {
        case .int: self = .int
        case .bool: self = .bool
        case .string: self = .string
        case .binary: self = .binary
        case .timestamp: self = .timestamp
        case .float: self = .float
        case .double: self = .double
        case .decimal: self = .decimal
        case .objectID: self = .objectID
        case .uuid: self = .uuid
        case .link: self = .link
        default: self = .mixed
        }
    }

    var isNumeric: Bool { [.int, .float, .double, .decimal].contains(self) }
    var isNumericOrMixed: Bool { isNumeric || self == .mixed }
    var holdsText: Bool { [.string, .binary, .mixed].contains(self) }

    func isComparable(with other: StaticType) -> Bool {
        if self == .null || other == .null || self == other { return true }
        return isNumericOrMixed && other.isNumericOrMixed || self == .mixed || other == .mixed
    }

    /// The name for errors.
    var name: String {
        switch self {
        case .objectID: "objectId"
        case .typeOf: "@type"
        default: "\(self)"
        }
    }
}

extension StateValue {
    /// The static type of a constant of this value; null for null.
    var type: StaticType {
        switch self {
        case .null: .null
        case .int: .int
        case .bool: .bool
        case .string: .string
        case .binary: .binary
        case .timestamp: .timestamp
        case .float: .float
        case .double: .double
        case .decimal: .decimal
        case .objectID: .objectID
        case .uuid: .uuid
        case .link, .object: .link
        case .list, .set, .dictionary: .mixed
        }
    }

    var isNull: Bool { if case .null = self { true } else { false } }

    var isNaN: Bool {
        switch self {
        case .float(let value): value.isNaN
        case .double(let value): value.isNaN
        case .decimal(let value): value.isNaN
        default: false
        }
    }

    /// The bytes of a string or binary.
    var bytes: [UInt8]? {
        switch self {
        case .string(let bytes), .binary(let bytes): bytes
        default: nil
        }
    }

    /// True if both are of one kind, or both are numbers. False for nulls.
    static func areComparable(_ left: StateValue, _ right: StateValue) -> Bool {
        switch (left, right) {
        case (.null, _), (_, .null): false
        case (.link, .object), (.object, .link): false
        case (.list, .dictionary), (.list, .set), (.dictionary, .list), (.dictionary, .set), (.set, .list),
            (.set, .dictionary):
            false
        default: left.type == right.type || left.type.isNumeric && right.type.isNumeric
        }
    }

    /// The order of two comparable values, in which NaN is below every number and equal to itself, whatever its bits.
    static func order(_ left: StateValue, _ right: StateValue) -> Int {
        switch (left, right) {
        case (.int(let left), .int(let right)): left < right ? -1 : left == right ? 0 : 1
        default: left.isNaN && right.isNaN ? 0 : compare(left, right)
        }
    }
}

/// A set of kinds of values, as `@type` compares them (`Spec/Query.md`, section 6.7).
struct TypeSet: OptionSet {
    let rawValue: Int64

    static let null = TypeSet(rawValue: 1)
    static let int = TypeSet(rawValue: 1 << 1)
    static let double = TypeSet(rawValue: 1 << 2)
    static let float = TypeSet(rawValue: 1 << 3)
    static let bool = TypeSet(rawValue: 1 << 4)
    static let timestamp = TypeSet(rawValue: 1 << 5)
    static let string = TypeSet(rawValue: 1 << 6)
    static let binary = TypeSet(rawValue: 1 << 7)
    static let uuid = TypeSet(rawValue: 1 << 8)
    static let objectID = TypeSet(rawValue: 1 << 9)
    static let decimal = TypeSet(rawValue: 1 << 10)
    static let link = TypeSet(rawValue: 1 << 11)
    static let dictionary = TypeSet(rawValue: 1 << 12)
    static let list = TypeSet(rawValue: 1 << 13)

    /// The names of each kind, beginning with the one that is printed.
    static let names: [(names: [String], types: TypeSet)] = [
        (["null"], .null), (["int", "integer", "int16", "int32", "int64", "short", "long", "byte", "char"], .int),
        (["bool", "boolean"], .bool), (["string"], .string),
        (["binary", "data", "bytearray", "byte[]", "bindata"], .binary),
        (["date", "datetimeoffset", "timestamp"], .timestamp), (["float"], .float), (["double"], .double),
        (["decimal128", "decimal"], .decimal), (["objectlink", "link"], .link), (["objectid"], .objectID),
        (["uuid", "guid"], .uuid), (["numeric"], [.int, .float, .double, .decimal]),
        (["object", "dictionary"], .dictionary), (["array", "list"], .list), (["collection"], [.dictionary, .list]),
    ]

    init(rawValue: Int64) { self.rawValue = rawValue }

    /// The kinds with a name in any case; nil if there is no such name.
    init?(named name: [UInt8]) {
        let lower = String(decoding: name.map(\.lowercased), as: UTF8.self)
        guard let found = TypeSet.names.first(where: { $0.names.contains(lower) }) else { return nil }
        self = found.types
    }

    init(of value: StateValue) {
        self = value.isNull ? .null : TypeSet(value)
    }

    private init(_ value: StateValue) {
        switch value {
        case .list, .set: self = .list
        case .dictionary: self = .dictionary
        default: self = TypeSet(value.type)
        }
    }

    /// The kind of all values of a type other than Mixed.
    init(_ type: StaticType) {
        switch type {
        case .int: self = .int
        case .bool: self = .bool
        case .string: self = .string
        case .binary: self = .binary
        case .timestamp: self = .timestamp
        case .float: self = .float
        case .double: self = .double
        case .decimal: self = .decimal
        case .objectID: self = .objectID
        case .uuid: self = .uuid
        case .link: self = .link
        case .mixed, .typeOf, .null: self = .null
        }
    }

    /// The printed name.
    var name: String { TypeSet.names.first { $0.types == self }?.names.first ?? "null" }

    var value: StateValue { .int(rawValue) }
}

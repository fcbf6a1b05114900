public import AnabranchCore
import AnabranchFoundation
import AnabranchQuery
public import Foundation

/// A value of any type that a property can have, which the SDKs call Mixed. Lists and dictionaries can be nested.
public enum AnyValue: Hashable, Sendable {
    /// Null, a value of one of these types, or a collection of such values.
    case null
    case int(Int64)
    case bool(Bool)
    case string(String)
    case data(Data)
    case date(Date)
    case float(Float)
    case double(Double)
    case decimal(Decimal128)
    case objectID(ObjectID)
    case uuid(UUID)
    /// A link to an object of a class.
    case link(String, PrimaryKey)
    case list([AnyValue])
    case dictionary([String: AnyValue])

    /// A link to an object.
    /// - Throws: `ObjectError` if its key is not valid.
    public static func link(_ object: some SyncedObject) throws -> AnyValue {
        .link(type(of: object).className, try object.id.primaryKey)
    }
}

extension AnyValue: SyncedValue {
    public static var _shape: _ValueShape { _ValueShape(.null) }

    public static func _sample(_ isSecond: Bool, _ samples: _Samples) -> AnyValue? { isSecond ? .int(1) : .null }

    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        switch value {
        case .link(let object): self = .link(try classes.className(of: object.classID), object.key)
        case .list(let list):
            self = .list(try list.values.map { element throws(ObjectError) in try AnyValue(element, classes) })
        case .dictionary(let entries): self = .dictionary(try [String: AnyValue](.dictionary(entries), classes))
        case .object, .set: throw ObjectError(.badValue, "\(value.kindName) in a Mixed")
        default: self = AnyValue(scalar: value.payload ?? .null)
        }
    }

    private init(scalar payload: Payload) {
        self =
            switch payload {
            case .int(let value): .int(value)
            case .bool(let value): .bool(value)
            case .float(let value): .float(value)
            case .double(let value): .double(value)
            case .decimal(let value): .decimal(value)
            case .objectID(let value): .objectID(value)
            case .string: String(payload: payload).map { .string($0) } ?? .null
            case .binary: Data(payload: payload).map { .data($0) } ?? .null
            case .timestamp: Date(payload: payload).map { .date($0) } ?? .null
            case .uuid: UUID(payload: payload).map { .uuid($0) } ?? .null
            default: .null
            }
    }

    public func _content() throws(ObjectError) -> _ValueContent {
        switch self {
        case .null: .null
        case .int(let value): .value(.int(value))
        case .bool(let value): .value(.bool(value))
        case .string(let value): value._content()
        case .data(let value): value._content()
        case .date(let value): value._content()
        case .float(let value): .value(.float(value))
        case .double(let value): .value(.double(value))
        case .decimal(let value): .value(.decimal(value))
        case .objectID(let value): .value(.objectID(value))
        case .uuid(let value): value._content()
        case .link(let className, let key): .value(.link(className: Array(className.utf8), key: key))
        case .list(let values): try values._content()
        case .dictionary(let values): try values._content()
        }
    }
}

// In JSON, a value keeps its type if JSON has it; other values become texts.
extension AnyValue: Codable {
    /// Reads the values that JSON has: null, Booleans, numbers, texts, arrays and objects.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .int(value)
        } else if let value = try? container.decode(Double.self) {
            self = .double(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([AnyValue].self) {
            self = .list(value)
        } else {
            self = .dictionary(try container.decode([String: AnyValue].self))
        }
    }

    /// Writes null, a Boolean, a number, a text, an array or an object; a link as the text of its key.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .int(let value): try container.encode(value)
        case .bool(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .data(let value): try container.encode(value)
        case .date(let value): try container.encode(value)
        case .float(let value): try container.encode(value)
        case .double(let value): try container.encode(value)
        case .decimal(let value): try container.encode(value)
        case .objectID(let value): try container.encode(value)
        case .uuid(let value): try container.encode(value)
        case .link(_, let key): try container.encode("\(key)")
        case .list(let values): try container.encode(values)
        case .dictionary(let values): try container.encode(values)
        }
    }
}

extension AnyValue: ExpressibleByIntegerLiteral, ExpressibleByStringLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByFloatLiteral, ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(integerLiteral value: Int64) { self = .int(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(nilLiteral: ()) { self = .null }
    public init(arrayLiteral elements: AnyValue...) { self = .list(elements) }

    public init(dictionaryLiteral elements: (String, AnyValue)...) {
        self = .dictionary(Dictionary(elements) { _, last in last })
    }
}

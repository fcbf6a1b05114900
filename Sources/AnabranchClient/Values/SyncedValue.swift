public import AnabranchCore
import AnabranchQuery

/// A type that properties of synchronized objects can have (`Spec/Objects.md`, section 2): numbers, texts, times and so
/// on, enumerations, links, embedded objects, and optional values, arrays, sets and dictionaries of them.
///
/// The library has them all. An application makes its own with `SyncedEnum`, `EmbeddedObject` and `Encoded`; it
/// implements nothing that begins with an underscore.
public protocol SyncedValue: Codable, Sendable {
    /// What a class declares for such a property.
    static var _shape: _ValueShape { get }

    /// One of two values that differ, by which properties are told apart; nil if the type has only one value.
    static func _sample(_ isSecond: Bool, _ samples: _Samples) throws(ObjectError) -> Self?

    /// What a property holds as a value of the type.
    /// - Throws: `ObjectError` with the code `badValue` if there is no such value.
    init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError)

    /// The value as it is written.
    func _content() throws(ObjectError) -> _ValueContent
}

/// What a class declares for a property.
public struct _ValueShape: Sendable {
    /// Of the value or the elements; `null` means Mixed, `link` also an embedded object.
    var type: PayloadType
    var isNullable = false
    var collection = CollectionType.single
    /// The class of links and embedded objects.
    var target: Target?
    /// What is missing for a property, in words; nil if a property can be of the type.
    var problem: String?

    enum Target: Sendable {
        case link(any SyncedObject.Type)
        case embedded(any EmbeddedObject.Type)
    }

    init(_ type: PayloadType, target: Target? = nil) {
        self.type = type
        self.target = target
        // Mixed, and links to one object, can always be null.
        isNullable = type == .null
        if target != nil { problem = "it has to be optional: the object may be erased by somebody else" }
    }

    /// For people: `[Int?]`.
    var description: String {
        let name = target.map(\.className) ?? (type == .null ? "AnyValue" : "\(type)")
        return _ValueShape.description(name, collection, isNullable: isNullable && type != .null)
    }

    static func description(_ name: String, _ collection: CollectionType, isNullable: Bool) -> String {
        let element = name + (isNullable ? "?" : "")
        return switch collection {
        case .single: element
        case .list: "[\(element)]"
        case .set: "Set<\(element)>"
        case .dictionary: "[String: \(element)]"
        }
    }
}

extension _ValueShape.Target {
    var className: String {
        switch self {
        case .link(let type): type.className
        case .embedded(let type): type.className
        }
    }

    var isEmbedded: Bool { if case .embedded = self { true } else { false } }
}

/// A value as it is written: what two of them differ in is what is recorded.
public enum _ValueContent: Hashable, Sendable {
    case value(Payload)
    /// The value of a `Counter`: what it has grown by is added.
    case sum(Int64)
    case object(EmbeddedContent)
    case list([_ValueContent])
    case set([Payload])
    case dictionary([String: _ValueContent])

    static let null = _ValueContent.value(.null)

    /// What an embedded object holds, by the properties of its class.
    public struct EmbeddedContent: Hashable, Sendable {
        let schema: ObjectSchema
        var contents: [_ValueContent]
    }

    /// What stands at the place itself: for collections and embedded objects, that one is there.
    var payload: Payload {
        switch self {
        case .value(let payload): payload
        case .sum(let value): .int(value)
        case .object: .objectValue
        case .list: .list
        case .set: .set
        case .dictionary: .dictionary
        }
    }
}

// MARK: Scalars

/// A scalar of the library, in the words of `PayloadConvertible`.
public protocol _SyncedScalar: SyncedValue, PayloadConvertible, Equatable {
    static var _samples: (Self, Self) { get }
}

extension _SyncedScalar {
    /// What its property is.
    public static var _shape: _ValueShape { _ValueShape(_samples.0.payload.type) }

    /// A value of its own, to find out what a type declares.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) -> Self? { isSecond ? _samples.1 : _samples.0 }

    /// From what is stored.
    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        guard let payload = value.payload, let found = Self(payload: payload) else {
            throw ObjectError(.badValue, "\(value.kindName) is no \(Self.self)")
        }
        self = found
    }

    /// The value as it is written.
    public func _content() -> _ValueContent { .value(payload) }
}

extension StateValue {
    /// For people.
    var kindName: String {
        switch self {
        case .link: "a link"
        case .object: "an embedded object"
        case .list: "a list"
        case .set: "a set"
        case .dictionary: "a dictionary"
        default: payload.map { $0 == .null ? "null" : "a value of the type \($0.type)" } ?? "something"
        }
    }
}

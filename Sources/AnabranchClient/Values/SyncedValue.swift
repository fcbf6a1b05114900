public import AnabranchCore
import AnabranchQuery

/// A type that properties of synchronized objects can have (`Spec/Objects.md`, section 2): numbers, texts, times and so
/// on, enumerations, links, embedded objects, and optional values, arrays, sets and dictionaries of them.
///
/// The library has them all. An application makes its own with `SyncedEnum`, `EmbeddedObject` and `Encoded`; it
/// implements nothing that begins with an underscore.
public protocol SyncedValue: Codable, Sendable {
    /// The declaration of a property of this type in a class.
    static var _shape: _ValueShape { get }

    /// One of two different sample values, which tell properties apart; nil if the type has only one value.
    static func _sample(_ isSecond: Bool, _ samples: _Samples) throws(ObjectError) -> Self?

    /// Reads the stored value of a property.
    /// - Throws: `ObjectError` with the code `badValue` if there is no such value.
    init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError)

    /// The value as it is written.
    func _content() throws(ObjectError) -> _ValueContent
}

/// The declaration of a property in a class.
public struct _ValueShape: Sendable {
    /// The type of the value or the elements; `null` means Mixed, `link` also an embedded object.
    var type: PayloadType
    var isNullable = false
    var collection = CollectionType.single
    /// The class of links and embedded objects.
    var target: Target?
    /// The reason, in words, why no property can be of the type; nil if one can.
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

    /// The type as text for people, such as `[Int?]`.
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

/// A value as it is written: the differences between two of them are recorded.
public enum _ValueContent: Hashable, Sendable {
    case value(Payload)
    /// The value of a `Counter`: its growth is added.
    case sum(Int64)
    case object(EmbeddedContent)
    case list([_ValueContent])
    case set([Payload])
    case dictionary([String: _ValueContent])

    static let null = _ValueContent.value(.null)

    /// True if writing one over the other changes nothing: what is not a number is like itself.
    public static func == (left: _ValueContent, right: _ValueContent) -> Bool {
        switch (left, right) {
        case (.value(.double(let left)), .value(.double(let right))):
            left == right || left.bitPattern == right.bitPattern
        case (.value(.float(let left)), .value(.float(let right))):
            left == right || left.bitPattern == right.bitPattern
        case (.value(let left), .value(let right)): left == right
        case (.sum(let left), .sum(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        case (.list(let left), .list(let right)): left == right
        case (.set(let left), .set(let right)):
            left.elementsEqual(right) { _ValueContent.value($0) == _ValueContent.value($1) }
        case (.dictionary(let left), .dictionary(let right)): left == right
        default: false
        }
    }

    /// The values of an embedded object, in the order of its class's properties.
    public struct EmbeddedContent: Hashable, Sendable {
        let schema: ObjectSchema
        var contents: [_ValueContent]
    }

    /// The payload at the place itself: for a collection or an embedded object, the one that says that it is there.
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

/// A scalar of the library, based on `PayloadConvertible`.
public protocol _SyncedScalar: SyncedValue, PayloadConvertible, Equatable {
    static var _samples: (Self, Self) { get }
}

extension _SyncedScalar {
    /// The shape of a property of this type.
    public static var _shape: _ValueShape { _ValueShape(_samples.0.payload.type) }

    /// One of two sample values, by which the properties of a type are found.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) -> Self? { isSecond ? _samples.1 : _samples.0 }

    /// Reads the stored value.
    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        guard let payload = value.payload, let found = Self(payload: payload) else {
            throw ObjectError(.badValue, "\(value.kindName) is not of type \(Self.self)")
        }
        self = found
    }

    /// The value as it is written.
    public func _content() -> _ValueContent { .value(payload) }
}

extension StateValue {
    /// The kind of the value, as text for people.
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

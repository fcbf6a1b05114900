public import AnabranchCore

/// A link to an object, by its primary key: `var owner: Link<Person>?`. It does not tell whether the object exists;
/// `ObjectReading.find` does.
public struct Link<Target: SyncedObject>: SyncedValue, Hashable {
    /// The primary key of the object.
    public let id: Target.ID

    /// A link to an object.
    public init(_ object: Target) { id = object.id }

    /// A link to the object with a key.
    public init(id: Target.ID) { self.id = id }

    /// Reads the key.
    public init(from decoder: any Decoder) throws { id = try decoder.singleValueContainer().decode(Target.ID.self) }

    /// Writes the key.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(id)
    }

    /// The shape of a property of this type.
    public static var _shape: _ValueShape { _ValueShape(.link, target: .link(Target.self)) }

    /// One of two sample values, by which the properties of a type are found.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) throws(ObjectError) -> Link? {
        try Target.ID._sample(isSecond, samples).map { Link(id: $0) }
    }

    /// Reads the stored value.
    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        guard case .link(let object) = value else { throw ObjectError(.badValue, "\(value.kindName) is not a link") }
        id = try Target.ID(object.key)
    }

    /// The value as it is written.
    public func _content() throws(ObjectError) -> _ValueContent {
        .value(.link(className: Array(Target.className.utf8), key: try id.primaryKey))
    }
}

public import AnabranchCore

/// A link to an object, by its primary key: `var owner: Link<Person>?`. It says nothing about whether the object is
/// there; `ObjectReading.find` does.
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

    /// What its property is.
    public static var _shape: _ValueShape { _ValueShape(.link, target: .link(Target.self)) }

    /// A value of its own, to find out what a type declares.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) throws(ObjectError) -> Link? {
        try Target.ID._sample(isSecond, samples).map { Link(id: $0) }
    }

    /// From what is stored.
    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        guard case .link(let object) = value else { throw ObjectError(.badValue, "\(value.kindName) is no link") }
        id = try Target.ID(object.key)
    }

    /// The value as it is written.
    public func _content() throws(ObjectError) -> _ValueContent {
        .value(.link(className: Array(Target.className.utf8), key: try id.primaryKey))
    }
}

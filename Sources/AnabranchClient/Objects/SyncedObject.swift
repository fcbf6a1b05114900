public import AnabranchCore

/// An object that is synchronized, as a plain Swift type (`Spec/Objects.md`):
///
///     struct Chore: SyncedObject {
///         var id = UUID()
///         var title = ""
///         var isDone = false
///         var tags: [String] = []
///         var owner: Link<Person>?
///     }
///
/// The type is declared once: its stored properties are those of the class, with `id` as the primary key. An object
/// that was read is a value, independent of the store, which does not change by itself.
///
/// The properties are those that `Codable` encodes: `CodingKeys` gives them other names, as `case id = "_id"`, or
/// leaves some out. `id` may be a computed property that gives another one. Properties that are added later are added
/// to the class. Each has a type that is a `SyncedValue`.
public protocol SyncedObject: Codable, Identifiable, Sendable, _QueryTarget where ID: SyncedKey, _Target == Self {
    /// The name of the class; the default is that of the type.
    static var className: String { get }

    /// The properties, besides the primary key, by which objects are found without looking at all of them. Each costs
    /// one more row for every object that is written. Whole numbers, texts, Booleans, dates, identifiers and
    /// enumerations can be indexed.
    static var indexed: [PartialKeyPath<Self>] { get }

    /// An object whose values the objects that are there get in properties that are added to the class later: `Chore()`
    /// takes those of the declaration. They give way to values that others set. Nil, the default, leaves the first
    /// value of a property's type there, such as 0.
    ///
    /// Each object is written once, by the store that adds the property, which must have the objects then: a new
    /// installation adds it to an empty file, and writes nothing. So this is for types that all who use the app may
    /// write. It counts for single values other than links and embedded objects.
    static var defaults: Self? { get }

    /// True if objects are only sent to the server and never come back, such as measurements and events. They cannot be
    /// read.
    static var isAsymmetric: Bool { get }
}

extension SyncedObject {
    /// The name of the type.
    public static var className: String { String(describing: Self.self) }

    /// No properties.
    public static var indexed: [PartialKeyPath<Self>] { [] }

    /// Nil: properties that are added later have the first values of their types.
    public static var defaults: Self? { nil }

    /// False: objects can be read.
    public static var isAsymmetric: Bool { false }
}

/// An object that is part of another one and has no key of its own: `var steps: [Step]`, `var address: Address?`. It is
/// declared like a `SyncedObject`, and its properties are merged like those of one.
public protocol EmbeddedObject: SyncedValue, _QueryTarget where _Target == Self {
    /// The name of the class; the default is that of the type.
    static var className: String { get }
}

extension EmbeddedObject {
    /// The name of the type.
    public static var className: String { String(describing: Self.self) }

    /// The shape of a property of this type.
    public static var _shape: _ValueShape { _ValueShape(.link, target: .embedded(Self.self)) }

    /// One of two sample values, by which the properties of a type are found.
    public static func _sample(_ isSecond: Bool, _ samples: _Samples) throws(ObjectError) -> Self? {
        try samples.embedded(Self.self, isSecond)
    }

    /// Reads the stored value.
    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        guard case .object(let object) = value else {
            throw ObjectError(.badValue, "\(value.kindName) is not of type \(Self.self)")
        }
        self = try classes.reader(of: try ObjectSchema.of(Self.self)).read(Self.self, object)
    }

    /// The value as it is written.
    public func _content() throws(ObjectError) -> _ValueContent {
        let schema = try ObjectSchema.of(Self.self)
        return .object(_ValueContent.EmbeddedContent(schema: schema, contents: try schema.contents(of: self)))
    }
}

/// A top-level or embedded object within a transaction.
///
///     try graph.write(as: 2) { tx in
///         let task = try tx.create("Task", key: 1)
///         task["title"] = "Buy milk"
///         try task.list("tags").append("home")
///     }
///
/// A handle names a place: that of an embedded object in a list stands for whatever is at its index.
public struct DynamicObject {
    let transaction: WriteTransaction
    /// The top-level object, or the one that owns this embedded one.
    public let reference: ObjectReference
    /// The location of an embedded object; nil for a top-level one.
    let embedding: Location?

    package init(transaction: WriteTransaction, reference: ObjectReference) {
        self.transaction = transaction
        self.reference = reference
        embedding = nil
    }

    init(transaction: WriteTransaction, embedding: Location) {
        self.transaction = transaction
        self.embedding = embedding
        reference = embedding.object
    }

    private var classID: ClassID { embedding?.place.target ?? reference.classID }

    /// The name of the class, also of an embedded object.
    public var className: String { String(decoding: transaction.editor.schema[classID].name, as: UTF8.self) }

    /// The primary key; nil for an embedded object.
    public var key: PrimaryKey? { embedding == nil ? reference.key : nil }

    /// The link to this object, to be assigned to a field.
    public var link: Payload { transaction.payload(of: reference) }

    func location(of field: String) throws(ApplyError) -> Location {
        let name = Array(field.utf8)
        guard let place = transaction.editor.schema[classID].place(of: name) else {
            throw transaction.located(.invalid("no such field"), reference, field: name)
        }
        return embedding?.appending(place, named: name) ?? Location(reference, place)
    }

    /// The place of a property of the object's class, which is not its primary key.
    func location(of property: Property) throws(ApplyError) -> Location {
        guard let place = property.place else {
            throw transaction.located(.invalid("a primary key cannot be changed"), reference, field: property.name)
        }
        return embedding?.appending(place, named: property.name) ?? Location(reference, place)
    }

    // MARK: Values (C4)

    /// A field's value; assigning records an Update. An error is kept until the transaction ends, and reads as null.
    public subscript(field: String) -> Payload {
        get {
            var value = Payload.null
            transaction.assign { () throws(ApplyError) in value = try self.value(field) }
            return value
        }
        nonmutating set { transaction.assign { () throws(ApplyError) in try set(field, to: newValue) } }
    }

    /// A field's value: null for a dangling link, the kind of a collection, `objectValue` for an embedded object.
    public func value(_ field: String) throws(ApplyError) -> Payload {
        try transaction.value(at: try location(of: field))
    }

    /// Sets a field: a scalar, null, a link, `list` or `dictionary` to make a Mixed a collection, or `objectValue` for
    /// a new embedded object in place of any that is there.
    ///
    /// - Parameter isDefault: The value is a default of a new object, which gives way to values set elsewhere. A
    ///   default null of a link or an embedded object is nothing at all.
    public func set(_ field: String, to value: Payload, isDefault: Bool = false) throws(ApplyError) {
        let location = try location(of: field)
        if value == .objectValue {
            try createObject(field)
        } else if !(value == .null && isDefault && location.place.type == .link) {
            try transaction.perform(.update(value.withoutNullMarker), at: location, isDefault: isDefault)
        }
    }

    /// Sets a scalar, a link or null.
    package func set(_ property: Property, to value: Payload) throws(ApplyError) {
        try transaction.perform(.update(value.withoutNullMarker), at: try location(of: property))
    }

    /// Adds to an Int, wrapping around at the ends; concurrent additions all count.
    public func add(_ amount: Int64, to field: String) throws(ApplyError) {
        let location = try location(of: field)
        guard try transaction.value(at: location) != .null else {
            throw transaction.located(.invalid("null cannot be added to"), location)
        }
        try transaction.perform(.addInteger(amount), at: location)
    }

    // MARK: Embedded objects and collections

    /// The embedded object in a field; nil if there is none.
    public func object(_ field: String) throws(ApplyError) -> DynamicObject? {
        let location = try location(of: field)
        guard try transaction.value(at: location) == .objectValue else { return nil }
        return DynamicObject(transaction: transaction, embedding: location)
    }

    /// A new embedded object in a field, in place of any that is there.
    @discardableResult
    public func createObject(_ field: String) throws(ApplyError) -> DynamicObject {
        let location = try location(of: field)
        guard location.place.isEmbedded, location.place.collection == .single else {
            throw transaction.located(.invalid("the field holds no embedded object"), location)
        }
        if try transaction.value(at: location) != .null { try transaction.perform(.update(.null), at: location) }
        try transaction.perform(.update(.objectValue), at: location)
        return DynamicObject(transaction: transaction, embedding: location)
    }

    /// The list in a field, or in a Mixed that holds one.
    public func list(_ field: String) throws(ApplyError) -> DynamicList {
        try DynamicList(transaction, at: try location(of: field))
    }

    /// The dictionary in a field, or in a Mixed that holds one.
    public func dictionary(_ field: String) throws(ApplyError) -> DynamicDictionary {
        try DynamicDictionary(transaction, at: try location(of: field))
    }

    /// The set in a field.
    ///
    /// - Throws: `ApplyError` if the object has no such field, or the field holds no set.
    public func set(_ field: String) throws(ApplyError) -> DynamicSet {
        try DynamicSet(transaction, at: try location(of: field))
    }
}

extension Payload {
    /// The Decimal that stands for null is written as null.
    var withoutNullMarker: Payload { self == .decimal(.nullMarker) ? .null : self }
}

// Literals: `task["title"] = "Buy milk"`, `tx.create("Task", key: 1)`.

extension Payload: ExpressibleByIntegerLiteral, ExpressibleByStringLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByFloatLiteral, ExpressibleByNilLiteral
{
    public init(integerLiteral value: Int64) { self = .int(value) }
    public init(stringLiteral value: String) { self = .string(Array(value.utf8)) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(nilLiteral: ()) { self = .null }
}

extension PrimaryKey: ExpressibleByIntegerLiteral, ExpressibleByStringLiteral {
    public init(integerLiteral value: Int64) { self = .int(value) }
    public init(stringLiteral value: String) { self = .string(Array(value.utf8)) }
}

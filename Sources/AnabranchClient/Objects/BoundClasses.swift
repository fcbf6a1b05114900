import AnabranchCore
import Synchronization

/// The classes of a state, and the properties in them of the types that were read or written.
public final class _BoundClasses: Sendable {
    /// The classes of a state without classes.
    static let none = _BoundClasses([])

    private let classes: [[UInt8]: ClassSchema]
    private let names: [ClassID: [UInt8]]
    private let bound = Mutex<[ObjectIdentifier: BoundClass]>([:])
    /// The schemas that the state has completely, including everything that they lead to.
    private let complete = Mutex<Set<ObjectIdentifier>>([])

    init(_ classes: [ClassSchema]) {
        self.classes = Dictionary(uniqueKeysWithValues: classes.map { ($0.name, $0) })
        names = Dictionary(uniqueKeysWithValues: classes.map { ($0.number, $0.name) })
    }

    func className(of number: ClassID) throws(ObjectError) -> String {
        guard let name = names[number] else { throw ObjectError(.badValue, "a link to a class that was removed") }
        return String(decoding: name, as: UTF8.self)
    }

    /// A type's class; nil if the state has none of that name.
    /// - Throws: `ObjectError` with the code `mismatch` if the class is of another kind, or a property is.
    func bound(_ schema: ObjectSchema) throws(ObjectError) -> BoundClass? {
        if let known = bound.withLock({ $0[ObjectIdentifier(schema)] }) { return known }
        guard let found = classes[schema.classBytes] else { return nil }
        let new = try BoundClass(schema, found) { number in self.names[number] }
        bound.withLock { $0[ObjectIdentifier(schema)] = new }
        return new
    }

    /// True if nothing is missing that a type declares, or a type that it links to or holds.
    func areComplete(_ schema: ObjectSchema) throws(ObjectError) -> Bool {
        if complete.withLock({ $0.contains(ObjectIdentifier(schema)) }) { return true }
        for schema in try SchemaAddition.closure(of: [schema]) {
            guard try bound(schema)?.isComplete == true else { return false }
        }
        complete.withLock { _ = $0.insert(ObjectIdentifier(schema)) }
        return true
    }

    /// A reader for objects of a type whose class exists, one after the other.
    func reader(of schema: ObjectSchema) throws(ObjectError) -> ObjectReader {
        guard let bound = try bound(schema) else {
            throw ObjectError(.mismatch, "there is no class \(schema.className)")
        }
        return ObjectReader(schema, bound.properties, self)
    }
}

/// A type's class in a state.
struct BoundClass: Sendable {
    let schema: ObjectSchema
    let number: ClassID
    /// The properties by the fields of the schema; nil where the class has no such property yet.
    let properties: [Property?]

    /// True if the class has everything that the type declares.
    var isComplete: Bool { !properties.contains { $0 == nil } }

    fileprivate init(
        _ schema: ObjectSchema, _ found: ClassSchema, _ name: (ClassID) -> [UInt8]?
    ) throws(ObjectError) {
        self.schema = schema
        number = found.number
        let kind = schema.isEmbedded ? TableType.embedded : schema.isAsymmetric ? .topLevelAsymmetric : .topLevel
        guard found.kind == kind else {
            throw ObjectError(
                .mismatch,
                "\(schema.className) has objects that are \(found.kind.words) in the store, and \(kind.words) as "
                    + schema.typeName)
        }
        properties = try schema.fields.map { field throws(ObjectError) in
            let property = found.property(named: field.bytes)
            if let property { try BoundClass.check(property, field, schema, name) }
            return property
        }
        guard let key = schema.key else { return }
        guard properties[key]?.isKey == true else {
            let name = found.key.map { String(decoding: $0.name, as: UTF8.self) } ?? "none"
            throw ObjectError(
                .mismatch,
                "\(schema.className).\(schema.fields[key].name) is not the primary key of the class in the store, "
                    + "which is \(name)")
        }
    }

    private static func check(
        _ property: Property, _ field: ObjectSchema.Field, _ schema: ObjectSchema, _ name: (ClassID) -> [UInt8]?
    ) throws(ObjectError) {
        let shape = field.shape
        guard !property.isDeclared(as: shape, name) else { return }
        let target = property.target.flatMap(name)
        let stored = _ValueShape.description(
            target.map { String(decoding: $0, as: UTF8.self) }
                ?? (property.type == .null ? "AnyValue" : "\(property.type)"),
            property.collection, isNullable: property.isNullable && property.type != .null)
        throw ObjectError(
            .mismatch,
            "\(schema.className).\(field.name) is \(stored) in the store, and \(shape.description) in "
                + schema.typeName)
    }
}

extension Property {
    /// True if it is what a type declares, apart from its name.
    func isDeclared(as shape: _ValueShape, _ name: (ClassID) -> [UInt8]?) -> Bool {
        type == shape.type && collection == shape.collection && isNullable == shape.isNullable
            && target.flatMap(name) == shape.target.map { Array($0.className.utf8) }
            && isEmbedded == (shape.target?.isEmbedded ?? false)
    }
}

extension TableType {
    fileprivate var words: String {
        switch self {
        case .topLevel: "top-level"
        case .embedded: "embedded"
        case .topLevelAsymmetric: "asymmetric"
        }
    }
}

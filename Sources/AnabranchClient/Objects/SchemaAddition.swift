import AnabranchCore

/// Adds the classes and properties that types declare and a state does not have (`Spec/Objects.md`, section 3). Nothing
/// is ever removed or changed.
enum SchemaAddition {
    /// The schemas of types, and of all objects that they link to or hold.
    static func closure(of schemas: [ObjectSchema]) throws(ObjectError) -> [ObjectSchema] {
        var found: [ObjectSchema] = [], waiting = schemas, names: [String: ObjectSchema] = [:]
        while let schema = waiting.popLast() {
            if let other = names[schema.className] {
                guard other == schema else {
                    throw ObjectError(
                        .badClass, "\(other.typeName) and \(schema.typeName) are both of the class \(schema.className)")
                }
                continue
            }
            names[schema.className] = schema
            found.append(schema)
            for field in schema.fields {
                if let target = field.shape.target { waiting.append(try target.schema()) }
            }
        }
        return found
    }

    /// Adds schemas to a state, the classes first, so that the targets of links exist. Objects that are there get the
    /// declared defaults of new properties.
    /// - Returns: the additions that may be meant as other names.
    @discardableResult
    static func add(_ schemas: [ObjectSchema], to transaction: WriteTransaction) throws -> [PossibleRename] {
        let known = Dictionary(uniqueKeysWithValues: transaction.state.classes.map { ($0.name, $0) })
        let names = Dictionary(uniqueKeysWithValues: known.values.map { ($0.number, $0.name) })
        for schema in schemas { try addClass(schema, to: transaction) }
        for schema in schemas {
            for (index, field) in schema.fields.enumerated() where index != schema.key {
                try addProperty(field, of: schema, to: transaction)
            }
        }
        var renames: [PossibleRename] = []
        for schema in schemas {
            guard let found = known[schema.classBytes] else { continue }
            let added = schema.fields.indices.filter {
                $0 != schema.key && found.property(named: schema.fields[$0].bytes) == nil
            }
            try setDefaults(of: added, in: schema, transaction)
            for gone in found.properties where !schema.fields.contains(where: { $0.bytes == gone.name }) {
                for field in added.map({ schema.fields[$0] }) where gone.isDeclared(as: field.shape, { names[$0] }) {
                    renames.append(
                        PossibleRename(
                            className: schema.className, stored: String(decoding: gone.name, as: UTF8.self),
                            added: field.name))
                }
            }
        }
        return renames
    }

    private static func setDefaults(
        of added: [Int], in schema: ObjectSchema, _ transaction: WriteTransaction
    ) throws {
        guard !added.isEmpty, let defaults = try schema.defaults() else { return }
        let values = added.compactMap { index -> (name: String, value: Payload)? in
            let field = schema.fields[index]
            guard field.shape.target == nil, field.shape.collection == .single,
                defaults[index] != _ValueContent(initialOf: field.shape)
            else { return nil }
            return switch defaults[index] {
            case .value, .sum: (field.name, defaults[index].payload)
            case .object, .list, .set, .dictionary: nil
            }
        }
        guard !values.isEmpty else { return }
        for object in try transaction.objects(schema.className) {
            for (name, value) in values { try object.set(name, to: value, isDefault: true) }
        }
    }

    private static func addClass(_ schema: ObjectSchema, to transaction: WriteTransaction) throws {
        guard let key = schema.key else { return try transaction.addEmbeddedClass(schema.className) }
        let field = schema.fields[key]
        try transaction.addClass(
            schema.className, key: field.name, field.shape.type, isAsymmetric: schema.isAsymmetric)
    }

    private static func addProperty(
        _ field: ObjectSchema.Field, of schema: ObjectSchema, to transaction: WriteTransaction
    ) throws {
        let shape = field.shape
        if let target = shape.target {
            try transaction.addLink(
                field.name, to: target.className, collection: shape.collection, of: schema.className)
        } else {
            try transaction.addColumn(
                field.name, shape.type, isNullable: shape.isNullable, collection: shape.collection,
                to: schema.className)
        }
    }
}

/// A property that was added to a class although the store has one of the same type that is not declared any more: it
/// may be the same one, under a new name. Its values are then still under the old one; `CodingKeys` keep a stored name.
public struct PossibleRename: Equatable, Sendable, CustomStringConvertible {
    /// The name of the class, as it is stored.
    public let className: String
    /// The property that the store has, and the type does not declare.
    public let stored: String
    /// The property that was added.
    public let added: String

    /// A sentence for developers.
    public var description: String {
        "\(className).\(added) was added, and \(className).\(stored), which has the same type, is not declared any "
            + "more: if it was renamed, its values are still there under \(stored); CodingKeys keep that name: "
            + "case \(added) = \"\(stored)\""
    }
}

extension _ValueShape.Target {
    func schema() throws(ObjectError) -> ObjectSchema {
        switch self {
        case .link(let type): try ObjectSchema.of(type)
        case .embedded(let type): try ObjectSchema.of(type)
        }
    }
}

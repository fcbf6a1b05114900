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

    /// Adds schemas to a state, the classes first, so that the targets of links exist.
    static func add(_ schemas: [ObjectSchema], to transaction: WriteTransaction) throws {
        for schema in schemas { try addClass(schema, to: transaction) }
        for schema in schemas {
            for (index, field) in schema.fields.enumerated() where index != schema.key {
                try addProperty(field, of: schema, to: transaction)
            }
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

extension _ValueShape.Target {
    func schema() throws(ObjectError) -> ObjectSchema {
        switch self {
        case .link(let type): try ObjectSchema.of(type)
        case .embedded(let type): try ObjectSchema.of(type)
        }
    }
}

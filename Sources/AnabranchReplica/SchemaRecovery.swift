import AnabranchCore

/// Adds the classes and properties of another state that a state does not have: a server that has lost its data does
/// not know them, and changes to their objects could not be made again.
enum SchemaRecovery {
    /// Adds what is missing. A class or property that exists under a name and is of another kind stays; changes to it
    /// are dropped when changes are repeated.
    static func copy(_ classes: [ClassSchema], to transaction: WriteTransaction) throws {
        let names = Dictionary(
            uniqueKeysWithValues: classes.map { ($0.number, String(decoding: $0.name, as: UTF8.self)) })
        for schema in classes { try passingOverOthers { () throws(ApplyError) in try add(schema, to: transaction) } }
        for schema in classes {
            for property in schema.properties {
                try passingOverOthers { () throws(ApplyError) in try add(property, of: schema, names, to: transaction) }
            }
        }
    }

    private static func passingOverOthers(_ body: () throws(ApplyError) -> Void) throws(ApplyError) {
        do throws(ApplyError) {
            try body()
        } catch  where error.code != .unavailable {}
    }

    private static func add(_ schema: ClassSchema, to transaction: WriteTransaction) throws(ApplyError) {
        let name = String(decoding: schema.name, as: UTF8.self)
        switch (schema.kind, schema.key) {
        case (.embedded, _): try transaction.addEmbeddedClass(name)
        case (_, nil): try transaction.addClass(name)
        case (let kind, let key?):
            try transaction.addClass(
                name, key: String(decoding: key.name, as: UTF8.self), key.type, isNullable: key.isNullable,
                isAsymmetric: kind == .topLevelAsymmetric)
        }
    }

    private static func add(
        _ property: Property, of schema: ClassSchema, _ names: [ClassID: String], to transaction: WriteTransaction
    ) throws(ApplyError) {
        let owner = String(decoding: schema.name, as: UTF8.self), name = String(decoding: property.name, as: UTF8.self)
        if let target = property.target.flatMap({ names[$0] }) {
            try transaction.addLink(name, to: target, collection: property.collection, of: owner)
        } else {
            try transaction.addColumn(
                name, property.type, isNullable: property.isNullable, collection: property.collection, to: owner)
        }
    }
}

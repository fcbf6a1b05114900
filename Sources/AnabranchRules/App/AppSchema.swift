package import AnabranchCore

/// The classes of an app, as its JSON schemas describe them (`Spec/FlexibleRules.md`, section 7).
package struct AppSchema: Hashable, Sendable {
    /// The classes in the order of their names.
    package var classes: [AppClass] = []

    /// An app without classes.
    package init() {}

    /// Adds the classes and columns that the state lacks.
    ///
    /// - Throws: `ApplyError` if one is there in another form.
    package func add(to transaction: WriteTransaction) throws(ApplyError) {
        for added in classes {
            if let key = added.key {
                try transaction.addClass(
                    added.name, key: key.name, key.type, isNullable: key.isNullable,
                    isAsymmetric: added.kind == .topLevelAsymmetric)
            } else {
                try transaction.addEmbeddedClass(added.name)
            }
        }
        for added in classes {
            for column in added.columns {
                if let target = column.target {
                    try transaction.addLink(
                        column.name, to: target, collection: column.collection, of: added.name)
                } else {
                    try transaction.addColumn(
                        column.name, column.type, isNullable: column.isNullable, collection: column.collection,
                        to: added.name)
                }
            }
        }
    }
}

extension AppSchema {
    /// A state with the classes and without objects; an empty one if states cannot have them.
    var state: ObjectGraph {
        var state = ObjectGraph()
        _ = try? state.write(as: .server) { try add(to: $0) }
        return state
    }
}

/// A class of an app.
package struct AppClass: Hashable, Sendable {
    /// The name, as clients know it.
    package var name: String
    /// The kind of its objects: independent, embedded or asymmetric.
    package var kind: TableType
    /// The primary key; nil for an embedded class.
    package var key: AppColumn?
    /// The other columns in the order of their names.
    package var columns: [AppColumn] = []
}

/// A column of a class.
package struct AppColumn: Hashable, Sendable {
    /// The name as it is stored.
    package var name: String
    /// The type of the value or of the elements; `null` means Mixed.
    package var type: PayloadType
    /// True if a value or an element can be null.
    package var isNullable: Bool
    /// The kind of collection; single for one value.
    package var collection: CollectionType
    /// The class of links and embedded objects.
    package var target: String?
}

extension AppSchema {
    /// The classes in the form of an export.
    package var exportedClasses: [ExportedClass] {
        classes.map { declared in
            ExportedClass(
                name: declared.name, kind: declared.kind, key: declared.key.map(Self.property),
                properties: declared.columns.map(Self.property).sorted { $0.name < $1.name })
        }
    }

    private static func property(_ column: AppColumn) -> ExportedClass.Property {
        ExportedClass.Property(
            name: column.name, type: column.type, isNullable: column.isNullable || column.type == .null,
            collection: column.collection, target: column.target)
    }
}

/// A class as a line of an export declares it (`Spec/Export.md`, section 1).
package struct ExportedClass: Equatable, Sendable {
    package struct Property: Equatable, Sendable {
        package var name: String
        /// The type of the value or the elements; `null` means Mixed.
        package var type: PayloadType
        package var isNullable: Bool
        package var collection: CollectionType
        /// The class of the linked or embedded objects.
        package var target: String?

        package init(
            name: String, type: PayloadType, isNullable: Bool, collection: CollectionType = .single,
            target: String? = nil
        ) {
            (self.name, self.type, self.isNullable) = (name, type, isNullable)
            (self.collection, self.target) = (collection, target)
        }
    }

    /// The greatest length of a name, in bytes.
    package static let nameBytesMax = ClassDeclaration.nameBytesMax

    package var name: String
    package var kind: TableType
    /// The primary key; nil for an embedded class, and where objects have GlobalKeys.
    package var key: Property?
    /// The properties in the order of their names.
    package var properties: [Property]

    package init(name: String, kind: TableType, key: Property?, properties: [Property]) {
        (self.name, self.kind, self.key, self.properties) = (name, kind, key, properties)
    }

    /// - Parameter text: the name that stands for a name.
    init(_ state: ClassState, in schema: Schema, naming text: ([UInt8]) -> [UInt8]) {
        func name(_ bytes: [UInt8]) -> String { String(decoding: text(bytes), as: UTF8.self) }
        self.name = name(state.name)
        kind = state.kind
        key = state.key.map { key in
            Property(name: name(key.name), type: key.type, isNullable: key.isNullable)
        }
        let columns = state.columns.compactMap { $0 }.sorted { $0.name.compare($1.name) < 0 }
        properties = columns.map { column in
            let target = column.place.type == .link ? schema[column.place.target].name : nil
            return Property(
                name: name(column.name), type: column.place.type, isNullable: column.place.isNullable,
                collection: column.place.collection, target: target.map(name))
        }
    }

    // MARK: Text

    private static let types: [(type: PayloadType, name: String)] = [
        (.null, "mixed"), (.int, "int"), (.bool, "bool"), (.string, "string"), (.binary, "binary"),
        (.timestamp, "timestamp"), (.float, "float"), (.double, "double"), (.decimal, "decimal"), (.link, "link"),
        (.objectID, "objectId"), (.uuid, "uuid"),
    ]
    private static let kinds: [(kind: TableType, name: String)] = [
        (.topLevel, "top-level"), (.embedded, "embedded"), (.topLevelAsymmetric, "asymmetric"),
    ]
    private static let collections: [(collection: CollectionType, name: String)] = [
        (.list, "list"), (.set, "set"), (.dictionary, "dictionary"),
    ]

    /// The line, as JSON.
    package var json: JSONValue {
        var members: [String: JSONValue] = [
            "class": .string(name), "kind": .string(Self.kinds.first { $0.kind == kind }?.name ?? ""),
            "properties": .array(properties.map(Self.json)),
        ]
        if let key { members["key"] = Self.json(key) }
        return .object(members)
    }

    private static func json(_ property: Property) -> JSONValue {
        var members: [String: JSONValue] = [
            "name": .string(property.name), "nullable": .bool(property.isNullable),
            "type": .string(types.first { $0.type == property.type }?.name ?? ""),
        ]
        if property.collection != .single {
            members["collection"] = .string(collections.first { $0.collection == property.collection }?.name ?? "")
        }
        if let target = property.target { members["target"] = .string(target) }
        return .object(members)
    }

    package init(_ json: JSONValue) throws(LineError) {
        guard let name = json["class"]?.string, let word = json["kind"]?.string,
            let kind = Self.kinds.first(where: { $0.name == word })?.kind
        else { throw LineError("a class has \"class\" and a \"kind\" that is known") }
        var properties: [Property] = []
        for property in json["properties"]?.array ?? [] { properties.append(try Self.property(property)) }
        let key = try json["key"].map { key throws(LineError) in try Self.property(key) }
        self.init(name: name, kind: kind, key: key, properties: properties)
    }

    private static func property(_ json: JSONValue) throws(LineError) -> Property {
        guard let name = json["name"]?.string, let word = json["type"]?.string,
            let type = types.first(where: { $0.name == word })?.type
        else { throw LineError("a property has \"name\" and a \"type\" that is known") }
        let collection = json["collection"]?.string
        guard let kind = collection.map({ word in collections.first { $0.name == word }?.collection }) ?? .single else {
            throw LineError(field: name, "\"collection\" has to be list, set or dictionary")
        }
        return Property(
            name: name, type: type, isNullable: json["nullable"]?.bool ?? false, collection: kind,
            target: json["target"]?.string)
    }
}

extension ObjectGraph {
    /// The classes, in the order of their names.
    package var exportedClasses: [ExportedClass] { exportedClasses(replacing: nil) }

    /// The classes with other names in the same order.
    package func exportedClasses(replacing replacement: ((Payload) -> Payload)?) -> [ExportedClass] {
        schema.present.map { schema[$0] }.sorted { $0.name.compare($1.name) < 0 }
            .map { ExportedClass($0, in: schema) { name in replacement.map { name.replaced(by: $0) } ?? name } }
    }
}

extension WriteTransaction {
    /// Adds the classes and columns that are not there.
    ///
    /// - Throws: `ApplyError` if one exists in another form.
    package func add(_ classes: [ExportedClass]) throws(ApplyError) {
        for added in classes {
            let key = added.key.map { key in
                ClassState.KeyColumn(name: Array(key.name.utf8), type: key.type, isNullable: key.isNullable)
            }
            if let key, ![.int, .string, .objectID, .uuid].contains(key.type) {
                throw located(.invalid("\(key.type) cannot be a primary key"), added.name)
            }
            try addClass(ClassDeclaration(name: Array(added.name.utf8), kind: added.kind, key: key))
        }
        for added in classes {
            for column in added.properties {
                try addColumn(
                    ColumnDeclaration(
                        name: Array(column.name.utf8), type: column.type, isNullable: column.isNullable,
                        collection: column.collection, target: column.target.map { Array($0.utf8) }),
                    to: Array(added.name.utf8))
            }
        }
    }
}

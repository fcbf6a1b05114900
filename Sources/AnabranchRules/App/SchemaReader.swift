import AnabranchCore

/// Reads the JSON schema of a collection (`Spec/FlexibleRules.md`, section 7).
struct SchemaReader {
    let notices: NoticeList
    /// The classes by database and collection, as targets of relationships.
    let classNames: [ExactString: String]
    private(set) var classes: [AppClass] = []

    init(classNames: [ExactString: String], notices: NoticeList) {
        self.classNames = classNames
        self.notices = notices
    }

    private static let known: Set = [
        "title", "bsonType", "type", "properties", "required", "primaryKey", "items", "uniqueItems",
        "additionalProperties", "description", "asymmetric",
    ]

    static func key(_ database: String, _ collection: String) -> ExactString {
        ExactString("\(database)/\(collection)")
    }

    // MARK: Classes

    /// Reads the class of a collection and the embedded classes within it.
    mutating func readClass(
        _ node: JSONNode, named name: String, relationships: JSONNode?, isAsymmetric: Bool
    ) throws(RuleError) {
        try node.reportUnknown(Self.known, in: notices)
        let links = try self.relationships(relationships)
        var columns = try columns(of: node, className: name, links)
        guard let index = columns.firstIndex(where: { $0.name == "_id" }) else {
            throw node.error("the class \(name) has no field \"_id\", which is its primary key")
        }
        let key = columns.remove(at: index)
        guard [.int, .string, .objectID, .uuid].contains(key.type), key.collection == .single, key.target == nil else {
            throw node.error("a primary key is of the type int, long, string, objectId or uuid")
        }
        let kind = isAsymmetric ? TableType.topLevelAsymmetric : .topLevel
        try add(AppClass(name: name, kind: kind, key: key, columns: columns), node)
    }

    private mutating func readEmbeddedClass(_ node: JSONNode, named name: String) throws(RuleError) -> String {
        try node.reportUnknown(Self.known, in: notices)
        let name = try node["title"]?.string() ?? name
        try add(
            AppClass(name: name, kind: .embedded, columns: try columns(of: node, className: name, [:])), node)
        return name
    }

    /// An embedded class can occur in several others; it has to be the same everywhere.
    private mutating func add(_ added: AppClass, _ node: JSONNode) throws(RuleError) {
        if let known = classes.first(where: { $0.name.hasBytes(of: added.name) }) {
            guard known == added, added.kind == .embedded else {
                throw node.error("there is another class \(added.name)")
            }
        } else {
            classes.append(added)
        }
    }

    private mutating func columns(
        of node: JSONNode, className: String, _ links: [String: String]
    ) throws(RuleError) -> [AppColumn] {
        let required = Set(try node["required"]?.strings() ?? [])
        var columns: [AppColumn] = []
        for (name, field) in try node["properties"]?.members() ?? [] {
            var column = try self.column(name, field, "\(className)_\(name)")
            if let target = links[name] {
                guard column.collection == .single || column.collection == .list || column.collection == .set else {
                    throw field.error("a relationship stands in a field or a list, not in a dictionary")
                }
                column = AppColumn(
                    name: name, type: .link, isNullable: column.collection == .single, collection: column.collection,
                    target: target)
            } else if column.collection == .single, column.target == nil {
                column.isNullable = column.isNullable || !required.contains(name)
            }
            columns.append(column)
        }
        return columns
    }

    // MARK: Fields

    private mutating func column(
        _ name: String, _ node: JSONNode, _ embeddedName: String
    ) throws(RuleError) -> AppColumn {
        let (type, isNullable) = try self.type(of: node)
        switch type {
        case "array":
            guard let items = node["items"] else { throw node.error("the array has no \"items\"") }
            var column = try self.column(name, items, embeddedName)
            guard column.collection == .single else { throw items.error("a list in a list is not possible") }
            column.collection = try node["uniqueItems"]?.bool() == true ? .set : .list
            if column.target != nil { column.isNullable = false }
            return column
        case "object" where node["properties"] == nil:
            return try dictionary(name, node, embeddedName)
        case "object":
            let target = try readEmbeddedClass(node, named: embeddedName)
            return AppColumn(name: name, type: .link, isNullable: true, collection: .single, target: target)
        default:
            guard let known = Self.types[type] else {
                let known = Self.types.keys.sorted().joined(separator: ", ")
                throw node.error("the type \"\(type)\" is not known: \(known), array, object")
            }
            return AppColumn(
                name: name, type: known, isNullable: isNullable || known == .null, collection: .single)
        }
    }

    private mutating func dictionary(
        _ name: String, _ node: JSONNode, _ embeddedName: String
    ) throws(RuleError) -> AppColumn {
        guard let values = node["additionalProperties"], values.value.bool != true else {
            return AppColumn(name: name, type: .null, isNullable: true, collection: .dictionary)
        }
        var column = try self.column(name, values, embeddedName)
        guard column.collection == .single else { throw values.error("a collection in a dictionary is not possible") }
        column.collection = .dictionary
        return column
    }

    private static let types: [String: PayloadType] = [
        "int": .int, "long": .int, "bool": .bool, "string": .string, "binData": .binary, "date": .timestamp,
        "float": .float, "double": .double, "decimal": .decimal, "decimal128": .decimal, "objectId": .objectID,
        "uuid": .uuid, "mixed": .null,
        // The words of JSON Schema itself.
        "boolean": .bool, "integer": .int, "number": .double,
    ]

    /// The type, and whether null is allowed as well: `["string", "null"]`.
    private func type(of node: JSONNode) throws(RuleError) -> (name: String, isNullable: Bool) {
        guard let type = node["bsonType"] ?? node["type"] else {
            // A field without a type can hold everything.
            return (node["properties"] == nil ? "mixed" : "object", false)
        }
        if let name = type.value.string { return (name, false) }
        let names = try type.strings()
        let others = names.filter { $0 != "null" }
        guard others.count == 1 else { return ("mixed", true) }
        return (others[0], others.count < names.count)
    }

    // MARK: Relationships

    /// The class that each field links to.
    private func relationships(_ node: JSONNode?) throws(RuleError) -> [String: String] {
        var links: [String: String] = [:]
        for (field, node) in try node?.members() ?? [] {
            try node.reportUnknown(
                ["ref", "foreign_key", "foreignKey", "is_list", "isList", "source_key"], in: notices)
            guard let reference = node["ref"] else { throw node.error("\"ref\" is missing") }
            let parts = try reference.string().split(separator: "/").map(String.init)
            guard parts.count == 5, parts[0] == "#", parts[1] == "relationship" else {
                throw reference.error("a reference is written \"#/relationship/SERVICE/DATABASE/COLLECTION\"")
            }
            guard let target = classNames[Self.key(parts[3], parts[4])] else {
                throw reference.error("there is no schema of \(parts[3])/\(parts[4])")
            }
            if let key = node["foreign_key"] ?? node["foreignKey"], try key.string() != "_id" {
                throw key.error("a link leads to the primary key, \"_id\"")
            }
            links[field] = target
        }
        return links
    }
}

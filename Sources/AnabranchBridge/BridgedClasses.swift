#if canImport(CLibPQ)
import AnabranchClient
package import AnabranchCore

/// A class as the replica needs it for a table.
struct BridgedClass: Sendable {
    private struct Wanted: Sendable {
        let name: String
        let type: String
        let kind: ColumnKind
        let isArray: Bool
        /// The class of the objects that a foreign key leads to.
        let target: String?
    }

    private let table: String
    private let name: String
    private let key: String
    private let keyKind: ColumnKind
    private let columns: [Wanted]

    init(_ table: BridgedTable, in database: BridgeDatabase) {
        (self.table, name, key, keyKind) = (table.path, table.className, table.key.name, table.key.kind)
        columns = table.columns.map { column in
            let target = column.target.flatMap { database.table(named: $0) }
            // A reference to another column than the key is a value of its own.
            let isLink = target?.key.kind == column.kind && !column.isArray
            return Wanted(
                name: column.name, type: column.type, kind: column.kind, isArray: column.isArray,
                target: isLink ? target?.className : nil)
        }
    }

    /// Adds the classes and properties that are missing.
    /// - Throws: `BridgeError` with the code `schemaMismatch` if there is something else under a name.
    static func add(_ classes: [BridgedClass], to transaction: WriteTransaction) throws {
        let known = Set(transaction.classNames.map { ExactString($0) })
        for wanted in classes where !known.contains(ExactString(wanted.name)) {
            try transaction.addClass(wanted.name, key: wanted.key, wanted.keyKind.propertyType)
        }
        let state = transaction.state
        for wanted in classes {
            guard let schema = state.schema(ofClass: Array(wanted.name.utf8)), schema.kind == .topLevel,
                let key = schema.key
            else { throw wanted.mismatch("the class \(wanted.name) of the file has no primary key", nil) }
            guard key.name == Array(wanted.key.utf8), wanted.keyKind.holds(key.type) else {
                let found = "\(String(decoding: key.name, as: UTF8.self)) of type \(key.type)"
                throw wanted.mismatch("the class \(wanted.name) of the file has the primary key \(found)", wanted.key)
            }
            for column in wanted.columns {
                guard let property = schema.property(named: Array(column.name.utf8)) else {
                    try wanted.add(column, to: transaction)
                    continue
                }
                guard wanted.fits(column, property, state) else {
                    let kind = property.collection == .single ? "" : "\(property.collection) of "
                    throw wanted.mismatch(
                        "the property in the file is \(kind)\(property.type), and the column is \(column.type)",
                        column.name)
                }
            }
        }
    }

    private func mismatch(_ reason: String, _ column: String?) -> BridgeError {
        BridgeError(.schemaMismatch, reason, table: table, column: column)
    }

    private func add(_ column: Wanted, to transaction: WriteTransaction) throws {
        if let target = column.target {
            try transaction.addLink(column.name, to: target, of: name)
        } else {
            try transaction.addColumn(
                column.name, column.kind.propertyType, isNullable: true, collection: column.isArray ? .list : .single,
                to: name)
        }
    }

    private func fits(_ column: Wanted, _ property: Property, _ state: ObjectGraph) -> Bool {
        if column.kind == .json { return true }
        if property.isEmbedded || property.collection == .dictionary { return false }
        guard column.isArray == (property.collection != .single) else { return false }
        guard property.type == .link else { return column.kind.holds(property.type) }
        let key = property.target.flatMap { state.schema(of: $0) }?.key
        return key.map { column.kind.holds($0.type) } ?? false
    }
}

/// The tables for classes that a file has, as SQL.
package enum BridgeSchema {
    /// The statements that make a table for each class whose objects have keys.
    /// - Parameter lists: the lists and sets whose elements become rows of a table, each as `Class.property`.
    /// - Returns: the statements, and the classes that have no table, with the reasons.
    package static func sql(for classes: [ExportedClass], lists: [String] = []) -> (sql: String, omitted: [String]) {
        let named = Dictionary(classes.map { ($0.name, $0) }) { first, _ in first }
        var sql = "", omitted: [String] = [], unknown = lists
        for declared in classes where declared.kind == .topLevel {
            guard let key = declared.key, let keyType = type(of: key) else {
                omitted.append("class \(declared.name): its objects have no primary key of their own")
                continue
            }
            var lines = ["  \(key.name.quoted) \(keyType) PRIMARY KEY"]
            var tables = ""
            for property in declared.properties {
                if let at = unknown.firstIndex(of: "\(declared.name).\(property.name)"),
                    let element = elementType(property, named)
                {
                    unknown.remove(at: at)
                    tables += """
                        CREATE TABLE \("\(declared.name)_\(property.name)".quoted) (
                          owner \(keyType) NOT NULL REFERENCES \(declared.name.quoted) ON DELETE CASCADE,
                          position integer NOT NULL,
                          value \(element),
                          PRIMARY KEY (owner, position)
                        );\n
                        """
                    continue
                }
                lines.append("  \(property.name.quoted) \(column(property, named))")
            }
            sql += "CREATE TABLE \(declared.name.quoted) (\n\(lines.joined(separator: ",\n"))\n);\n" + tables
        }
        omitted += unknown.map { "\($0): there is no list or set of that name whose elements a column can hold" }
        return (sql, omitted)
    }

    /// The type of the elements of a list or set as values of a column; nil for another property.
    private static func elementType(_ property: ExportedClass.Property, _ classes: [String: ExportedClass]) -> String? {
        guard [.list, .set].contains(property.collection) else { return nil }
        let target = property.target.flatMap { classes[$0] }
        return property.type == .link ? target?.key.flatMap(type) : type(of: property)
    }

    private static func column(_ property: ExportedClass.Property, _ classes: [String: ExportedClass]) -> String {
        let target = property.target.flatMap { classes[$0] }
        let isEmbedded = target?.kind == .embedded
        if property.collection == .dictionary { return "jsonb NOT NULL DEFAULT '{}'" }
        if isEmbedded { return property.collection == .single ? "jsonb" : "jsonb NOT NULL DEFAULT '[]'" }
        let type = property.type == .link ? target?.key.flatMap(type) : type(of: property)
        guard let type else { return property.collection == .single ? "jsonb" : "jsonb NOT NULL DEFAULT '[]'" }
        if property.collection != .single { return "\(type)[] NOT NULL DEFAULT '{}'" }
        guard !property.isNullable, property.type != .link, let initial = initials[property.type] else { return type }
        return "\(type) NOT NULL DEFAULT \(initial)"
    }

    private static let types: [PayloadType: String] = [
        .int: "bigint", .bool: "boolean", .string: "text", .binary: "bytea", .timestamp: "timestamptz", .float: "real",
        .double: "double precision", .decimal: "numeric", .objectID: "text", .uuid: "uuid",
    ]

    private static let initials: [PayloadType: String] = [
        .int: "0", .bool: "false", .string: "''", .binary: "''", .timestamp: "'1970-01-01 00:00:00+00'", .float: "0",
        .double: "0", .decimal: "0", .objectID: "'\(String(repeating: "0", count: 24))'",
        .uuid: "'00000000-0000-0000-0000-000000000000'",
    ]

    /// The type of a column of single values, or of the elements of an array; nil for one that can hold any value.
    private static func type(of property: ExportedClass.Property) -> String? { types[property.type] }
}

extension BridgeDatabase {
    /// The classes that the tables would become, where the file has none of these names.
    /// - Throws: `BridgeError` with the code `notBridgeable`.
    package func classes(for names: [String]) throws -> [ExportedClass] {
        try translating {
            let db = try db
            tables = try names.map { try BridgedTable($0, in: db) }
            defer { tables = [] }
            let wanted = tables.map { BridgedClass($0, in: self) }
            var graph = ObjectGraph()
            _ = try graph.write(as: 0) { try BridgedClass.add(wanted, to: $0) }
            return graph.exportedClasses
        }
    }
}

extension SyncedReplica {
    /// Subscribes to all objects of some classes, where the replica has subscriptions: of those that are there, since
    /// the server refuses a set with a class that it does not know.
    func subscribeToAll(of classes: [String]) throws {
        guard let known = record.subscriptions?.latest.subscriptions else { return }
        let missing = try read { transaction in
            classes.filter { name in
                transaction.state.schema(ofClass: Array(name.utf8)) != nil
                    && !known.contains { $0.className.hasBytes(of: name) }
            }
        }
        if !missing.isEmpty { try subscribe(known + missing.map { Subscription($0) }) }
    }
}
#endif

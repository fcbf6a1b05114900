#if canImport(CLibPQ)
import AnabranchCore
import AnabranchPostgresWire

/// A table that is bridged: its key, its columns, and what else decides how it is read and written.
struct BridgedTable: Equatable {
    let oid: String
    let schema: String
    let name: String
    /// The class of its objects.
    let className: String
    let key: Column
    /// The columns in the order of the table.
    var columns: [Column]
    /// True if writes to the table can reach it by another one: partitions, and tables that inherit.
    let isFamily: Bool
    /// True if a column is of the type `json`, which can hold what `jsonb` cannot.
    let hasJSON: Bool
    /// The columns that are not bridged, with the reasons.
    let omitted: [(name: String, reason: String)]

    /// The table as SQL spells it.
    var path: String { "\(schema.quoted).\(name.quoted)" }

    static func == (left: BridgedTable, right: BridgedTable) -> Bool {
        (left.oid, left.schema, left.name, left.className) == (right.oid, right.schema, right.name, right.className)
            && left.key == right.key && left.columns == right.columns && left.isFamily == right.isFamily
    }

    // Realm's limits.
    private static let classBytesMax = 57
    private static let propertyBytesMax = 63

    /// A table of the elements of a list: `class_property(owner, position, value)`.
    struct ListTable: Equatable {
        let oid: String
        let path: String
        /// The key of the owner in the row `t`.
        let ownerKey: String

        /// The elements that the owner `t` has.
        var array: String { "ARRAY(SELECT l.value FROM \(path) l WHERE l.owner = \(ownerKey) ORDER BY l.position)" }
    }

    /// Reads a table from the catalog.
    ///
    /// - Parameter name: the name, with its schema before a point or without.
    /// - Throws: `BridgeError` with the code `notBridgeable`.
    init(_ name: String, className: String? = nil, in db: PostgresConnection) throws {
        func refused(_ reason: String, column: String? = nil) -> BridgeError {
            BridgeError(.notBridgeable, reason, table: name, column: column)
        }
        let (schema, local) = Self.parts(name)
        let found = try db.query(
            """
            SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence,
              c.relkind = 'p' OR c.relispartition OR EXISTS (
                SELECT FROM pg_inherits i WHERE i.inhparent = c.oid OR i.inhrelid = c.oid)
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relname = $1 AND n.nspname = coalesce($2, n.nspname)
              AND ($2 IS NOT NULL OR pg_table_is_visible(c.oid))
            """, [.text(local), schema.map { .text($0) } ?? .null])
        guard found.count == 1, let oid = found[0, 0], let schema = found[0, 1], let exact = found[0, 2] else {
            throw refused("there is no such table in the search path: write schema.table")
        }
        switch found[0, 3] {
        case "r", "p": break
        case "v", "m": throw refused("it is a view: bridge the tables that it shows")
        default: throw refused("it is not a table")
        }
        guard found[0, 4] != "t" else { throw refused("it is a temporary table") }
        guard schema != "anabranch", !schema.hasPrefix("pg_"), schema != "information_schema" else {
            throw refused("it belongs to PostgreSQL, or to the bridge itself")
        }
        (self.oid, self.schema, self.name) = (oid, schema, exact)
        let wanted = className ?? exact
        guard wanted.utf8.count <= Self.classBytesMax else {
            throw refused("the name is longer than \(Self.classBytesMax) bytes, the longest that a class can have")
        }
        self.className = wanted
        isFamily = found[0, 5] == "t"

        let keys = try db.query(
            """
            SELECT a.attname FROM pg_index i
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
            WHERE i.indrelid = $1::oid AND i.indisprimary
            """, [.text(oid)])
        guard keys.count == 1, let keyName = keys[0, 0] else {
            throw refused(
                keys.count == 0
                    ? "it has no primary key"
                    : "its primary key has several columns: give it a uuid of its own as the key, and make these UNIQUE"
            )
        }
        let columns = try Self.columns(of: oid, in: db)
        var key: Column?
        var kept: [Column] = []
        var omitted: [(name: String, reason: String)] = []
        hasJSON = (0..<columns.count).contains { [columns[$0, 2], columns[$0, 4]].contains("json") }
        for row in 0..<columns.count {
            let column = columns[row, 0] ?? "", type = columns[row, 1] ?? ""
            let isEnum = columns[row, 3] == "e"
            let kind = ColumnKind(isEnum ? "text" : columns[row, 4] ?? columns[row, 2] ?? "")
            let isArray = columns[row, 5] == "t"
            if column.hasBytes(of: keyName) {
                guard let kind, !isArray, !isEnum, [.int, .text, .uuid].contains(kind), !type.hasPrefix("character(")
                else {
                    throw refused("a key of type \(type) cannot be that of an object", column: column)
                }
                key = Column(name: column, type: type, kind: kind, isArray: false)
            } else if columns[row, 6] == "t" {
                omitted.append((column, "generated"))
            } else if column.utf8.count > Self.propertyBytesMax {
                omitted.append((column, "the name is longer than that of a property"))
            } else if let kind, !(isArray && kind == .json) {
                kept.append(Column(name: column, type: type, kind: kind, isArray: isArray, target: columns[row, 7]))
            } else {
                omitted.append((column, "no property can have the type \(type)"))
            }
        }
        guard let key else { throw refused("its primary key is not a column of its own") }
        for list in try Self.lists(of: oid, exact, key.name, in: db) {
            guard !([key] + kept).contains(where: { $0.name.hasBytes(of: list.name) }) else {
                throw refused("both a column and a table of elements have the name", column: list.name)
            }
            kept.append(list)
        }
        (self.key, self.columns, self.omitted) = (key, kept, omitted)
    }

    /// The columns of a table: name, type, type of elements, its kind, base type, whether it is an array, whether it is
    /// generated, and the table that a foreign key leads to.
    private static func columns(of oid: String, in db: PostgresConnection) throws -> PostgresRows {
        try db.query(
            """
            SELECT a.attname, format_type(a.atttypid, a.atttypmod), e.typname, e.typtype, b.typname,
              t.typcategory = 'A' AND t.typelem <> 0, a.attgenerated <> '',
              (SELECT f.confrelid::regclass::text FROM pg_constraint f
               WHERE f.conrelid = a.attrelid AND f.contype = 'f' AND f.conkey = ARRAY[a.attnum] LIMIT 1)
            FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
            JOIN pg_type e ON e.oid = CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN t.typelem ELSE t.oid END
            LEFT JOIN pg_type b ON b.oid = e.typbasetype
            WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
            """, [.text(oid)])
    }

    /// The tables of elements that belong to a table.
    private static func lists(of oid: String, _ name: String, _ key: String, in db: PostgresConnection) throws
        -> [Column]
    {
        let found = try db.query(
            """
            SELECT c.oid, format('%I.%I', n.nspname, c.relname), substr(c.relname, length($2) + 2)
            FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE f.contype = 'f' AND f.confrelid = $1::oid AND starts_with(c.relname, $2 || '_')
              AND (SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) = '{owner,position,value}'
              AND f.conkey = ARRAY[(SELECT a.attnum FROM pg_attribute a
                WHERE a.attrelid = c.oid AND a.attname = 'owner')] ORDER BY 3
            """, [.text(oid), .text(name)])
        return try (0..<found.count).compactMap { row -> Column? in
            guard let child = found[row, 0], let path = found[row, 1], let property = found[row, 2] else { return nil }
            let columns = try columns(of: child, in: db)
            guard let value = (0..<columns.count).first(where: { columns[$0, 0] == "value" }),
                let type = columns[value, 1], columns[value, 5] == "f",
                let kind = ColumnKind(columns[value, 3] == "e" ? "text" : columns[value, 4] ?? columns[value, 2] ?? ""),
                kind != .json
            else {
                throw BridgeError(
                    .notBridgeable, "a list cannot have elements of its type", table: path, column: "value")
            }
            return Column(
                name: property, type: type + "[]", kind: kind, isArray: true,
                list: ListTable(oid: child, path: path, ownerKey: "t.\(key.quoted)"))
        }
    }

    /// The schema, if the name has one, and the name in it.
    static func parts(_ name: String) -> (schema: String?, name: String) {
        guard let point = name.firstIndex(of: ".") else { return (nil, name) }
        return (String(name[..<point]), String(name[name.index(after: point)...]))
    }

    // MARK: SQL

    /// Reads the rows of some keys: each key, and the columns as JSON.
    var selectRows: String {
        let names = ["t.\(key.name.quoted)::text"] + columns.map { "to_json(\($0.selected))::text" }
        return """
            SELECT \(names.joined(separator: ", ")) FROM \(path) t
            WHERE t.\(key.name.quoted) = ANY ($1::\(keyType)[])
            """
    }

    /// The type of the key without its length.
    var keyType: String {
        switch key.kind {
        case .int: "int8"
        case .uuid: "uuid"
        default: "text"
        }
    }

    /// A batch of objects as rows: the key, then the columns.
    func rows(_ indices: [Int]) -> String {
        let types = (["k \(key.type)"] + indices.map { "c\($0) \(columns[$0].type)" }).joined(separator: ", ")
        return "json_to_recordset($1::json) AS v(\(types))"
    }

    /// Changes the rows of a batch that are not as their objects.
    /// - Parameter keepsValues: true if a null of an object takes no value of its row away.
    func update(_ indices: [Int], keepsValues: Bool) -> String? {
        let indices = indices.filter { columns[$0].list == nil }
        if indices.isEmpty { return nil }
        let settings = indices.map { index in
            let name = columns[index].name.quoted
            let new = keepsValues ? "coalesce(v.c\(index), t.\(name))" : "v.c\(index)"
            guard columns[index].hasEqualValues else { return "\(name) = \(new)" }
            return "\(name) = CASE WHEN \(differs(index)) THEN \(new) ELSE t.\(name) END"
        }
        let different = indices.map { keepsValues ? "(v.c\($0) IS NOT NULL AND \(differs($0)))" : differs($0) }
        return """
            UPDATE \(path) t SET \(settings.joined(separator: ", ")) FROM \(rows(indices))
            WHERE t.\(key.name.quoted) = v.k AND (\(different.joined(separator: " OR ")))
            """
    }

    /// True if a column of the row has not the value of the batch.
    func differs(_ index: Int) -> String { columns[index].differs(from: "v.c\(index)") }

    /// Finds the rows of a batch that are not there, or not as in the batch: the key, and the columns as a JSON array;
    /// null for no row.
    func differences(_ indices: [Int]) -> String {
        let names = indices.map { "CASE WHEN \(differs($0)) THEN \(columns[$0].name.literal) END" }
        let list = "array_remove(ARRAY[\(names.joined(separator: ", "))]::text[], NULL)"
        return """
            SELECT v.k::text, CASE WHEN t.\(key.name.quoted) IS NOT NULL THEN to_json(\(list)) END
            FROM \(rows(indices)) LEFT JOIN \(path) t ON t.\(key.name.quoted) = v.k
            WHERE t.\(key.name.quoted) IS NULL OR \(list) <> '{}'
            """
    }

    /// Inserts the rows of a batch that are not there.
    func insert(_ indices: [Int]) -> String {
        let indices = indices.filter { columns[$0].list == nil }
        let names = ([key.name] + indices.map { columns[$0].name }).map(\.quoted).joined(separator: ", ")
        let values = (["v.k"] + indices.map { "v.c\($0)" }).joined(separator: ", ")
        return """
            INSERT INTO \(path) (\(names)) OVERRIDING SYSTEM VALUE SELECT \(values) FROM \(rows(indices))
            WHERE NOT EXISTS (SELECT FROM \(path) t WHERE t.\(key.name.quoted) = v.k)
            """
    }

    /// Counts the rows of a batch that differ in lists alone; nil if there are no lists.
    func countListChanges(_ indices: [Int]) -> String? {
        let lists = indices.filter { columns[$0].list != nil }, others = indices.filter { columns[$0].list == nil }
        if lists.isEmpty { return nil }
        let differences = others.map { " AND NOT (\(differs($0)))" }.joined()
        return """
            SELECT count(*) FROM \(rows(indices)) JOIN \(path) t ON t.\(key.name.quoted) = v.k
            WHERE (\(lists.map(differs).joined(separator: " OR ")))\(differences)
            """
    }

    /// Writes the lists of a batch that differ from those of its rows: two statements each.
    func writeLists(_ indices: [Int]) -> [String] {
        indices.flatMap { index -> [String] in
            guard let list = columns[index].list else { return [] }
            let source = "\(rows([index])) JOIN \(path) t ON t.\(key.name.quoted) = v.k"
            return [
                """
                DELETE FROM \(list.path) WHERE owner IN (SELECT v.k FROM \(source) WHERE \(differs(index)))
                """,
                """
                INSERT INTO \(list.path) (owner, position, value) SELECT v.k, e.position - 1, e.value
                FROM \(source), unnest(v.c\(index)) WITH ORDINALITY e(value, position) WHERE \(differs(index))
                """,
            ]
        }
    }

    /// Deletes the elements of the rows of some keys.
    var deleteLists: [String] {
        columns.compactMap(\.list).map { "DELETE FROM \($0.path) l WHERE l.owner = ANY ($1::\(keyType)[])" }
    }

    /// Deletes the rows of some keys.
    var delete: String { "DELETE FROM \(path) t WHERE t.\(key.name.quoted) = ANY ($1::\(keyType)[])" }

    // MARK: Keys

    /// The longest text that is a key, in bytes, of a row or of an object: an index has no room for much more, that of
    /// `anabranch.pending` included.
    private static let keyBytesMax = 2_000

    /// The key of an object as the row has it; nil if it can have no such key.
    func text(of objectKey: PrimaryKey) -> String? {
        switch (objectKey, key.kind) {
        case (.int(let value), .int): "\(value)"
        case (.string(let bytes), .text):
            bytes.count > Self.keyBytesMax || bytes.contains(0) ? nil : String(validating: bytes, as: UTF8.self)
        case (.objectID(let value), .text): "\(value)"
        case (.uuid(let value), .uuid): "\(value)"
        default: nil
        }
    }

    /// The key of the object of a row, of the type that keys of its class have; nil if the text is not one.
    static func objectKey(_ text: String, _ type: PayloadType) -> PrimaryKey? {
        switch type {
        case .int: Int64(text).map { .int($0) }
        case .string: text.utf8.count > keyBytesMax ? nil : .string(Array(text.utf8))
        // The row of an object has small letters.
        case .objectID: ObjectID(text).flatMap { "\($0)".hasBytes(of: text) ? .objectID($0) : nil }
        case .uuid: UUIDBytes(text: text).map { .uuid($0) }
        default: nil
        }
    }
}
#endif

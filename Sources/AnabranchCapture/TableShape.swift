import AnabranchCore

/// A table of the application, as far as capture depends on it.
struct TableShape: Equatable {
    /// A column that an application writes: no generated one.
    struct Column: Equatable {
        let name: String
        /// The declared type, in capitals; empty for one that stores values as they are given.
        let type: String
        let isNotNull: Bool
        let hasDefault: Bool
        /// The table whose key the column has; nil for a value of its own.
        var target: String?

        /// True if the column has another value than null, even if none is given.
        var needsValue: Bool { isNotNull && hasDefault }

        /// True if the column stores a value as it is given: its affinity turns it into no other one.
        func keeps(_ value: SQLValue) -> Bool {
            switch value {
            case .null, .blob: true
            case .int: ![.text, .real].contains(affinity)
            case .real: [.none, .real].contains(affinity)
            case .text: [.none, .text].contains(affinity)
            }
        }

        private enum Affinity { case none, text, real, number }

        private var affinity: Affinity {
            func says(_ words: String...) -> Bool { words.contains { type.contains($0) } }
            if says("INT") { return .number }
            if says("CHAR", "CLOB", "TEXT") { return .text }
            if type.isEmpty || says("BLOB") { return .none }
            return says("REAL", "FLOA", "DOUB") ? .real : .number
        }
    }

    /// A unique constraint or index, with the collation of each column.
    struct Unique: Equatable {
        var columns: [(name: String, collation: String)]

        static func == (left: Unique, right: Unique) -> Bool { left.columns.elementsEqual(right.columns, by: ==) }
    }

    /// A foreign key: the columns, the table that they refer to, and its columns, none for its primary key.
    struct ForeignKey: Equatable {
        let columns: [String]
        let target: String
        let targetColumns: [String]
    }

    let name: String
    /// The columns of the primary key.
    let keyColumns: [String]
    /// True if the primary key is the row number, which SQLite gives: it differs between databases.
    let isKeyLocal: Bool
    /// The columns of the primary key whose collation takes different texts for equal.
    let collatedKeys: Set<String>
    let isStrict: Bool
    /// All columns that are written, those of the key included.
    var columns: [Column]
    /// The unique indexes that the triggers name, the primary key's included unless it is the row number.
    let uniques: [Unique]
    /// True if there is a unique index on an expression, or with WHERE: no trigger can tell which row it takes away.
    let needsSweep: Bool
    let foreignKeys: [ForeignKey]
    /// True if rows change with those that they refer to.
    let hasActions: Bool
    /// True if a constraint says what becomes of a row that violates it, or of the other one, as ON CONFLICT REPLACE.
    let settlesConflicts: Bool
    /// The generated columns, which are not synced.
    let generated: [String]

    /// The columns that are properties of the class.
    var properties: [Column] { isKeyLocal ? columns.filter { $0.name != keyColumns[0] } : columns }

    // Realm's limits.
    private static let tableBytesMax = 57
    private static let columnBytesMax = 63

    /// - Parameter own: the column that capture has added to the table.
    /// - Throws: `CaptureError` if the table cannot be captured.
    init(_ name: String, in db: SQLConnection, without own: String? = nil) throws {
        func refused(_ reason: String, column: String? = nil) -> CaptureError {
            CaptureError(.notCapturable, reason, table: name, column: column)
        }
        let listed = try db.rows(
            "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE",
            [SQLValue(name)])
        guard let found = listed.first, let exact = found[0].string else { throw refused("there is no such table") }
        switch found[1].string {
        case "table": break
        case "view": throw refused("it is a view: capture the tables that it shows")
        case let kind: throw refused("it is a \(kind ?? "table") table, which has no triggers")
        }
        guard !exact.hasPrefix("sqlite_"), !exact.hasPrefix("sync_") else {
            throw refused("it belongs to SQLite, or to capture itself")
        }
        guard exact.utf8.count <= Self.tableBytesMax else {
            throw refused("the name is longer than \(Self.tableBytesMax) bytes, the longest that a class can have")
        }
        self.name = exact
        isStrict = found[3].int == 1
        let isRowless = found[2].int == 1

        var columns: [Column] = []
        var generated: [String] = []
        var keys: [(order: Int64, name: String)] = []
        for row in try db.rows(
            "SELECT name, type, \"notnull\", pk, hidden, dflt_value FROM pragma_table_xinfo(?)", [SQLValue(exact)])
        {
            let column = row[0].string ?? ""
            if column == own { continue }
            let hidden = row[4].int ?? 0
            if let order = row[3].int, order > 0 { keys.append((order, column)) }
            if hidden > 1 {
                guard row[3].int == 0 else { throw refused("a generated column cannot be the key", column: column) }
                generated.append(column)
                continue
            }
            guard column.utf8.count <= Self.columnBytesMax else {
                let longest = "the longest that a property can have"
                throw refused("the name is longer than \(Self.columnBytesMax) bytes, \(longest)", column: column)
            }
            let type = (row[1].string ?? "").uppercased()
            columns.append(
                Column(
                    name: column, type: isStrict && type == "ANY" ? "" : type, isNotNull: row[2].int == 1,
                    hasDefault: row[5] != .null))
        }
        guard !keys.isEmpty else { throw refused("it has no primary key: the numbers of its rows change with VACUUM") }
        self.columns = columns
        self.generated = generated
        keyColumns = keys.sorted { $0.order < $1.order }.map(\.name)

        var uniques: [Unique] = []
        var needsSweep = false
        var hasKeyIndex = false
        var collatedKeys: Set<String> = []
        for index in try db.rows(
            "SELECT name, origin, partial FROM pragma_index_list(?) WHERE \"unique\"", [SQLValue(exact)])
        {
            let parts = try db.rows("SELECT cid, name, coll FROM pragma_index_xinfo(?) WHERE key", [index[0]])
            if index[1].string == "pk" {
                hasKeyIndex = true
                collatedKeys = Set(parts.filter { $0[2].string != "BINARY" }.compactMap { $0[1].string })
            }
            guard index[2].int == 0, !parts.contains(where: { $0[0].int == -2 }) else {
                needsSweep = true
                continue
            }
            uniques.append(
                Unique(columns: parts.map { (name: $0[1].string ?? keys[0].name, collation: $0[2].string ?? "BINARY") })
            )
        }
        self.uniques = uniques.sorted { $0.columns.map(\.name).lexicographicallyPrecedes($1.columns.map(\.name)) }
        self.needsSweep = needsSweep
        self.collatedKeys = collatedKeys
        let hasLocalKey = !isRowless && !hasKeyIndex && keys.count == 1
        isKeyLocal = hasLocalKey
        // Many apps call the number of a row so, and that is not a property.
        guard !columns.contains(where: { $0.name == "_id" && !(hasLocalKey && $0.name == keys[0].name) }) else {
            throw refused("objects have their identity under this name", column: "_id")
        }

        var foreign: [Int64: ForeignKey] = [:]
        var hasActions = false
        let list = "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete FROM pragma_foreign_key_list(?)"
        for row in try db.rows(list + " ORDER BY id, seq", [SQLValue(exact)]) {
            let actions = [row[4].string, row[5].string]
            hasActions = hasActions || actions.contains { !["NO ACTION", "RESTRICT"].contains($0) }
            let id = row[0].int ?? 0
            let before = foreign[id]
            foreign[id] = ForeignKey(
                columns: (before?.columns ?? []) + [row[2].string ?? ""], target: row[1].string ?? "",
                targetColumns: (before?.targetColumns ?? []) + (row[3].string.map { [$0] } ?? []))
        }
        self.hasActions = hasActions
        foreignKeys = foreign.sorted { $0.key < $1.key }.map(\.value)
        let sql = try db.value(
            "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?", [SQLValue(exact)])
        let clause = /\bon\s+conflict\s+(replace|rollback|ignore|fail)\b/.ignoresCase()
        settlesConflicts = sql?.string?.contains(clause) ?? false
    }
}

extension String {
    /// The name as SQL spells it.
    var quoted: String { "\"\(escaping("\""))\"" }

    /// The name with small letters in place of A to Z: SQLite takes names for one that differ in nothing else.
    var folded: ExactString {
        ExactString(String(decoding: utf8.map { 65...90 ~= $0 ? $0 + 32 : $0 }, as: UTF8.self))
    }
}

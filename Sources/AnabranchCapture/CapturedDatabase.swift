import AnabranchCore

/// An application's SQLite database whose tables are captured: triggers note which rows change, and tables whose names
/// begin with `sync_` hold the notes and the identities of rows (`Spec/Capture.md`, section 2).
///
/// It is used by one thread at a time. Every transaction is short, so the application's own writes go on.
public final class CapturedDatabase {
    /// The database file.
    public let path: String
    let db: SQLConnection
    /// The tables, those that others refer to first.
    var tables: [CapturedTable] = []
    /// The reasons why tables that are installed cannot be captured any more.
    private(set) var broken: [CaptureError] = []
    /// True if what is written to one row can change others: by triggers of the application, or by foreign keys.
    private(set) var hasSideEffects = false
    /// The version of the schema at which the triggers were found whole.
    var checkedSchema: SQLValue?

    /// The number of entries that one transaction writes at installation.
    static let batchRows = 10_000

    /// Opens a database.
    /// - Throws: `CaptureError` with the code `unreadable` or `locked`.
    public init(path: String) throws {
        self.path = path
        db = try SQLConnection(path: path)
        try translating { try load() }
    }

    func translating<Value>(_ body: () throws -> Value) throws -> Value {
        do { return try body() } catch let error as SQLError { throw CaptureError(error, in: path) }
    }

    // MARK: Side tables

    static let sideTables = """
        CREATE TABLE sync_table (
          id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, columns TEXT NOT NULL, rule TEXT NOT NULL);
        CREATE TABLE sync_row (tbl INTEGER NOT NULL, key NOT NULL, guid BLOB NOT NULL UNIQUE, seen BLOB,
          PRIMARY KEY (tbl, key)) WITHOUT ROWID;
        CREATE TABLE sync_history (
          id INTEGER PRIMARY KEY, tbl, key, action, was);
        CREATE TABLE sync_state (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
        CREATE TABLE sync_pending (
          guid BLOB PRIMARY KEY, tbl INTEGER NOT NULL, reason TEXT NOT NULL, since INTEGER NOT NULL);
        CREATE TABLE sync_conflict (
          id INTEGER PRIMARY KEY, guid BLOB NOT NULL, tbl INTEGER NOT NULL, kind TEXT NOT NULL, lost TEXT NOT NULL,
              at INTEGER NOT NULL);
        CREATE TABLE sync_step (
          tbl INTEGER NOT NULL, key NOT NULL, guid BLOB, seen BLOB, PRIMARY KEY (tbl, key)) WITHOUT ROWID;
        CREATE TABLE sync_dangling (target INTEGER NOT NULL, target_key NOT NULL, tbl INTEGER NOT NULL, key NOT NULL,
          cid INTEGER NOT NULL, PRIMARY KEY (target, target_key, tbl, key, cid)) WITHOUT ROWID;
        """

    static let sideTableNames = [
        "sync_table", "sync_row", "sync_history", "sync_state", "sync_pending", "sync_conflict", "sync_step",
        "sync_dangling",
    ]

    /// True if capture is installed.
    public var isInstalled: Bool {
        get throws { try translating { try db.value("SELECT 1 FROM sqlite_schema WHERE name = 'sync_table'") != nil } }
    }

    /// True while capture is paused.
    public var isPaused: Bool { get throws { try state("paused") != nil } }

    func state(_ name: String) throws -> SQLValue? {
        try db.value("SELECT value FROM sync_state WHERE name = ?", [SQLValue(name)])
    }

    func set(_ name: String, to value: SQLValue?) throws {
        if let value {
            try db.run("INSERT OR REPLACE INTO sync_state (name, value) VALUES (?, ?)", [SQLValue(name), value])
        } else {
            try db.run("DELETE FROM sync_state WHERE name = ?", [SQLValue(name)])
        }
    }

    func load() throws {
        (tables, broken) = ([], [])
        guard try isInstalled else { return }
        for row in try db.rows("SELECT id, name, rule FROM sync_table ORDER BY id") {
            guard let number = row[0].int, let name = row[1].string, let text = row[2].string,
                let json = try? JSONValue(parsing: text.utf8)
            else { throw CaptureError(.notInstalled, "the table sync_table is damaged") }
            let rule = try TableRule(json, table: name)
            do {
                tables.append(
                    CapturedTable(number: number, shape: try TableShape(name, in: db, without: rule.guid), rule: rule))
            } catch let error as CaptureError { broken.append(error) }
        }
        do { tables = try Self.linked(tables) } catch let error as CaptureError { broken.append(error) }
        let others = try db.value(
            "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name NOT LIKE 'sync\\_%' ESCAPE '\\'")
        hasSideEffects = others != nil || tables.contains(where: \.shape.hasActions)
    }

    /// Says of each column which table's keys it has, and puts tables before those that refer to them.
    static func linked(_ tables: [CapturedTable]) throws -> [CapturedTable] {
        let known = Dictionary(uniqueKeysWithValues: tables.map { ($0.name.folded, $0.shape) })
        var linked: [CapturedTable] = []
        for table in tables {
            var shape = table.shape
            for position in shape.columns.indices {
                let column = shape.columns[position].name
                let declared = shape.foreignKeys.first { $0.columns == [column] }
                guard let name = table.rule.references[column] ?? declared?.target else { continue }
                let targetColumns = declared?.targetColumns.map(\.folded) ?? []
                guard let target = known[name.folded] else {
                    let reason = "it has keys of the table \(name), which is not captured"
                    throw CaptureError(.notCapturable, reason, table: table.name, column: column)
                }
                let isKey = targetColumns.isEmpty || targetColumns == target.keyColumns.map(\.folded)
                guard isKey || table.rule.references[column] != nil, target.keyColumns.count == 1 else { continue }
                shape.columns[position].target = target.name
            }
            linked.append(CapturedTable(number: table.number, shape: shape, rule: table.rule))
        }
        for table in linked { try checkForeignKeys(of: table.shape, linked.map(\.shape)) }
        var ordered: [CapturedTable] = []
        var rest = linked
        while !rest.isEmpty {
            let waiting = Set(rest.map(\.name))
            let index = rest.firstIndex { table in
                !table.properties.contains { $0.target.map { $0 != table.name && waiting.contains($0) } ?? false }
            }
            // A cycle begins anywhere.
            ordered.append(rest.remove(at: index ?? 0))
        }
        return ordered
    }

    /// Refuses foreign keys to columns whose values mean nothing in another database, unless they are links themselves.
    private static func checkForeignKeys(of shape: TableShape, _ all: [TableShape]) throws {
        for key in shape.foreignKeys {
            guard let target = all.first(where: { $0.name.folded == key.target.folded }) else { continue }
            let names = key.targetColumns.isEmpty ? target.keyColumns : key.targetColumns
            for (column, name) in zip(key.columns, names) {
                let isLocal = target.columns.contains { other in
                    guard other.name.folded == name.folded else { return false }
                    return other.target != nil || target.isKeyLocal && other.name == target.keyColumns.first
                }
                if isLocal, shape.columns.first(where: { $0.name == column })?.target == nil {
                    let reason = "its values are numbers of rows, which differ between databases: name their table"
                    throw CaptureError(.notCapturable, reason + " in 'references'", table: shape.name, column: column)
                }
            }
        }
    }

    func table(_ number: Int64?) -> CapturedTable? { tables.first { $0.number == number } }

    func table(named name: String) -> CapturedTable? { tables.first { $0.name.hasBytes(of: name) } }

    func checkInstalled() throws {
        guard try isInstalled else { throw CaptureError(.notInstalled, "\(path): capture is not installed") }
    }
}

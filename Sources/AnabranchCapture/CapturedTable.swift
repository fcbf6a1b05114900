/// A table that is captured: its shape, its rule, and the SQL that reads, writes and watches it.
struct CapturedTable {
    let number: Int64
    let shape: TableShape
    let rule: TableRule

    var name: String { shape.name }
    var properties: [TableShape.Column] { shape.properties }

    // MARK: Keys

    /// The key of a row as `sync_row` has it: the number, or the values of the key's columns as SQL spells them.
    func key(of row: String = "") -> String {
        if shape.isKeyLocal { return row + shape.keyColumns[0].quoted }
        return shape.keyColumns.map { "quote(\(row)\($0.quoted))" }.joined(separator: " || ',' || ")
    }

    /// The condition for the row of a key, whose values `keyValues` gives.
    var isRow: String { shape.keyColumns.map { "\($0.quoted) IS ?" }.joined(separator: " AND ") }

    /// The values of the key's columns; nil for a key that cannot be read.
    func keyValues(_ key: SQLValue) -> [SQLValue]? {
        if shape.isKeyLocal { return [key] }
        guard case .text(let bytes) = key, let values = QuotedValues.read(bytes), values.count == shape.keyColumns.count
        else { return nil }
        return values
    }

    /// The key that a row of this table has if the one column of its key has this value; nil for keys of several
    /// columns.
    func key(forValue value: SQLValue) -> SQLValue? {
        if value == .null { return nil }
        if shape.isKeyLocal { return value.int.map { .int($0) } }
        // SQLite spells these numbers in a way of its own.
        if case .real = value { return nil }
        return shape.keyColumns.count == 1 ? .text(QuotedValues.text(value)) : nil
    }

    // MARK: Rows

    /// The columns that are synced, then whether the filter holds, as a query lists them.
    var selectedColumns: String {
        (properties.map(\.name.quoted) + [rule.filter.map { "(\($0))" } ?? "1"]).joined(separator: ", ")
    }

    /// Reads the row of a key: the columns, and whether the filter holds.
    var selectRow: String { "SELECT \(selectedColumns) FROM main.\(name.quoted) WHERE \(isRow)" }

    // MARK: Triggers

    static let triggerEndings = ["bi", "ai", "bu", "au", "ad"]

    func triggerName(_ ending: String) -> String { "sync_\(name)_\(ending)" }

    /// The statements that make the triggers, each with the trigger's name.
    var triggers: [(name: String, sql: String)] {
        let table = name.quoted
        func trigger(_ ending: String, _ when: String, _ body: String) -> (name: String, sql: String) {
            let name = triggerName(ending)
            return (name, "CREATE TRIGGER \(name.quoted) \(when) ON \(table) \(body); END")
        }
        func note(_ values: String) -> String { "INSERT INTO sync_history (tbl, key, action) \(values)" }
        var made = [
            trigger("ai", "AFTER INSERT", "BEGIN " + note("VALUES (\(number), \(key(of: "NEW.")), 1)")),
            trigger("ad", "AFTER DELETE", "BEGIN " + note("VALUES (\(number), \(key(of: "OLD.")), 3)")),
        ]
        let taken = takenRows.joined(separator: " OR ")
        made.append(
            trigger(
                "bi", "BEFORE INSERT",
                "BEGIN " + note("SELECT \(number), \(key()), 4 FROM \(table) WHERE \(taken)")))
        let other = shape.keyColumns.map { "\($0.quoted) IS NOT OLD.\($0.quoted)" }.joined(separator: " OR ")
        var watched: [String] = []
        for column in shape.keyColumns + shape.uniques.flatMap({ $0.columns.map(\.name) })
        where !watched.contains(column) { watched.append(column) }
        made.append(
            trigger(
                "bu", "BEFORE UPDATE OF \(watched.map(\.quoted).joined(separator: ", "))",
                "BEGIN " + note("SELECT \(number), \(key()), 4 FROM \(table) WHERE (\(other)) AND (\(taken))")))
        let changes = properties.map { column in
            let name = column.name.quoted
            return "(OLD.\(name) IS NOT NEW.\(name) COLLATE BINARY OR typeof(OLD.\(name)) <> typeof(NEW.\(name)))"
        }
        let keyChanges =
            shape.isKeyLocal ? ["OLD.\(shape.keyColumns[0].quoted) IS NOT NEW.\(shape.keyColumns[0].quoted)"] : []
        let columns = changes.isEmpty ? "''" : changes.joined(separator: " || ")
        made.append(
            trigger(
                "au", "AFTER UPDATE",
                "WHEN \((changes + keyChanges).joined(separator: " OR ")) BEGIN "
                    + "INSERT INTO sync_history (tbl, key, action, cols, was) "
                    + "VALUES (\(number), \(key(of: "NEW.")), 2, \(columns), \(key(of: "OLD.")))"))
        return made
    }

    /// The conditions under which a row gives way to a new one, which `OR REPLACE` removes without a trigger.
    private var takenRows: [String] {
        let key = shape.isKeyLocal ? ["(\(shape.keyColumns[0].quoted) = NEW.\(shape.keyColumns[0].quoted))"] : []
        return key
            + shape.uniques.map { unique in
                let equal = unique.columns.map { column in
                    "\(column.name.quoted) COLLATE \(column.collation.quoted) = NEW.\(column.name.quoted)"
                }
                return "(\(equal.joined(separator: " AND ")))"
            }
    }
}

/// A table that is captured: its shape, its rule, and the SQL that reads, writes and watches it.
struct CapturedTable {
    let number: Int64
    let shape: TableShape
    let rule: TableRule

    /// The columns that are synced.
    let properties: [TableShape.Column]
    /// The key of a row of the table in SQL.
    let keyText: String
    /// The condition for the row of a key, whose values `rowValues` gives. An index finds what a collation takes for
    /// the key, or another number of the same value, and the row is the one that is equal.
    let isRow: String
    /// The columns that are synced, then whether the filter holds, as a query lists them.
    let selectedColumns: String
    /// The filter in SQL.
    let filterText: String
    /// Reads the row of a key: the columns, and whether the filter holds.
    let selectRow: String
    /// Reads the key before the columns.
    let selectKeyedRow: String
    /// Inserts a row with all columns that are synced.
    let insertRow: String
    /// The beginning of an update. What violates a constraint is an error, whatever the constraint says.
    let update: String
    /// The highest bits of the digests of each column.
    let digestMarks: [UInt64]
    /// The columns of the key of which an index takes different values for equal, by their places in it.
    private let exactKeys: [Int]

    var name: String { shape.name }

    init(number: Int64, shape: TableShape, rule: TableRule) {
        (self.number, self.shape, self.rule) = (number, shape, rule)
        properties = shape.properties
        keyText = Self.key(of: "", shape)
        digestMarks = properties.map { RowDigest.mark(of: $0.name) }
        let exact = shape.keyColumns.enumerated().flatMap { place, name -> [(place: Int, condition: String)] in
            let isTypeless = shape.columns.contains { $0.name == name && $0.keeps(.int(0)) && $0.keeps(.real(0)) }
            return (shape.collatedKeys.contains(name) ? [(place, "\(name.quoted) IS ? COLLATE BINARY")] : [])
                + (isTypeless ? [(place, "typeof(\(name.quoted)) = typeof(?)")] : [])
        }
        exactKeys = exact.map(\.place)
        isRow = (shape.keyColumns.map { "\($0.quoted) IS ?" } + exact.map(\.condition)).joined(separator: " AND ")
        let columns = properties.map(\.name.quoted)
        let table = "main.\(shape.name.quoted)"
        filterText = rule.filter.map { "(\($0))" } ?? "1"
        selectedColumns = (columns + [filterText]).joined(separator: ", ")
        selectRow = "SELECT \(selectedColumns) FROM \(table) WHERE \(isRow)"
        selectKeyedRow = "SELECT \(keyText), \(selectedColumns) FROM \(table) WHERE \(isRow)"
        insertRow = Self.insert(columns, into: shape)
        update = "UPDATE\(Self.orAbort(shape)) \(table) SET "
    }

    /// Inserts a row with some columns.
    func insert(_ columns: [String]) -> String { Self.insert(columns, into: shape) }

    private static func insert(_ columns: [String], into shape: TableShape) -> String {
        let insert = "INSERT\(orAbort(shape)) INTO main.\(shape.name.quoted)"
        if columns.isEmpty { return "\(insert) DEFAULT VALUES" }
        let places = columns.map { _ in "?" }.joined(separator: ", ")
        return "\(insert) (\(columns.joined(separator: ", "))) VALUES (\(places))"
    }

    /// Only where it is needed: it takes the place of such clauses in triggers, too.
    private static func orAbort(_ shape: TableShape) -> String { shape.settlesConflicts ? " OR ABORT" : "" }

    // MARK: Keys

    /// The key of a row as `sync_row` has it: the number, or the values of the key's columns as SQL spells them.
    private static func key(of row: String, _ shape: TableShape) -> String {
        if shape.isKeyLocal { return row + shape.keyColumns[0].quoted }
        return shape.keyColumns.map { "quote(\(row)\($0.quoted))" }.joined(separator: " || ',' || ")
    }

    private func key(of row: String) -> String { Self.key(of: row, shape) }

    /// The values for `isRow`.
    func rowValues(_ values: [SQLValue]) -> [SQLValue] {
        exactKeys.isEmpty ? values : values + exactKeys.map { values[$0] }
    }

    /// The condition for rows that have an identity: no null in the key, and no text with a NUL, where `quote` ends.
    var hasKey: String {
        shape.keyColumns.map { name in
            let isThere = "\(name.quoted) IS NOT NULL"
            if shape.isKeyLocal { return isThere }
            return "\(isThere) AND (typeof(\(name.quoted)) <> 'text' OR instr(\(name.quoted), char(0)) = 0)"
        }.joined(separator: " AND ")
    }

    /// The columns of the key as SQL lists them.
    var keyList: String { shape.keyColumns.map(\.quoted).joined(separator: ", ") }

    /// The condition for rows that have an identity and come after one in the order of their keys, and its values.
    /// - Parameter key: nil for all rows.
    func rows(after key: SQLValue?) -> (condition: String, values: [SQLValue]) {
        guard let key else { return (hasKey, []) }
        guard let values = keyValues(key) else { return ("0", []) }
        let places = values.map { _ in "?" }.joined(separator: ", ")
        return ("\(hasKey) AND (\(keyList)) > (\(places))", values)
    }

    /// The values of the key's columns; nil for a key that cannot be read, or that has a null in it, which many rows
    /// can have.
    func keyValues(_ key: SQLValue) -> [SQLValue]? {
        if shape.isKeyLocal { return [key] }
        guard case .text(let bytes) = key, let values = QuotedValues.read(bytes),
            values.count == shape.keyColumns.count, !values.contains(.null)
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

    // MARK: Triggers

    static let triggerEndings = ["bi", "ai", "bu", "au", "ad"]

    func triggerName(_ ending: String) -> String { "sync_\(name)_\(ending)" }

    /// The statements that make the triggers, each with the trigger's name.
    var triggers: [(name: String, sql: String)] {
        let table = name.quoted
        func trigger(_ ending: String, _ when: String, _ note: String) -> (name: String, sql: String) {
            let name = triggerName(ending), end = "BEGIN INSERT INTO sync_history (tbl, key, action\(note); END"
            return (name, "CREATE TRIGGER \(name.quoted) \(when) \(end)")
        }
        func mayGo(_ conditions: [String]) -> String {
            ") SELECT \(number), \(keyText), 4 FROM \(table) WHERE \(conditions.joined(separator: " OR "))"
        }
        let others = shape.keyColumns.map { "\($0.quoted) IS NOT OLD.\($0.quoted)" }.joined(separator: " OR ")
        let otherRows = takenRows.map { "(\(others)) AND \($0)" }
        var watched: [String] = []
        for column in shape.keyColumns + shape.uniques.flatMap({ $0.columns.map(\.name) })
        where !watched.contains(column) { watched.append(column) }
        let all = shape.columns.map(\.name.quoted).joined(separator: ", ")
        // A generated column changes with others, and then no trigger sees it.
        let isGenerated = watched.contains(where: shape.generated.contains)
        let update = "BEFORE UPDATE OF \(isGenerated ? all : watched.map(\.quoted).joined(separator: ", "))"
        return [
            trigger("bi", "BEFORE INSERT ON \(table) WHEN \(isTaken(takenRows, isNew: true))", mayGo(takenRows)),
            trigger("ai", "AFTER INSERT ON \(table)", ") VALUES (\(number), \(key(of: "NEW.")), 1)"),
            trigger("bu", "\(update) ON \(table) WHEN \(isTaken(otherRows, isNew: false))", mayGo(otherRows)),
            trigger(
                "au", "AFTER UPDATE\(rule.guid == nil ? "" : " OF \(all)") ON \(table)",
                ", was) VALUES (\(number), \(key(of: "NEW.")), 2, \(key(of: "OLD.")))"
            ),
            trigger("ad", "AFTER DELETE ON \(table)", ") VALUES (\(number), \(key(of: "OLD.")), 3)"),
        ]
    }

    /// True if one of some conditions holds for a row: each is looked up by its index alone.
    private func isTaken(_ conditions: [String], isNew: Bool) -> String {
        conditions.enumerated().map { place, condition in
            let exists = "EXISTS (SELECT 1 FROM \(name.quoted) WHERE \(condition))"
            guard place == 0, shape.isKeyLocal else { return exists }
            // Most updates leave the key as it is, and SQLite shows -1 for one that it is going to give.
            let key = "NEW.\(shape.keyColumns[0].quoted)"
            return "\(key) IS NOT \(isNew ? "-1" : "OLD.\(shape.keyColumns[0].quoted)") AND \(exists)"
        }.joined(separator: " OR ")
    }

    /// The number of rows that one new row can take the place of.
    var takenCount: Int { takenRows.count }

    /// The conditions under which a row gives way to a new one, which `OR REPLACE` removes without a trigger.
    private var takenRows: [String] {
        let key = shape.isKeyLocal ? ["\(shape.keyColumns[0].quoted) = NEW.\(shape.keyColumns[0].quoted)"] : []
        return key
            + shape.uniques.map { unique in
                unique.columns.map { column in
                    "\(column.name.quoted) COLLATE \(column.collation.quoted) = NEW.\(column.name.quoted)"
                }.joined(separator: " AND ")
            }
    }
}

import AnabranchCore

/// Finds the rows without an object that are the same records as objects without a row, by the columns that the rules
/// of their tables name (`Spec/Capture.md`, section 3). What is found is in temporary tables: there can be as many as
/// there are rows.
struct Matching {
    /// A table with its class.
    struct Plan {
        let table: CapturedTable
        let classID: ClassID
        let columns: [(form: ColumnForm, property: Property?)]
        /// The columns that tell which record a row is; none if the class lacks one of them.
        fileprivate let identity: [IdentityColumn]
    }

    /// A column that tells which record a row is.
    fileprivate struct IdentityColumn {
        let property: Property
        let form: ColumnForm
        /// The table that it has keys of.
        let target: CapturedTable?
        /// The collation of the unique index that has it.
        let collation: String
    }

    /// A row, and the object that it is.
    struct Pair {
        let row: RowKey
        let guid: UUIDBytes
        let values: [SQLValue]
        /// The places of the columns that differ.
        var different: [Int] = []
        /// The places of those whose value is the row's.
        var fromRow: Set<Int> = []
        /// The values that are given up, by column.
        var lost: [(column: String, value: String)] = []
    }

    private static let sideTables = """
        DROP TABLE IF EXISTS temp.sync_match;
        DROP TABLE IF EXISTS temp.sync_pair;
        CREATE TEMP TABLE sync_match (tbl INTEGER NOT NULL, identity BLOB, key, guid BLOB);
        CREATE INDEX temp.sync_match_identity ON sync_match (tbl, identity);
        CREATE TEMP TABLE sync_pair (tbl INTEGER NOT NULL, key NOT NULL, guid BLOB NOT NULL, PRIMARY KEY (tbl, key))
          WITHOUT ROWID
        """

    private let database: CapturedDatabase
    private let state: ObjectGraph
    private let rowsWin: Bool
    /// The tables, those that others refer to first.
    let plans: [Plan]

    private var db: SQLConnection { database.db }

    /// - Parameters:
    ///   - tables: the tables, those that others refer to first.
    ///   - rowsWin: true if the row's value counts where both have one.
    init(_ database: CapturedDatabase, _ tables: [CapturedTable], _ state: ObjectGraph, rowsWin: Bool) {
        (self.database, self.state, self.rowsWin) = (database, state, rowsWin)
        plans = tables.compactMap { table in
            guard let schema = state.schema(ofClass: Array(table.name.utf8)) else { return nil }
            let columns = table.columns(in: schema)
            let identity = table.rule.matches.compactMap { name -> IdentityColumn? in
                guard let (form, found) = columns.first(where: { $0.form.column.name == name }), let property = found
                else { return nil }
                let indexed = table.shape.uniques.flatMap(\.columns).first { $0.name == name }
                return IdentityColumn(
                    property: property, form: form,
                    target: form.column.target.flatMap(database.table(named:)),
                    collation: indexed?.collation ?? "BINARY")
            }
            let isWhole = identity.count == table.rule.matches.count
            return Plan(
                table: table, classID: schema.number, columns: columns, identity: isWhole ? identity : [])
        }
    }

    // MARK: Finding

    /// Finds the pairs. Each transaction reads some rows, so the application goes on writing; which rows it has written
    /// the history says.
    /// - Parameter check: is called in each transaction.
    func find(_ check: () throws -> Void = {}) throws {
        try db.execute(Self.sideTables)
        for plan in plans { try addObjects(of: plan) }
        var rest = plans
        while !rest.isEmpty {
            var found = 0
            for plan in rest {
                try addRows(of: plan, check)
                found += try pair(plan)
            }
            // Where tables refer to themselves or in circles, more is known of references now.
            rest = found > 0 && isCircular ? plans.filter { $0.identity.contains { $0.target != nil } } : []
        }
    }

    /// True if a row has to be matched before another one of its own table, or of one that comes before.
    private var isCircular: Bool {
        var known: Set<Int64> = []
        return plans.contains { plan in
            let isLater = plan.identity.contains { column in
                guard let target = column.target else { return false }
                return plans.contains { $0.table.number == target.number } && !known.contains(target.number)
            }
            known.insert(plan.table.number)
            return isLater
        }
    }

    /// Removes what was found.
    func end() throws { try db.execute("DROP TABLE temp.sync_match; DROP TABLE temp.sync_pair") }

    private func addObjects(of plan: Plan) throws {
        var last: PrimaryKey?
        while true {
            var found: [(guid: UUIDBytes, identity: SQLValue)] = [], count = 0
            var failure: (any Error)?
            try state.forEachObject(of: plan.classID, after: last) { object throws(ApplyError) in
                last = object.key
                count += 1
                if case .uuid(let guid)? = object.key {
                    do {
                        let values = try plan.identity.map { try $0.value(of: object, in: state) }
                        found.append((guid, Self.identity(values)))
                    } catch { failure = error }
                }
                return count < Self.batchObjects && failure == nil
            }
            if let failure { throw failure }
            try db.transaction("DEFERRED") {
                for (guid, identity) in found where try database.row(of: guid) == nil {
                    try db.run(
                        "INSERT INTO temp.sync_match (tbl, identity, guid) VALUES (?, ?, ?)",
                        [.int(plan.table.number), identity, .blob(guid.bytes)])
                }
            }
            if count < Self.batchObjects { return }
        }
    }

    private static let batchObjects = 1_000

    private func addRows(of plan: Plan, _ check: () throws -> Void) throws {
        let table = plan.table, number = SQLValue.int(table.number)
        try db.run("DELETE FROM temp.sync_match WHERE tbl = ? AND key IS NOT NULL", [number])
        let columns = [table.keyText] + plan.identity.map(\.form.column.name.quoted) + [table.filterText]
        var last: SQLValue?
        repeat {
            let rest = table.rows(after: last)
            last = try db.transaction("DEFERRED") {
                try check()
                return try database.forEach(
                    """
                    SELECT \(columns.joined(separator: ", ")) FROM main.\(table.name.quoted)
                    WHERE \(rest.condition) ORDER BY \(table.keyList)
                    """, rest.values
                ) { row in
                    // A row for which the filter does not hold is nobody else's.
                    guard row.last?.isTrue ?? false,
                        try database.guid(of: RowKey(table: table.number, key: row[0])) == nil
                    else { return }
                    let values = try zip(plan.identity, row.dropFirst()).map { column, value in
                        try self.value(value, of: column)
                    }
                    try db.run(
                        "INSERT INTO temp.sync_match (tbl, identity, key) VALUES (?, ?, ?)",
                        [number, Self.identity(values), row[0]])
                }
            }
        } while last != nil
    }

    /// Makes pairs of those that are alone with their identity on both sides.
    /// - Returns: the number of new pairs.
    private func pair(_ plan: Plan) throws -> Int {
        try db.run(
            """
            INSERT OR IGNORE INTO temp.sync_pair SELECT tbl, max(key), max(guid) FROM temp.sync_match
            WHERE tbl = ? AND identity IS NOT NULL GROUP BY identity HAVING count(key) = 1 AND count(guid) = 1
            """, [.int(plan.table.number)])
        return db.changes
    }

    // MARK: Identities

    /// The values of an identity as SQL spells them; null if one is not known, or if there is none.
    private static func identity(_ values: [SQLValue?]) -> SQLValue {
        let known = values.compactMap(\.self)
        guard known.count == values.count, known.contains(where: { $0 != .null }) else { return .null }
        return .blob(Array(known.map(QuotedValues.text).joined(separator: [UInt8(ascii: ",")])))
    }

    /// The value of a column of a row, as that of an object would be; nil if the row that it refers to has no object.
    private func value(_ value: SQLValue, of column: IdentityColumn) throws -> SQLValue? {
        guard let target = column.target, value != .null else { return column.common(value) }
        return try database.row(referredToBy: value, in: target).flatMap(guid).map { .blob($0.bytes) }
    }

    /// The object of a row, or the one with which it is paired.
    private func guid(of row: RowKey) throws -> UUIDBytes? {
        if let known = try database.guid(of: row) { return known }
        return try db.value(
            "SELECT guid FROM temp.sync_pair WHERE tbl = ? AND key = ?", [.int(row.table), row.key])?.guid
    }

    // MARK: What is found

    private static let batchPairs = 1_000

    /// Calls `body` with the pairs of a table in the order of their keys, some at a time.
    func forEachBatch(of table: CapturedTable, _ body: ([(row: RowKey, guid: UUIDBytes)]) throws -> Void) throws {
        var last: SQLValue?
        while true {
            let found = try db.rows(
                """
                SELECT key, guid FROM temp.sync_pair WHERE tbl = ?\(last == nil ? "" : " AND key > ?")
                ORDER BY key LIMIT \(Self.batchPairs)
                """, [.int(table.number)] + [last].compactMap(\.self))
            guard let next = found.last?[0] else { return }
            last = next
            try body(
                found.compactMap { row in
                    row[1].guid.map { (RowKey(table: table.number, key: row[0]), $0) }
                })
        }
    }

    /// Compares a row with the object that it is; nil if one of them is not there any more.
    func compare(_ row: RowKey, _ guid: UUIDBytes, _ plan: Plan) throws -> Pair? {
        guard let found = try database.readRow(row.key, of: plan.table), found.fits,
            let object = try state.object(ObjectReference(classID: plan.classID, key: .uuid(guid)))
        else { return nil }
        var pair = Pair(row: row, guid: guid, values: found.values)
        for (place, (form, property)) in plan.columns.enumerated() {
            guard let property else { continue }
            let value = found.values[place], content = object.value(of: property)
            let isMissing = try content.isNone(in: state)
            if value == .null, isMissing { continue }
            if value != .null, !isMissing {
                if try database.isSame(value, content, form, in: state, { try self.guid(of: $0) }) { continue }
                pair.lost.append((form.column.name, try rowsWin ? text(content, form) : text(value, form)))
            }
            pair.different.append(place)
            if isMissing || rowsWin, value != .null { pair.fromRow.insert(place) }
        }
        return pair
    }

    private func text(_ value: SQLValue, _ form: ColumnForm) throws -> String {
        if let target = form.column.target.flatMap(database.table(named:)),
            let guid = try database.row(referredToBy: value, in: target).flatMap(guid)
        {
            return Hex.encode(guid.bytes)
        }
        return form.payload(value)?.text ?? String(decoding: QuotedValues.text(value), as: UTF8.self)
    }

    private func text(_ content: StateValue, _ form: ColumnForm) throws -> String {
        if let guid = try content.linked(in: state) { return Hex.encode(guid.bytes) }
        return try form.value(content).map { try text($0, form) } ?? ""
    }

    /// Counts what is alone or ambiguous.
    func count(_ plan: Plan) throws -> CaptureMatches {
        let number = SQLValue.int(plan.table.number)
        var matches = CaptureMatches(table: plan.table.name, columns: plan.table.rule.matches)
        func count(_ sql: String) throws -> Int { Int(clamping: try db.value("SELECT \(sql)", [number])?.int ?? 0) }
        let paired = try count("count(*) FROM temp.sync_pair WHERE tbl = ?")
        matches.rows = try count("count(key) FROM temp.sync_match WHERE tbl = ?") - paired
        matches.objects = try count("count(guid) FROM temp.sync_match WHERE tbl = ?") - paired
        try db.run(
            """
            SELECT identity, count(key), count(guid) FROM temp.sync_match WHERE tbl = ? AND identity IS NOT NULL
            GROUP BY identity HAVING min(count(key), count(guid)) > 0 AND count(*) > 2
            """, [number]
        ) { row in
            matches.ambiguousCount += 1
            guard matches.ambiguous.count < CaptureMatches.shownCount else { return }
            matches.ambiguous.append(
                CaptureMatches.Ambiguity(
                    values: String(decoding: row[0].bytes ?? [], as: UTF8.self), rows: Int(clamping: row[1].int ?? 0),
                    objects: Int(clamping: row[2].int ?? 0)))
        }
        return matches
    }
}

extension StateValue {
    /// True if there is no value, or a link to an object that is gone.
    fileprivate func isNone(in state: ObjectGraph) throws -> Bool {
        switch self {
        case .null: true
        case .link: try linked(in: state) == nil
        default: false
        }
    }
}

extension Matching.IdentityColumn {
    /// The value that stands for all that are equal to one for the column.
    fileprivate func common(_ value: SQLValue) -> SQLValue {
        if let time = (form.date ?? (form.type == .timestamp ? .text : nil))?.milliseconds(value) { return .int(time) }
        switch value {
        case .real(let number): return Int64(exactly: number).map { .int($0) } ?? value
        case .text(let bytes) where collation == "NOCASE":
            return .text(bytes.map { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= $0 ? $0 + 32 : $0 })
        case .text(let bytes) where collation == "RTRIM":
            return .text(Array(bytes[..<((bytes.lastIndex { $0 != UInt8(ascii: " ") } ?? -1) + 1)]))
        default: return value
        }
    }

    /// The value of an object; nil for one that no row can have.
    fileprivate func value(of object: StateObject, in state: ObjectGraph) throws -> SQLValue? {
        let content = object.value(of: property)
        if target != nil { return try content.linked(in: state).map { .blob($0.bytes) } ?? .null }
        return form.value(content).map(common)
    }
}

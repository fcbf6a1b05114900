import AnabranchCore

/// Makes rows equal to objects, in one transaction of the database (`Spec/Capture.md`, section 6).
struct Application {
    /// The changes to rows, and the objects that have not become any.
    struct Outcome {
        var inserted = 0
        var updated = 0
        var deleted = 0
        /// Objects whose rows have changes that are not collected.
        var left: [DirtyObject] = []
        /// Values that the rules or the columns give in place of those that objects have, for all devices.
        var writtenBack: [ObjectChange] = []
        /// Objects that wait, with the reasons.
        var waiting: [DirtyObject: String] = [:]
        /// Triggers of the application that write for ever.
        var isUnstable = false

        var count: Int { inserted + updated + deleted }
    }

    /// The reason why an object has no row, or its old one.
    private struct Refusal: Error { let reason: String }
    private struct IsBusy: Error {}

    /// The most entries after the cursor with which objects are applied at all.
    private static let uncollectedMax = 10_000

    let database: CapturedDatabase
    private let state: ObjectGraph
    private let forms: [Int64: [ColumnForm]]
    private var classes: [Int64: (number: ClassID, properties: [Property?])] = [:]
    /// The rows with entries that are not collected.
    var busy: Set<RowKey> = []
    var outcome = Outcome()
    /// The objects of the batch that are done.
    private var done: Set<DirtyObject> = []

    var db: SQLConnection { database.db }

    init(_ database: CapturedDatabase, _ state: ObjectGraph, _ forms: [Int64: [ColumnForm]]) {
        self.database = database
        self.state = state
        self.forms = forms
        for table in database.tables {
            guard let schema = state.schema(ofClass: Array(table.name.utf8)) else { continue }
            classes[table.number] = (
                schema.number, table.properties.map { schema.property(named: Array($0.name.utf8)) }
            )
        }
    }

    /// Carries out a batch.
    mutating func run(_ objects: [DirtyObject]) throws -> Outcome {
        do { return try attempt(objects) } catch let error as SQLError where error.isConstraint {
            // The end of the transaction has found what no single object violates.
            outcome = Outcome()
            guard objects.count > 1 else {
                try db.transaction { try park(objects.map { ($0, error.description) }) }
                return outcome
            }
            var total = Outcome()
            for half in [objects[..<(objects.count / 2)], objects[(objects.count / 2)...]] {
                var part = Application(database, state, forms)
                total.add(try part.run(Array(half)))
            }
            return total
        }
    }

    private mutating func attempt(_ objects: [DirtyObject]) throws -> Outcome {
        outcome = Outcome()
        done = []
        return try db.transaction {
            try database.checkSchema()
            let top = try db.value("SELECT max(id) FROM sync_history")?.int ?? 0
            guard try readBusy() else {
                outcome.left = objects
                return outcome
            }
            try db.execute("PRAGMA defer_foreign_keys = ON")
            let place = Dictionary(uniqueKeysWithValues: database.tables.enumerated().map { ($1.number, $0) })
            let present = try objects.map { ($0, try object($0)) }
            var upserts = present.filter { $0.1 != nil }.sorted { place[$0.0.table] ?? 0 < place[$1.0.table] ?? 0 }
            var deletes = present.filter { $0.1 == nil }.sorted { place[$0.0.table] ?? 0 > place[$1.0.table] ?? 0 }
            var failed: [(DirtyObject, String)] = []
            // What is in the way of one object may be gone once another is done.
            for isLast in [false, true] {
                failed = []
                var rest: (upserts: [(DirtyObject, StateObject?)], deletes: [(DirtyObject, StateObject?)]) = ([], [])
                for item in upserts {
                    guard let reason = try attempt(item.0, item.1, resolves: isLast) else { continue }
                    rest.upserts.append(item)
                    failed.append((item.0, reason))
                }
                for item in deletes {
                    guard let reason = try attempt(item.0, nil, resolves: isLast) else { continue }
                    rest.deletes.append(item)
                    failed.append((item.0, reason))
                }
                (upserts, deletes) = rest
                if failed.isEmpty { break }
            }
            if database.hasSideEffects { try undoSideEffects(after: top) }
            try db.run("DELETE FROM sync_history WHERE id > ?", [.int(top)])
            try park(failed)
            try clearPending(done)
            return outcome
        }
    }

    /// - Returns: false if there is too much to be collected first.
    private mutating func readBusy() throws -> Bool {
        let cursor = try database.state("collected")?.int ?? 0
        try db.run(
            "SELECT tbl, key, was FROM sync_history WHERE id > ? AND action > 0 LIMIT ?",
            [.int(cursor), .int(Int64(Self.uncollectedMax) + 1)]
        ) { row in
            guard let table = row[0].int else { return }
            busy.insert(RowKey(table: table, key: row[1]))
            if row[2] != .null { busy.insert(RowKey(table: table, key: row[2])) }
        }
        return busy.count <= Self.uncollectedMax
    }

    func object(_ dirty: DirtyObject) throws -> StateObject? {
        guard let number = classes[dirty.table]?.number else { return nil }
        return try state.object(ObjectReference(classID: number, key: .uuid(dirty.guid)))
    }

    // MARK: One object

    /// - Parameter resolves: true if the rules of the table are asked what becomes of a violation.
    /// - Returns: the reason why it waits; nil if it does not.
    mutating func attempt(_ dirty: DirtyObject, _ object: StateObject?, resolves: Bool) throws -> String? {
        guard let table = database.table(dirty.table) else { return nil }
        outcome.waiting[dirty] = nil
        let before = (outcome, done)
        do {
            try db.savepoint {
                if let object { try write(dirty, object, table) } else { try delete(dirty, table) }
                if db.hasDeferredViolations { throw Refusal(reason: "FOREIGN KEY constraint failed") }
            }
            done.insert(dirty)
            return nil
        } catch is IsBusy {
            (outcome, done) = before
            outcome.left.append(dirty)
            return nil
        } catch let error as Refusal {
            (outcome, done) = before
            return error.reason
        } catch let error as SQLError where !error.isBusy && !error.isFatal {
            (outcome, done) = before
            if resolves, let object, try resolve(error, dirty, object, table) { return nil }
            return error.description
        }
    }

    private mutating func delete(_ dirty: DirtyObject, _ table: CapturedTable) throws {
        guard let row = try database.row(of: dirty.guid), table.rule.pulls.contains(.delete) else { return }
        if busy.contains(row) { throw IsBusy() }
        try detach(row, table)
        try db.run(
            "DELETE FROM main.\(table.name.quoted) WHERE \(table.isRow)",
            table.keyValues(row.key).map(table.rowValues) ?? [])
        try database.unmap(dirty.guid)
        outcome.deleted += 1
    }

    private mutating func write(_ dirty: DirtyObject, _ object: StateObject, _ table: CapturedTable) throws {
        if let row = try database.row(of: dirty.guid) {
            if busy.contains(row) { throw IsBusy() }
            if let found = try database.readRow(row.key, of: table) {
                return try update(row, found.values, dirty, object, table)
            }
            try database.unmap(dirty.guid)
        }
        try insert(dirty, object, table)
    }

    private mutating func update(
        _ row: RowKey, _ values: [SQLValue], _ dirty: DirtyObject, _ object: StateObject, _ table: CapturedTable
    ) throws {
        guard table.rule.pulls.contains(.update) else { return }
        var names: [String] = []
        var new: [SQLValue] = []
        var now = values
        for (index, column) in table.properties.enumerated() {
            guard let property = classes[table.number]?.properties[index] else { continue }
            let content = object.value(of: property)
            guard let value = try value(content, index, table, dirty, unless: values[index]) else { continue }
            names.append("\(column.name.quoted) = ?")
            new.append(value)
            now[index] = value
        }
        guard !names.isEmpty, let keyValues = table.keyValues(row.key) else { return }
        try db.run(
            "UPDATE main.\(table.name.quoted) SET \(names.joined(separator: ", ")) WHERE \(table.isRow)",
            new + table.rowValues(keyValues))
        guard db.changes > 0 else { throw Refusal(reason: "a trigger of the application does not let it be changed") }
        var newKey = keyValues
        if !table.shape.isKeyLocal {
            newKey = table.shape.keyColumns.compactMap { name in
                table.properties.firstIndex { $0.name == name }.map { now[$0] }
            }
        }
        try remember(dirty, newKey, table)
        outcome.updated += 1
    }

    private mutating func insert(_ dirty: DirtyObject, _ object: StateObject, _ table: CapturedTable) throws {
        guard table.rule.pulls.contains(.insert) else { return }
        var columns: [String] = []
        var values: [SQLValue] = []
        var omitted: [Int] = []
        for (index, column) in table.properties.enumerated() {
            guard let property = classes[table.number]?.properties[index] else { continue }
            let content = object.value(of: property)
            let value = try value(content, index, table, dirty, unless: nil) ?? .null
            if value == .null, column.isNotNull, column.hasDefault {
                omitted.append(index)
                continue
            }
            columns.append(column.name.quoted)
            values.append(value)
        }
        let isWhole = columns.count == table.properties.count
        try db.run(isWhole ? table.insertRow : table.insert(columns), values)
        guard db.changes > 0 else { throw Refusal(reason: "a trigger of the application does not let it in") }
        var key = [SQLValue.int(db.lastRowID)]
        if !table.shape.isKeyLocal {
            key = table.shape.keyColumns.map { name in columns.firstIndex(of: name.quoted).map { values[$0] } ?? .null }
        }
        let row = try remember(dirty, key, table)
        outcome.inserted += 1
        guard !omitted.isEmpty, let forms = forms[table.number] else { return }
        // The value that the column has by default is one for all devices.
        let fields = omitted.compactMap { index in
            forms[index].payload(row[index]).map { (property: forms[index].column.name, value: $0) }
        }
        outcome.writtenBack.append(ObjectChange(className: table.name, guid: dirty.guid, kind: .update, fields: fields))
    }

    /// Notes which row the object has, and what is in it.
    @discardableResult private mutating func remember(_ dirty: DirtyObject, _ key: [SQLValue], _ table: CapturedTable)
        throws -> [SQLValue]
    {
        var found: [SQLValue] = []
        try db.run(
            "SELECT \(table.keyText), \(table.selectedColumns) FROM main.\(table.name.quoted) WHERE \(table.isRow)",
            table.rowValues(key)
        ) { found = $0.values }
        guard let stored = found.first else { throw Refusal(reason: "the row is not as it was written") }
        let row = RowKey(table: table.number, key: stored)
        // The key of a row whose deletion is not collected may be given again.
        if busy.contains(row) { throw IsBusy() }
        let values = Array(found.dropFirst().dropLast())
        try database.map(row, to: dirty.guid, seen: RowDigest(values, of: table))
        return values
    }

    /// The value for a column.
    /// - Parameter old: The value that it has.
    /// - Returns: nil if it stays as it is.
    private mutating func value(
        _ content: StateValue, _ index: Int, _ table: CapturedTable, _ dirty: DirtyObject, unless old: SQLValue?
    ) throws -> SQLValue? {
        guard let form = forms[table.number]?[index] else { return nil }
        guard let target = form.column.target.flatMap({ database.table(named: $0) }) else {
            if let old, form.isSame(old, content) { return nil }
            return form.value(content)
        }
        var new = SQLValue.null
        if case .link(let reference) = content, case .uuid(let guid) = reference.key, try state.object(reference) != nil
        {
            if let row = try database.row(of: guid), row.table == target.number {
                if busy.contains(row) { throw IsBusy() }
                new = target.keyValues(row.key)?.first ?? .null
            } else {
                let reason = "\(form.column.name) refers to a \(target.name) that has no row yet"
                guard !form.column.isNotNull else { throw Refusal(reason: reason) }
                outcome.waiting[dirty] = reason
            }
        }
        guard let old else { return new }
        guard let key = try database.key(referredToBy: old, in: target) else { return new == old ? nil : new }
        if new == .null {
            // A reference to a row that has no object is none to others.
            let referred = RowKey(table: target.number, key: key)
            if busy.contains(referred) { throw IsBusy() }
            return try database.guid(of: referred) == nil ? nil : new
        }
        return try database.key(referredToBy: new, in: target) == key ? nil : new
    }

    // MARK: Violations

    /// Has one of two rows yield that have the same unique text.
    private mutating func resolve(
        _ error: SQLError, _ dirty: DirtyObject, _ object: StateObject, _ table: CapturedTable
    ) throws -> Bool {
        guard error.isUnique, let name = table.rule.suffix,
            let index = table.properties.firstIndex(where: { $0.name == name }),
            let property = classes[table.number]?.properties[index], case .string(let text) = object.value(of: property)
        else { return false }
        let source = "main.\(table.name.quoted) WHERE \(name.quoted) = ?"
        guard let key = try db.value("SELECT \(table.keyText) FROM \(source)", [.text(text)]),
            let rival = try database.guid(of: RowKey(table: table.number, key: key)), rival != dirty.guid
        else { return false }
        let loser = rival.bytes.lexicographicallyPrecedes(dirty.guid.bytes) ? dirty.guid : rival
        var number = 2
        var new = text
        repeat {
            new = text + Array(" (\(number))".utf8)
            number += 1
        } while try db.value("SELECT 1 FROM \(source)", [.text(new)]) != nil
            || outcome.writtenBack.contains { $0.fields.contains { $0.value == .string(new) } }
        outcome.writtenBack.append(
            ObjectChange(className: table.name, guid: loser, kind: .update, fields: [(name, .string(new))]))
        outcome.left.append(dirty)
        if loser != dirty.guid { outcome.left.append(DirtyObject(table: table.number, guid: loser)) }
        return true
    }

    mutating func park(_ failed: [(DirtyObject, String)]) throws {
        for (dirty, reason) in failed { outcome.waiting[dirty] = reason }
        for (dirty, reason) in outcome.waiting {
            try db.run(
                """
                INSERT INTO sync_pending (guid, tbl, reason, since) VALUES (?, ?, ?, unixepoch())
                ON CONFLICT (guid) DO UPDATE SET reason = excluded.reason
                """, [.blob(dirty.guid.bytes), .int(dirty.table), SQLValue(reason)])
        }
    }

    private func clearPending(_ done: Set<DirtyObject>) throws {
        guard try db.value("SELECT 1 FROM sync_pending LIMIT 1") != nil else { return }
        for dirty in done where outcome.waiting[dirty] == nil {
            try db.run("DELETE FROM sync_pending WHERE guid = ?", [.blob(dirty.guid.bytes)])
        }
    }
}

extension Application.Outcome {
    mutating func add(_ other: Self) {
        inserted += other.inserted
        updated += other.updated
        deleted += other.deleted
        left += other.left
        writtenBack += other.writtenBack
        waiting.merge(other.waiting) { $1 }
        isUnstable = isUnstable || other.isUnstable
    }
}

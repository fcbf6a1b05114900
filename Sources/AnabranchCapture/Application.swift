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
        /// Rows that have got their objects.
        var arrived: [RowKey] = []
        /// Triggers of the application that write for ever.
        var isUnstable = false

        var count: Int { inserted + updated + deleted }
    }

    /// A table with its class.
    struct Plan {
        let table: CapturedTable
        let classID: ClassID
        let forms: [ColumnForm]
        /// The properties of the columns; nil where the class has none.
        let properties: [Property?]
        /// The tables that columns have keys of.
        let targets: [CapturedTable?]
        /// The names of the columns as SQL spells them.
        let names: [String]
        /// True if what is written is what is in the row then.
        let isExact: Bool
    }

    /// The reason why an object has no row, or its old one.
    struct Refusal: Error { let reason: String }
    struct IsBusy: Error {}

    /// The most entries after the cursor with which objects are applied at all.
    static let uncollectedCount = 10_000

    let database: CapturedDatabase
    private let state: ObjectGraph
    private let forms: [Int64: [ColumnForm]]
    private(set) var plans: [Int64: Plan] = [:]
    /// The rows with entries that are not collected.
    var busy: Set<RowKey> = []
    var outcome = Outcome()
    /// The objects of the batch that are done.
    var done: Set<DirtyObject> = []
    /// True while a column that must have the key of a row gets any value until that row is there.
    var isProvisional = false

    var db: SQLConnection { database.db }

    init(_ database: CapturedDatabase, _ state: ObjectGraph, _ forms: [Int64: [ColumnForm]]) {
        self.database = database
        self.state = state
        self.forms = forms
        for table in database.tables {
            guard let schema = state.schema(ofClass: Array(table.name.utf8)), let forms = forms[table.number] else {
                continue
            }
            plans[table.number] = Plan(
                table: table, classID: schema.number, forms: forms,
                properties: table.properties.map { schema.property(named: Array($0.name.utf8)) },
                targets: table.properties.map { $0.target.flatMap(database.table(named:)) },
                names: table.properties.map(\.name.quoted),
                isExact: table.shape.isKeyLocal && !database.hasSideEffects)
        }
    }

    /// Carries out a batch.
    /// - Parameter objects: each with its current content; nil if it was erased.
    mutating func run(_ objects: [(DirtyObject, StateObject?)]) throws -> Outcome {
        do { return try attempt(objects) } catch let error as SQLError where error.isConstraint {
            // The end of the transaction has found what no single object violates.
            outcome = Outcome()
            guard objects.count > 1 else {
                try db.transaction { try park(objects.map { ($0.0, error.description) }) }
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

    private mutating func attempt(_ objects: [(DirtyObject, StateObject?)]) throws -> Outcome {
        outcome = Outcome()
        done = []
        return try db.transaction {
            try database.checkSchema()
            let top = try db.value("SELECT max(id) FROM sync_history")?.int ?? 0
            guard try readBusy() else {
                outcome.left = objects.map(\.0)
                return outcome
            }
            try db.execute("PRAGMA defer_foreign_keys = ON")
            let place = Dictionary(uniqueKeysWithValues: database.tables.enumerated().map { ($1.number, $0) })
            var upserts = objects.filter { $0.1 != nil }.sorted { place[$0.0.table] ?? 0 < place[$1.0.table] ?? 0 }
            var deletes = objects.filter { $0.1 == nil }.sorted { place[$0.0.table] ?? 0 > place[$1.0.table] ?? 0 }
            var failed: [(DirtyObject, String)] = []
            let isDone = try busy.isEmpty && writeTogether(upserts + deletes)
            // What is in the way of one object may be gone once another is done.
            for isLast in isDone ? [] : [false, true] {
                failed = []
                if isLast { upserts = try exchange(upserts) }
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
            try database.recordReferred(outcome.arrived)
            try park(failed)
            try clearPending(done)
            return outcome
        }
    }

    /// - Returns: false if there is too much to be collected first.
    private mutating func readBusy() throws -> Bool {
        let cursor = try database.state("collected")?.int ?? 0
        var count = 0
        try db.run(
            "SELECT tbl, key, was FROM sync_history WHERE id > ? AND action > 0 LIMIT ?",
            [.int(cursor), .int(Int64(Self.uncollectedCount) + 1)]
        ) { row in
            count += 1
            guard let table = row[0].int else { return }
            busy.insert(RowKey(table: table, key: row[1]))
            if row[2] != .null { busy.insert(RowKey(table: table, key: row[2])) }
        }
        return count <= Self.uncollectedCount
    }

    func object(_ dirty: DirtyObject) throws -> StateObject? {
        guard let plan = plans[dirty.table] else { return nil }
        return try state.object(ObjectReference(classID: plan.classID, key: .uuid(dirty.guid)))
    }

    // MARK: Objects

    /// Writes all objects of a batch, or none if one is in the way: most batches are let in as a whole.
    private mutating func writeTogether(_ objects: [(DirtyObject, StateObject?)]) throws -> Bool {
        let isDone = try succeeds { application in
            for (dirty, object) in objects { try application.carryOut(dirty, object) }
            if application.db.hasDeferredViolations { throw IsBusy() }
        }
        if isDone { done.formUnion(objects.map(\.0)) }
        return isDone
    }

    mutating func carryOut(_ dirty: DirtyObject, _ object: StateObject?) throws {
        guard let plan = plans[dirty.table] else { return }
        if let object { try write(dirty, object, plan) } else { try delete(dirty, plan.table) }
    }

    /// - Parameter resolves: true if the rules of the table are asked what becomes of a violation.
    /// - Returns: the reason why it waits; nil if it does not.
    mutating func attempt(_ dirty: DirtyObject, _ object: StateObject?, resolves: Bool) throws -> String? {
        outcome.waiting[dirty] = nil
        let before = outcome
        do {
            try db.savepoint {
                try carryOut(dirty, object)
                if db.hasDeferredViolations { throw Refusal(reason: "FOREIGN KEY constraint failed") }
            }
            done.insert(dirty)
            return nil
        } catch is IsBusy {
            outcome = before
            outcome.left.append(dirty)
            return nil
        } catch let error as Refusal {
            outcome = before
            return error.reason
        } catch let error as SQLError where !error.isBusy && !error.isFatal {
            outcome = before
            if resolves, let object, let plan = plans[dirty.table], try resolve(error, dirty, object, plan) {
                return nil
            }
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
        if db.changes == 0, try database.readRow(row.key, of: table) != nil {
            throw Refusal(reason: "a trigger of the application does not let it be deleted")
        }
        try database.unmap(dirty.guid)
        outcome.deleted += 1
    }

    private mutating func write(_ dirty: DirtyObject, _ object: StateObject, _ plan: Plan) throws {
        let table = plan.table
        if let row = try database.row(of: dirty.guid) {
            if busy.contains(row) { throw IsBusy() }
            if let found = try database.readRow(row.key, of: table) {
                return try update(row, found.values, dirty, object, plan)
            }
            try database.unmap(dirty.guid)
        }
        try insert(dirty, object, plan)
    }

    private mutating func update(
        _ row: RowKey, _ values: [SQLValue], _ dirty: DirtyObject, _ object: StateObject, _ plan: Plan
    ) throws {
        guard plan.table.rule.pulls.contains(.update) else { return }
        let (new, kept) = try changes(of: values, dirty, object, plan)
        writeBack(kept, of: values, dirty, plan)
        if new.isEmpty { return }
        try set(new, in: row, values, dirty, plan)
        outcome.updated += 1
    }

    /// The values of a row that are to be others, and the columns that keep theirs since they must have one.
    mutating func changes(
        of values: [SQLValue], _ dirty: DirtyObject, _ object: StateObject, _ plan: Plan
    ) throws -> (new: [(index: Int, value: SQLValue)], kept: [Int]) {
        var new: [(index: Int, value: SQLValue)] = []
        var kept: [Int] = []
        for index in plan.names.indices {
            guard let property = plan.properties[index] else { continue }
            let content = object.value(of: property)
            guard let value = try value(content, index, plan, dirty, unless: values[index]) else { continue }
            if value == .null, plan.table.properties[index].needsValue {
                kept.append(index)
            } else {
                new.append((index, value))
            }
        }
        return (new, kept)
    }

    /// Writes some columns of a row.
    /// - Parameter values: all that it has.
    mutating func set(
        _ new: [(index: Int, value: SQLValue)], in row: RowKey, _ values: [SQLValue], _ dirty: DirtyObject, _ plan: Plan
    ) throws {
        let table = plan.table
        guard let keyValues = table.keyValues(row.key) else { return }
        let settings = new.map { "\(plan.names[$0.index]) = ?" }.joined(separator: ", ")
        try db.run(
            "\(table.update)\(settings) WHERE \(table.isRow)", new.map(\.value) + table.rowValues(keyValues))
        guard db.changes > 0 else { throw Refusal(reason: "a trigger of the application does not let it be changed") }
        var now = values
        for (index, value) in new { now[index] = value }
        var newKey = keyValues
        if !table.shape.isKeyLocal {
            newKey = table.shape.keyColumns.compactMap { name in
                table.properties.firstIndex { $0.name == name }.map { now[$0] }
            }
        }
        try remember(dirty, newKey, now, plan, was: row)
    }

    private mutating func insert(_ dirty: DirtyObject, _ object: StateObject, _ plan: Plan) throws {
        let table = plan.table
        guard table.rule.pulls.contains(.insert) else { return }
        var columns: [Int] = []
        var values: [SQLValue] = []
        var omitted: [Int] = []
        for (index, column) in table.properties.enumerated() {
            guard let property = plan.properties[index] else { continue }
            let value = try value(object.value(of: property), index, plan, dirty, unless: nil) ?? .null
            if value == .null, column.needsValue {
                omitted.append(index)
                continue
            }
            columns.append(index)
            values.append(value)
        }
        let isWhole = columns.count == plan.names.count
        try db.run(isWhole ? table.insertRow : table.insert(columns.map { plan.names[$0] }), values)
        guard db.changes > 0 else { throw Refusal(reason: "a trigger of the application does not let it in") }
        var key = [SQLValue.int(db.lastRowID)]
        if !table.shape.isKeyLocal {
            key = table.shape.keyColumns.map { name in
                columns.firstIndex { table.properties[$0].name == name }.map { values[$0] } ?? .null
            }
        }
        let row = try remember(dirty, key, isWhole ? values : nil, plan)
        outcome.inserted += 1
        writeBack(omitted, of: row, dirty, plan)
    }

    /// Has values of a row that must have some be those of all devices, since its object has none.
    private mutating func writeBack(_ columns: [Int], of row: [SQLValue], _ dirty: DirtyObject, _ plan: Plan) {
        let fields = columns.compactMap { index in
            plan.forms[index].payload(row[index]).map { (property: plan.forms[index].column.name, value: $0) }
        }
        guard !fields.isEmpty else { return }
        outcome.writtenBack.append(ObjectChange(of: plan.table, dirty.guid, .update, fields))
    }

    /// Records which row the object has, and what is in it.
    /// - Parameter written: The values that were written; nil if the table has given others.
    @discardableResult private mutating func remember(
        _ dirty: DirtyObject, _ key: [SQLValue], _ written: [SQLValue]?, _ plan: Plan, was: RowKey? = nil
    ) throws -> [SQLValue] {
        let table = plan.table
        var stored = key.first, values = written ?? []
        if !plan.isExact || written == nil || !zip(table.properties, values).allSatisfy({ $0.keeps($1) }) {
            var found: [SQLValue] = []
            try db.run(table.selectKeyedRow, table.rowValues(key)) { found = $0.values }
            (stored, values) = (found.first, Array(found.dropFirst().dropLast()))
        }
        guard let stored else { throw Refusal(reason: "the row is not as it was written") }
        let row = RowKey(table: table.number, key: stored)
        // The key of a row whose deletion is not collected may be given again.
        if busy.contains(row) { throw IsBusy() }
        let digest = RowDigest(values, of: table)
        if row == was {
            try database.record(row, seen: digest)
        } else {
            try database.map(row, to: dirty.guid, seen: digest)
            outcome.arrived.append(row)
            try database.write(dirty.guid, to: row, of: table)
        }
        return values
    }

    /// The value for a column.
    /// - Parameter old: The value that it has.
    /// - Returns: nil if it stays as it is.
    mutating func value(
        _ content: StateValue, _ index: Int, _ plan: Plan, _ dirty: DirtyObject, unless old: SQLValue?
    ) throws -> SQLValue? {
        let form = plan.forms[index]
        guard let target = plan.targets[index] else {
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
                if !form.column.isNotNull {
                    outcome.waiting[dirty] = reason
                } else if isProvisional {
                    new = SQLValue.int(0).unused
                } else {
                    throw Refusal(reason: reason)
                }
            }
        }
        guard let old else { return new }
        guard let key = try database.key(referredToBy: old, in: target) else { return new == old ? nil : new }
        if new == .null {
            // A reference to a row without an object is null for others.
            let referred = RowKey(table: target.number, key: key)
            if busy.contains(referred) { throw IsBusy() }
            return try database.guid(of: referred) == nil ? nil : new
        }
        return try database.key(referredToBy: new, in: target) == key ? nil : new
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

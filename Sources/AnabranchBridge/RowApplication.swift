#if canImport(CLibPQ)
import AnabranchCore
import AnabranchPostgresWire

/// Makes rows equal to objects, in one transaction of the database (`Spec/Bridge.md`, section 5).
struct RowApplication {
    /// The changes to rows, and the objects that have not become any.
    struct Outcome {
        var inserted = 0
        var updated = 0
        var deleted = 0
        /// Objects whose rows are locked, or have changes that are not collected.
        var left: [ObjectReference] = []
        /// The number of those that have such changes.
        var uncollected = 0
        /// The number of objects that wait.
        var waiting = 0
        /// Triggers of the application that write for ever.
        var isUnstable = false

        var count: Int { inserted + updated + deleted }

        mutating func add(_ other: Self) {
            inserted += other.inserted
            updated += other.updated
            deleted += other.deleted
            left += other.left
            uncollected += other.uncollected
            waiting += other.waiting
            isUnstable = isUnstable || other.isUnstable
        }
    }

    /// An object as a row: its key, and JSON of the columns; nil if there is no object.
    struct Row {
        let key: ExactString
        let reference: ObjectReference
        let json: [UInt8]?
    }

    /// A table with its class.
    struct Form {
        let table: BridgedTable
        let number: ClassID
        let indices: [Int]
        let properties: [Property]
        let update: String?
        let insert: String
        let countListChanges: String?
        let writeLists: [String]
    }

    let database: BridgeDatabase
    let state: ObjectGraph
    private let writing: ValueWriting
    private var forms: [ClassID: Form] = [:]
    private let holder: String
    private let silence: Double
    /// True if a null of an object takes no value of its row away.
    let keepsValues: Bool
    /// The most objects of one transaction, and the most bytes that they may have together unless there is one.
    private let size: (objects: Int, bytes: Int)

    /// - Parameter areWaiting: true for objects that have waited, which may be in each other's way.
    init(
        _ database: BridgeDatabase, _ state: ObjectGraph, as holder: String, silence: Double,
        keepsValues: Bool = false, areWaiting: Bool = false
    ) {
        (self.database, self.state, self.holder, self.silence) = (database, state, holder, silence)
        self.keepsValues = keepsValues
        size = areWaiting ? (Self.waitingObjects, Self.waitingBytes) : (Self.objectCount, Self.bytesMax)
        writing = ValueWriting(state)
        for table in database.tables {
            guard let schema = state.schema(ofClass: Array(table.className.utf8)) else { continue }
            let known = table.columns.indices.compactMap { index in
                schema.property(named: Array(table.columns[index].name.utf8)).map { (index, $0) }
            }
            let indices = known.map(\.0)
            forms[schema.number] = Form(
                table: table, number: schema.number, indices: indices, properties: known.map(\.1),
                update: table.update(indices, keepsValues: keepsValues), insert: table.insert(indices),
                countListChanges: table.countListChanges(indices), writeLists: table.writeLists(indices))
        }
    }

    static let objectCount = 1_000
    private static let bytesMax = 4 << 20
    /// The objects of one transaction that have waited.
    static let waitingObjects = 10_000
    private static let waitingBytes = 32 << 20
    /// The most times that a transaction is made again that others are in the way of.
    private static let triesMax = 5

    /// The class of a table; nil if there is none.
    func number(of table: BridgedTable) -> ClassID? { forms.values.first { $0.table == table }?.number }

    /// Carries out changes of objects of one class.
    func run(_ references: [ObjectReference]) throws -> Outcome {
        guard let number = references.first?.classID, let form = forms[number] else { return Outcome() }
        var total = Outcome(), rows: [Row] = [], bytes = 0
        for reference in references {
            guard let row = try row(reference, form) else {
                try parkUnfit(reference, form)
                continue
            }
            let count = row.json?.count ?? 0
            if !rows.isEmpty, bytes + count > size.bytes || rows.count >= size.objects {
                total.add(try carryOut(rows, form))
                (rows, bytes) = ([], 0)
            }
            rows.append(row)
            bytes += count
        }
        if !rows.isEmpty { total.add(try carryOut(rows, form)) }
        return total
    }

    /// - Returns: nil if no row can have the key of the object.
    private func row(_ reference: ObjectReference, _ form: Form) throws -> Row? {
        guard let key = form.table.text(of: reference.key).map({ ExactString($0) }) else { return nil }
        guard let object = try state.object(reference) else { return Row(key: key, reference: reference, json: nil) }
        var text: [UInt8] = Array("{\"k\":".utf8)
        writing.append(StateValue(reference.key), .int, to: &text)
        for (index, property) in zip(form.indices, form.properties) {
            text += ",\"c\(index)\":".utf8
            writing.append(object.value(of: property), property.type, to: &text)
        }
        text.append(UInt8(ascii: "}"))
        return Row(key: key, reference: reference, json: text)
    }

    private func carryOut(_ rows: [Row], _ form: Form) throws -> Outcome {
        var tries = 0
        while true {
            do { return try attempt(rows, form) } catch let error as PostgresError where error.isTransient {
                tries += 1
                if tries >= Self.triesMax { return Outcome(left: rows.map(\.reference)) }
            } catch let error as PostgresError where error.state == "55P03" {
                // Another session inserts a row with the key of one.
                return Outcome(left: rows.map(\.reference))
            }
        }
    }

    private func attempt(_ all: [Row], _ form: Form) throws -> Outcome {
        var outcome = Outcome()
        try database.transaction { db in
            try database.hold(as: holder, silence: silence)
            try db.execute("SET LOCAL lock_timeout = '\(BridgeDatabase.lockTimeout)'; SET CONSTRAINTS ALL DEFERRED")
            let top =
                try db.query("SELECT coalesce(pg_sequence_last_value('anabranch.history_id_seq'), 0)")[0, 0] ?? "0"
            let (free, left, uncollected) = try unlocked(all, form, db)
            outcome.left = left
            outcome.uncollected = uncollected
            var failed = try exchange(try write(free, form, db, &outcome), form, db, &outcome)
            try takeOwnEntries(after: top, db, &failed, &outcome)
            let refused = Set(failed.map(\.row.key))
            failed += try ignored(free.filter { !refused.contains($0.key) }, form, db)
            try park(failed, free, form, db)
            outcome.waiting = failed.count
        }
        return outcome
    }

    /// The rows that nobody else has locked, and of which everything is collected.
    private func unlocked(_ rows: [Row], _ form: Form, _ db: PostgresConnection) throws
        -> (free: [Row], left: [ObjectReference], uncollected: Int)
    {
        let table = form.table
        let present = try present(rows, table, db)
        var taken = Set<ExactString>()
        if !present.isEmpty {
            taken = present.subtracting(try self.present(rows, table, db, "FOR UPDATE SKIP LOCKED"))
        }
        let uncollected = try database.uncollected(rows.map(\.key.text), table)
        taken.formUnion(uncollected)
        if taken.isEmpty { return (rows, [], 0) }
        return (
            rows.filter { !taken.contains($0.key) }, rows.filter { taken.contains($0.key) }.map(\.reference),
            uncollected.count
        )
    }

    /// The keys of those rows that are there.
    private func present(_ rows: [Row], _ table: BridgedTable, _ db: PostgresConnection, _ lock: String = "") throws
        -> Set<ExactString>
    {
        let key = "t.\(table.key.name.quoted)"
        let found = try db.query(
            "SELECT \(key)::text FROM \(table.path) t WHERE \(key) = ANY ($1::\(table.keyType)[]) \(lock)",
            [.array(rows.map(\.key.text))])
        return Set((0..<found.count).compactMap { found[$0, 0].map { ExactString($0) } })
    }

    /// The rows that triggers of the application have not let in, or not let go, without an error.
    private func ignored(_ rows: [Row], _ form: Form, _ db: PostgresConnection) throws -> [(row: Row, reason: String)] {
        if rows.isEmpty || !database.hasSideEffects { return [] }
        let present = try present(rows, form.table, db)
        return rows.compactMap { row in
            let isThere = present.contains(row.key)
            if isThere == (row.json != nil) { return nil }
            return (row, "a trigger of the application does not let it \(isThere ? "be deleted" : "in")")
        }
    }

    // MARK: Writing

    /// Writes rows, and finds those that the database refuses by halves.
    /// - Returns: these, with the reasons.
    func write(_ rows: [Row], _ form: Form, _ db: PostgresConnection, _ outcome: inout Outcome) throws
        -> [(row: Row, reason: String)]
    {
        if rows.isEmpty { return [] }
        var counts = (inserted: 0, updated: 0, deleted: 0)
        do {
            try database.savepoint(db) {
                var batch: [UInt8] = []
                JSONText.append(array: rows.compactMap(\.json), to: &batch)
                if batch.count > 2 {
                    if let count = form.countListChanges {
                        counts.updated = Int(try db.query(count, [.utf8(batch)])[0, 0] ?? "") ?? 0
                    }
                    if let update = form.update { counts.updated += try db.query(update, [.utf8(batch)]).affected }
                    counts.inserted = try db.query(form.insert, [.utf8(batch)]).affected
                    for statement in form.writeLists { try db.query(statement, [.utf8(batch)]) }
                }
                let gone = rows.filter { $0.json == nil }.map(\.key.text)
                if !gone.isEmpty {
                    for statement in form.table.deleteLists { try db.query(statement, [.array(gone)]) }
                    counts.deleted = try db.query(form.table.delete, [.array(gone)]).affected
                }
                try db.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
            }
        } catch let error as PostgresError where Self.isOfRow(error) {
            // A column may have gone.
            if error.state?.hasPrefix("42") ?? false { try database.checkShape(of: []) }
            guard rows.count > 1 else { return [(rows[0], "\(error)")] }
            let middle = rows.count / 2
            return try write(Array(rows[..<middle]), form, db, &outcome)
                + write(Array(rows[middle...]), form, db, &outcome)
        }
        outcome.inserted += counts.inserted
        outcome.updated += counts.updated
        outcome.deleted += counts.deleted
        return []
    }

    /// The rows that are not as some objects of a table's class: the names of their columns; nil if there is no row.
    func differences(_ references: [ObjectReference], of table: BridgedTable) throws
        -> [(key: String, columns: [String]?)]
    {
        guard let number = references.first?.classID, let form = forms[number] else { return [] }
        let rows = try references.compactMap { try row($0, form) }
        let passed = try database.uncollected(rows.map(\.key.text), table)
        return try differences(rows.filter { $0.json != nil && !passed.contains($0.key) }, form)
    }

    /// An object that no row can hold makes the statement fail: it is found by halves, and has no row.
    private func differences(_ rows: [Row], _ form: Form) throws -> [(key: String, columns: [String]?)] {
        if rows.isEmpty { return [] }
        let db = try database.db
        var batch: [UInt8] = [], found: PostgresRows?
        JSONText.append(array: rows.compactMap(\.json), to: &batch)
        do {
            try database.savepoint(db) {
                found = try db.query(form.table.differences(form.indices), [.utf8(batch)])
            }
        } catch let error as PostgresError where error.isOfData {
            guard rows.count > 1 else { return [(rows[0].key.text, nil)] }
            let middle = rows.count / 2
            return try differences(Array(rows[..<middle]), form) + differences(Array(rows[middle...]), form)
        }
        guard let found else { return [] }
        return (0..<found.count).map { row in
            let names = found.bytes(row, 1).flatMap { try? JSONValue(parsing: $0) }?.array?.compactMap(\.string)
            return (found[row, 0] ?? "", names)
        }
    }

    /// True for an error for which rows wait: of their values, of rights, of triggers. Others are those of the batch.
    static func isOfRow(_ error: PostgresError) -> Bool {
        guard error.code == .refused, let state = error.state, !error.isTransient else { return false }
        return !["08", "25", "40", "53", "55", "57", "58", "XX"].contains(state.prefix(2))
    }

    // MARK: Own entries

    private static let roundsMax = 8

    /// Removes the entries that this transaction has made. What triggers of the application, or its foreign keys, have
    /// done to bridged rows is set back: the device that has made the change has seen all that it brings about.
    private func takeOwnEntries(
        after top: String, _ db: PostgresConnection, _ failed: inout [(row: Row, reason: String)],
        _ outcome: inout Outcome
    ) throws {
        for _ in 0..<Self.roundsMax {
            let entries = try db.query(
                """
                DELETE FROM anabranch.history WHERE id > $1::bigint AND xid = pg_current_xact_id()
                RETURNING tbl, key, action
                """, [.text(top)])
            guard entries.count > 0, database.hasSideEffects else { return }
            var touched: [String: [ExactString: Bool]] = [:]
            for row in 0..<entries.count {
                guard let table = entries[row, 0], let key = entries[row, 1].map({ ExactString($0) }) else {
                    continue
                }
                let wasInserted = touched[table]?[key] ?? false
                touched[table, default: [:]][key] = wasInserted || entries[row, 2] == "I"
            }
            for form in forms.values {
                guard let keys = touched[form.table.oid] else { continue }
                let busy = try database.uncollected(keys.keys.map(\.text), form.table)
                let refused = Set(failed.filter { $0.row.reference.classID == form.number }.map(\.row.key))
                let type = state.schema(of: form.number)?.key?.type ?? .null
                let rows = try keys.compactMap { key, isInserted -> Row? in
                    guard !busy.contains(key), !refused.contains(key),
                        let objectKey = BridgedTable.objectKey(key.text, type),
                        let row = try row(ObjectReference(classID: form.number, key: objectKey), form)
                    else { return nil }
                    return row.json != nil || isInserted ? row : nil
                }
                var uncounted = Outcome()
                failed += try write(rows, form, db, &uncounted)
            }
        }
        outcome.isUnstable = true
        try db.query(
            "DELETE FROM anabranch.history WHERE id > $1::bigint AND xid = pg_current_xact_id()", [.text(top)])
    }

    // MARK: Waiting

    /// The reason why an object waits whose key no row can have.
    static let unfitReason = "no row can have its key"

    /// Keeps an object whose key no row can have, as long as there is one.
    private func parkUnfit(_ reference: ObjectReference, _ form: Form) throws {
        let key = "\(reference.key)".replacing("\0", with: "␀")
        guard try state.object(reference) != nil else {
            try database.db.query(
                "DELETE FROM anabranch.pending WHERE class = $1 AND key = $2 AND reason = $3",
                [.text(form.table.className), .text(key), .text(Self.unfitReason)])
            return
        }
        try database.db.query(
            "INSERT INTO anabranch.pending (class, key, reason) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            [.text(form.table.className), .text(key), .text(Self.unfitReason)])
    }

    private func park(
        _ failed: [(row: Row, reason: String)], _ rows: [Row], _ form: Form, _ db: PostgresConnection
    ) throws {
        let waiting = Set(failed.map(\.row.key))
        try db.query(
            "DELETE FROM anabranch.pending WHERE class = $1 AND key = ANY ($2::text[])",
            [.text(form.table.className), .array(rows.map(\.key).filter { !waiting.contains($0) }.map(\.text))])
        for (row, reason) in failed {
            let className = forms[row.reference.classID]?.table.className ?? form.table.className
            try db.query(
                """
                INSERT INTO anabranch.pending (class, key, reason) VALUES ($1, $2, $3)
                ON CONFLICT (class, key) DO UPDATE SET reason = excluded.reason
                """, [.text(className), .text(row.key.text), .text(reason)])
        }
    }
}
#endif

import AnabranchClient
import AnabranchCore

/// Reads entries and the rows that they name, all of them as of one moment.
struct Collection {
    /// An entry of the history.
    private struct Entry {
        let id: Int64
        let row: RowKey
        let action: Int64
        let was: SQLValue

        init?(_ row: SQLRow) {
            guard let id = row[0].int, let table = row[1].int, let action = row[3].int else { return nil }
            (self.id, self.row, self.action, was) = (id, RowKey(table: table, key: row[2]), action, row[4])
        }
    }

    /// The changes to an object, as far as they are known.
    private struct Draft {
        var kind: ObjectChange.Kind
        var table: Int64
        /// The columns that are read besides those that are not as they were when the row was last seen; nil for all.
        var columns: Set<Int>? = []
        /// True if the server may not have the object.
        var mayBeNew = false
        /// True if the row wins over the object that it is.
        var wins = false
    }

    private let database: CapturedDatabase
    private let forms: [Int64: [ColumnForm]]
    private let tables: [Int64: CapturedTable]
    /// True if rows get no new objects yet: some may be those of objects that are there.
    private let isMatching: Bool
    private var keys = ObjectKeys()
    private var collected: Collected
    /// The bytes that the rows may have which are still to be read.
    private var bytesLeft: Int
    private var map: [RowKey: UUIDBytes?] = [:]
    /// The rows whose objects are others now.
    private var remapped: Set<RowKey> = []
    /// The rows that have lost their objects; true for those whose objects have another row now.
    private var vacated: [RowKey: Bool] = [:]
    private var rows: [UUIDBytes: RowKey] = [:]
    /// The rows as they were when they were last seen.
    private var seen: [UUIDBytes: RowDigest] = [:]
    private var drafts: [UUIDBytes: Draft] = [:]
    private var order: [UUIDBytes] = []
    /// The keys that a new row may have taken the place of.
    private var remembered: Set<RowKey> = []
    /// The keys of the last entries, if these tell only of rows that may go.
    private var going: [Int64: Set<SQLValue>] = [:]
    /// The rows that were named.
    private var touched: Set<RowKey> = []
    private var touchedOrder: [RowKey] = []

    private init(_ database: CapturedDatabase, _ forms: [Int64: [ColumnForm]], newest: Int64, bytesMax: Int) throws {
        bytesLeft = bytesMax
        isMatching = try database.isMatching
        self.database = database
        self.forms = forms
        tables = Dictionary(uniqueKeysWithValues: database.tables.map { ($0.number, $0) })
        collected = Collected(newest: newest)
    }

    /// The entries that are collected together, and the bytes that their rows may have together unless there is one.
    static let entryCount = 2_000
    private static let bytesMax = 4 << 20

    private struct TooLarge: Error {}

    /// The changes that result from the next entries.
    /// - Parameter forms: the forms of columns, by table.
    /// - Returns: nil if there are none.
    static func next(in database: CapturedDatabase, _ forms: [Int64: [ColumnForm]]) throws -> Collected? {
        let db = database.db
        return try db.transaction("DEFERRED") {
            try database.checkSchema()
            let cursor = try database.state("collected")?.int ?? 0
            let last = try db.value("SELECT max(id) FROM sync_history")?.int ?? 0
            guard last > cursor else { return nil }
            let takenCount = database.tables.map(\.takenCount).max() ?? 0
            var count = entryCount, bytesMax = bytesMax
            while true {
                var entries = try read(after: cursor, count, in: db)
                let isAll = entries.count < count
                if !isAll { entries.removeLast(unfinishedCount(entries, takenCount)) }
                guard isAll || !entries.isEmpty else {
                    (count, bytesMax) = (2 * count, .max)
                    continue
                }
                let newest = isAll ? last : entries.last?.id ?? last
                var collection = try Collection(
                    database, forms, newest: newest, bytesMax: count > 1 ? bytesMax : .max)
                for entry in entries { try collection.take(entry) }
                do {
                    if try collection.finish() || newest >= last { return collection.collected }
                    // A row has another key by now, and its entry comes later.
                    (count, bytesMax) = (2 * count, .max)
                } catch is TooLarge { count = max(1, count / 8) }
            }
        }
    }

    /// The number of last entries that tell of rows that may go: the new row, which comes next, says what becomes of
    /// them. Of a new row that was ignored nothing comes.
    /// - Parameter takenCount: the rows that one new row can take the place of.
    private static func unfinishedCount(_ entries: [Entry], _ takenCount: Int) -> Int {
        let end = entries.lastIndex { $0.action != 3 && $0.action != 4 }.map { $0 + 1 } ?? 0
        let going = entries.indices[end...].filter { entries[$0].action == 4 }.suffix(takenCount)
        return going.first.map { entries.count - $0 } ?? 0
    }

    private static func read(after cursor: Int64, _ count: Int, in db: SQLConnection) throws -> [Entry] {
        var entries: [Entry] = []
        try db.run(
            """
            SELECT id, tbl, key, action, was FROM sync_history
            WHERE id > ? AND action > 0 ORDER BY id LIMIT ?
            """, [.int(cursor), .int(Int64(count))]
        ) { row in if let entry = Entry(row) { entries.append(entry) } }
        return entries
    }

    // MARK: Entries

    private mutating func take(_ entry: Entry) throws {
        guard let table = tables[entry.row.table] else { return }
        let row = entry.row
        guard table.keyValues(row.key) != nil else {
            // A row with a null in its key has no identity.
            if entry.action == 2 { try erase(RowKey(table: row.table, key: entry.was)) }
            return
        }
        touch(row)
        switch entry.action {
        case 4:
            remembered.insert(row)
            going[row.table, default: []].insert(row.key)
            return
        case 3 where going[row.table]?.contains(row.key) ?? false:
            // A part of REPLACE, whose new row comes next.
            return
        case 1:
            if remembered.contains(row), let guid = try guid(of: row) {
                change(guid, in: row.table, nil)
            } else {
                try add(row)
            }
        case 2:
            let before = RowKey(table: row.table, key: entry.was)
            if before != row {
                touch(before)
                let guid = try guid(of: before)
                try erase(row)
                try set(before, nil)
                if let guid {
                    try set(row, guid)
                    vacated[before] = true
                }
            }
            if let guid = try guid(of: row) {
                change(guid, in: row.table, before == row ? [] : try database.danglingColumns(of: before))
            }
        case 3: try erase(row)
        case 5:
            if let guid = try guid(of: row) { change(guid, in: row.table, nil) } else { try add(row) }
        case 6, 7:
            if let guid = try guid(of: row) {
                change(guid, in: row.table, nil)
                drafts[guid]?.mayBeNew = true
                if entry.action == 7 { drafts[guid]?.wins = true }
            } else {
                try add(row)
            }
        default: break
        }
        going[row.table] = nil
    }

    private mutating func touch(_ row: RowKey) { if touched.insert(row).inserted { touchedOrder.append(row) } }

    private mutating func guid(of row: RowKey) throws -> UUIDBytes? {
        if let known = map[row] { return known }
        guard let known = try database.known(row) else {
            map[row] = .some(nil)
            return nil
        }
        map[row] = .some(known.guid)
        rows[known.guid] = row
        seen[known.guid] = known.seen
        return known.guid
    }

    private mutating func set(_ row: RowKey, _ guid: UUIDBytes?) throws {
        if let old = try self.guid(of: row), rows[old] == row { rows[old] = nil }
        map[row] = .some(guid)
        remapped.insert(row)
        if let guid { rows[guid] = row }
    }

    private mutating func add(_ row: RowKey) throws {
        try erase(row)
        if isMatching { return }
        let guid = keys.next()
        try set(row, guid)
        draft(guid, Draft(kind: .create, table: row.table, columns: nil))
    }

    private mutating func change(_ guid: UUIDBytes, in table: Int64, _ columns: Set<Int>?) {
        guard var known = drafts[guid] else { return draft(guid, Draft(kind: .update, table: table, columns: columns)) }
        guard known.kind != .erase else { return }
        if let columns, known.columns != nil { known.columns?.formUnion(columns) } else { known.columns = nil }
        drafts[guid] = known
    }

    private mutating func erase(_ row: RowKey) throws {
        guard let guid = try guid(of: row) else { return }
        try set(row, nil)
        vacated[row] = vacated[row] ?? false
        if drafts[guid]?.kind == .create {
            drafts[guid] = nil
        } else {
            draft(guid, Draft(kind: .erase, table: row.table))
        }
    }

    private mutating func draft(_ guid: UUIDBytes, _ draft: Draft) {
        if drafts.updateValue(draft, forKey: guid) == nil { order.append(guid) }
    }

    // MARK: Rows

    /// - Returns: false if later entries have to be read as well.
    private mutating func finish() throws -> Bool {
        var isWhole = true
        for row in touchedOrder {
            guard let table = tables[row.table] else { continue }
            let guid = try guid(of: row)
            guard guid == nil || remembered.contains(row) else { continue }
            let found = try database.readRow(row.key, of: table)
            if guid != nil, found == nil {
                try erase(row)
            } else if guid == nil, found != nil {
                try add(row)
            }
        }
        try findReferences()
        try relink()
        let positions = Dictionary(uniqueKeysWithValues: database.tables.enumerated().map { ($1.number, $0) })
        var changes: [(place: Int, change: ObjectChange)] = []
        var digests: [UUIDBytes: RowDigest] = [:]
        for guid in order {
            guard let draft = drafts[guid], let table = tables[draft.table] else { continue }
            let place = positions[draft.table] ?? 0
            if draft.kind == .erase {
                if table.rule.pushes.contains(.delete) {
                    changes.append((-place, ObjectChange(of: table, guid, .erase)))
                } else {
                    collected.refused.append(DirtyObject(table: draft.table, guid: guid))
                }
                continue
            }
            guard let row = rows[guid] else { continue }
            guard let found = try database.readRow(row.key, of: table) else {
                isWhole = try isWhole && !isRekeyedLater()
                if draft.kind == .create { try set(row, nil) }
                continue
            }
            bytesLeft -= found.values.reduce(0) { $0 + $1.size }
            if bytesLeft < 0 { throw TooLarge() }
            let digest = RowDigest(found.values, of: table)
            guard found.fits else {
                // The row belongs to this database alone from now on.
                try set(row, nil)
                if draft.kind == .update {
                    vacated[row] = false
                    if table.rule.pushes.contains(.delete) {
                        changes.append((-place, ObjectChange(of: table, guid, .erase)))
                    }
                }
                continue
            }
            if draft.kind == .create, !table.rule.pushes.contains(.insert) {
                try set(row, nil)
                continue
            }
            digests[guid] = digest
            if draft.kind == .update, !table.rule.pushes.contains(.update) {
                collected.refused.append(DirtyObject(table: draft.table, guid: guid))
                continue
            }
            var change = ObjectChange(of: table, guid, draft.mayBeNew ? .create : draft.kind)
            change.wins = draft.wins
            let columns = draft.kind == .update ? changedColumns(of: guid, draft, digest, found.values) : nil
            if columns?.isEmpty ?? false { continue }
            for index in table.properties.indices where columns?.contains(index) ?? true {
                try read(index, of: found.values, row, table, into: &change)
            }
            changes.append((place + 1, change))
        }
        try findReferences()
        // Objects that others link to come first, and are erased last.
        changes.sort { $0.place < $1.place }
        collected.changes = changes.map(\.change)
        for (row, guid) in map {
            let digest = guid.flatMap { digests[$0] }
            if digest != nil || remapped.contains(row) { collected.map[row] = .some(guid.map { ($0, digest) }) }
        }
        return isWhole
    }

    /// The columns of a changed row that are read; nil for all. What others have in a column that is new here is not
    /// taken away by its being empty.
    private func changedColumns(of guid: UUIDBytes, _ draft: Draft, _ digest: RowDigest, _ values: [SQLValue]) -> Set<
        Int
    >? {
        guard let columns = draft.columns, let before = seen[guid] else { return nil }
        let changes = digest.changes(since: before, values)
        return columns.union(changes.indices.filter { changes[$0] })
    }

    private mutating func read(
        _ index: Int, of values: [SQLValue], _ row: RowKey, _ table: CapturedTable, into change: inout ObjectChange
    ) throws {
        let value = values[index]
        guard let form = forms[table.number]?[index] else { return }
        if let target = form.column.target.flatMap({ database.table(named: $0) }) {
            var link = Payload.null
            if let key = try database.key(referredToBy: value, in: target) {
                let referred = RowKey(table: target.number, key: key)
                if let guid = try guid(of: referred) {
                    link = .link(className: Array(target.name.utf8), key: .uuid(guid))
                } else {
                    collected.dangling.append(DanglingReference(target: referred, row: row, column: index))
                }
            }
            change.fields.append((form.column.name, link))
        } else if let payload = form.payload(value) {
            change.fields.append((form.column.name, payload))
        } else {
            collected.issues.append(CaptureConflict(valueIn: form.column.name, of: change.guid, in: table.number))
        }
    }

    /// Looks for references to rows that have lost their objects: where no foreign keys are checked, a row can go, or
    /// get another key, while others refer to it.
    private mutating func findReferences() throws {
        defer { vacated = [:] }
        for (number, left) in Dictionary(grouping: vacated.keys, by: \.table) {
            guard let target = tables[number] else { continue }
            for reference in try database.references(to: left.map(\.key), in: target) {
                guard let owner = try guid(of: reference.row) else { continue }
                if try guid(of: reference.target) != nil || vacated[reference.target] ?? false {
                    change(owner, in: reference.row.table, [reference.column])
                } else {
                    // The link of the object has gone with the one that it led to.
                    collected.dangling.append(reference)
                }
            }
        }
    }

    /// Marks rows to be read again whose references led to rows that had no objects then, and have now.
    private mutating func relink() throws {
        guard try database.db.value("SELECT 1 FROM sync_dangling LIMIT 1") != nil else { return }
        for (row, guid) in map where guid != nil {
            let found = try database.db.rows(
                "SELECT tbl, key, cid FROM sync_dangling WHERE target = ? AND target_key = ?",
                [.int(row.table), row.key])
            for place in found {
                guard let table = place[0].int, let column = place[2].int else { continue }
                guard let owner = try self.guid(of: RowKey(table: table, key: place[1])) else { continue }
                change(owner, in: table, [Int(column)])
            }
        }
    }

    private func isRekeyedLater() throws -> Bool {
        try database.db.value(
            "SELECT 1 FROM sync_history WHERE id > ? AND action = 2 AND key IS NOT was LIMIT 1",
            [.int(collected.newest)]) != nil
    }
}

import AnabranchCore

// What triggers of the application, or its foreign keys, have done to rows when those of objects were written: the
// device that has made the change has synced what its own triggers did (`Spec/Capture.md`, section 6).

extension Application {
    private static let roundsMax = 8

    /// Sets rows back that were made different from their objects, and removes those that were inserted.
    mutating func undoSideEffects(after top: Int64) throws {
        var newest = top
        var altered: Set<RowKey> = []
        for _ in 0..<Self.roundsMax {
            let last = try db.value("SELECT max(id) FROM sync_history")?.int ?? newest
            guard last > newest else { return }
            // Those that are there already, inserted or not.
            var rows: [RowKey] = []
            var isInserted: [RowKey: Bool] = [:]
            try db.run(
                "SELECT tbl, key, was, action FROM sync_history WHERE id > ? AND action > 0 ORDER BY id", [.int(newest)]
            ) { row in
                guard let table = row[0].int, let action = row[3].int else { return }
                for key in [row[1], row[2]] where key != .null {
                    let row = RowKey(table: table, key: key)
                    if isInserted[row] == nil {
                        rows.append(row)
                        isInserted[row] = action == 1
                    }
                }
            }
            newest = last
            for row in rows where !altered.contains(row) {
                if try !setBack(row, isInserted: isInserted[row] ?? false) { altered.insert(row) }
            }
        }
        outcome.isUnstable = true
    }

    /// Has rows that refer to one that goes no longer do so if their objects do not: no link leads to an erased object.
    mutating func detach(_ row: RowKey, _ table: CapturedTable) throws {
        guard let key = table.keyValues(row.key)?.first else { return }
        for other in database.tables {
            for column in other.properties where column.target == table.name {
                let found = try db.rows(
                    "SELECT \(other.keyText) FROM main.\(other.name.quoted) WHERE \(column.name.quoted) = ?", [key])
                for child in found.map({ RowKey(table: other.number, key: $0[0]) }) where child != row {
                    guard let guid = try database.guid(of: child) else { continue }
                    let dirty = DirtyObject(table: child.table, guid: guid)
                    let counts = outcome
                    guard let object = try object(dirty) else { continue }
                    _ = try attempt(dirty, object, resolves: false)
                    outcome.restore(counts)
                }
            }
        }
    }

    /// - Returns: false if triggers change the row again as soon as it is set back.
    private mutating func setBack(_ row: RowKey, isInserted: Bool) throws -> Bool {
        guard let table = database.table(row.table) else { return true }
        if let guid = try database.guid(of: row) {
            let dirty = DirtyObject(table: row.table, guid: guid)
            let counts = outcome
            if let reason = try attempt(dirty, try object(dirty), resolves: false) { try park([(dirty, reason)]) }
            let isWritten = outcome.updated > counts.updated
            outcome.restore(counts)
            return try !isWritten || !keepAltered(dirty)
        } else if isInserted, !busy.contains(row), table.rule.pulls.contains(.delete),
            let key = table.keyValues(row.key)
        {
            try db.run("DELETE FROM main.\(table.name.quoted) WHERE \(table.isRow)", table.rowValues(key))
        }
        return true
    }

    /// Keeps the values of an object that its row does not have.
    /// - Returns: false if it has all of them.
    private mutating func keepAltered(_ dirty: DirtyObject) throws -> Bool {
        guard let plan = plans[dirty.table], let object = try object(dirty),
            let row = try database.row(of: dirty.guid),
            let values = try database.readRow(row.key, of: plan.table)?.values
        else { return false }
        do {
            let lost = try changes(of: values, dirty, object, plan).new.map { index, value in
                let form = plan.forms[index]
                return (column: form.column.name, value: form.payload(value)?.text ?? "")
            }
            if lost.isEmpty { return false }
            try database.keep([CaptureConflict(.altered, lost, of: dirty.guid, in: dirty.table)])
            return true
        } catch is Refusal { return false } catch is IsBusy { return false }
    }
}

extension Application.Outcome {
    /// Does not count what was done since.
    fileprivate mutating func restore(_ counts: Self) {
        (inserted, updated, deleted) = (counts.inserted, counts.updated, counts.deleted)
    }
}

import AnabranchCore

// Rows that a constraint does not let in: one yields by the rule of its table, or waits (`Spec/Capture.md`, section 6).

extension Application {
    /// Has one of two rows yield that have the same unique value: the same one on each device, since keys of objects
    /// tell which was made earlier.
    mutating func resolve(
        _ error: SQLError, _ dirty: DirtyObject, _ object: StateObject, _ plan: Plan
    ) throws -> Bool {
        let table = plan.table
        guard error.isUnique, let rule = table.rule.yielding,
            let rival = try rival(of: dirty, object, plan, rule.column)
        else { return false }
        let isEarlier = dirty.guid.bytes.lexicographicallyPrecedes(rival.bytes)
        var change = ObjectChange(of: table, isEarlier ? rival : dirty.guid, .update)
        switch rule {
        case .null(let column):
            guard plan.property(column)?.isNullable ?? false else { return false }
            change.fields = [(column, .null)]
        case .suffix(let column):
            guard let property = plan.property(column),
                let loser = try self.object(DirtyObject(table: table.number, guid: change.guid)),
                case .string(let text) = loser.value(of: property)
            else { return false }
            change.fields = [(column, .string(try freeText(text, column, table)))]
        case .newest:
            let loser = isEarlier ? dirty.guid : rival
            change = ObjectChange(of: table, loser, .erase, try values(of: loser, plan))
        }
        outcome.writtenBack.append(change)
        for guid in Set([dirty.guid, change.guid]) {
            outcome.left.append(DirtyObject(table: table.number, guid: guid))
        }
        return true
    }

    /// The object of the row that has what another one is to have in the columns of an index.
    private mutating func rival(
        of dirty: DirtyObject, _ object: StateObject, _ plan: Plan, _ column: String
    ) throws -> UUIDBytes? {
        let table = plan.table
        for unique in table.shape.uniques where unique.columns.contains(where: { $0.name == column }) {
            let values = try unique.columns.compactMap { part -> SQLValue? in
                guard let index = table.properties.firstIndex(where: { $0.name == part.name }),
                    let property = plan.properties[index]
                else { return nil }
                return try value(object.value(of: property), index, plan, dirty, unless: nil)
            }
            guard values.count == unique.columns.count, !values.contains(.null) else { continue }
            let equal = unique.columns.map { "\($0.name.quoted) = ? COLLATE \($0.collation.quoted)" }
            let source = "main.\(table.name.quoted) WHERE \(equal.joined(separator: " AND "))"
            guard let key = try db.value("SELECT \(table.keyText) FROM \(source)", values),
                let rival = try database.guid(of: RowKey(table: table.number, key: key)), rival != dirty.guid
            else { continue }
            return rival
        }
        return nil
    }

    /// A text with the first number at its end that no row has.
    private func freeText(_ text: [UInt8], _ column: String, _ table: CapturedTable) throws -> [UInt8] {
        let taken = "SELECT 1 FROM main.\(table.name.quoted) WHERE \(column.quoted) = ?"
        var number = 2
        var new = text
        repeat {
            new = text + Array(" (\(number))".utf8)
            number += 1
        } while try db.value(taken, [.text(new)]) != nil
            || outcome.writtenBack.contains { $0.fields.contains { $0.value == .string(new) } }
        return new
    }

    /// The values of an object that a row would have.
    private func values(of guid: UUIDBytes, _ plan: Plan) throws -> [(property: String, value: Payload)] {
        guard let object = try object(DirtyObject(table: plan.table.number, guid: guid)) else { return [] }
        return plan.forms.compactMap { form in
            guard let property = plan.property(form.column.name),
                let value = form.value(object.value(of: property)).flatMap(form.payload)
            else { return nil }
            return (form.column.name, value)
        }
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

    func clearPending(_ done: Set<DirtyObject>) throws {
        guard try db.value("SELECT 1 FROM sync_pending LIMIT 1") != nil else { return }
        for dirty in done where outcome.waiting[dirty] == nil {
            try db.run("DELETE FROM sync_pending WHERE guid = ?", [.blob(dirty.guid.bytes)])
        }
    }
}

extension Application.Plan {
    /// The property of a column.
    fileprivate func property(_ column: String) -> Property? {
        table.properties.firstIndex { $0.name == column }.flatMap { properties[$0] }
    }
}

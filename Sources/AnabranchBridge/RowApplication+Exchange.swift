#if canImport(CLibPQ)
import AnabranchCore
import AnabranchPostgresWire

// Rows that exchange unique values: PostgreSQL checks each one as it is written, so none of them can be the first
// (`Spec/Bridge.md`, section 5).

extension RowApplication {
    /// The most groups that are tried: each is the one before without what cannot be written in it.
    private static let groupsMax = 8

    private struct Undo: Error {}

    /// Writes rows that were in each other's way: they give up first the unique values that they are not going to have.
    /// - Returns: those that are still not written.
    func exchange(
        _ failed: [(row: Row, reason: String)], _ form: Form, _ db: PostgresConnection, _ outcome: inout Outcome
    ) throws -> [(row: Row, reason: String)] {
        var group = failed.map(\.row).filter { $0.json != nil }
        if group.count < 2 || keepsValues { return failed }
        guard let vacate = form.table.vacate(form.indices, try database.vacatedColumns(of: form.table)) else {
            return failed
        }
        for _ in 0..<Self.groupsMax where group.count > 1 {
            var rest: Set<ExactString> = [], counts = Outcome()
            do {
                try database.savepoint(db) {
                    var batch: [UInt8] = []
                    JSONText.append(array: group.compactMap(\.json), to: &batch)
                    try db.query(vacate, [.utf8(batch)])
                    rest = Set(try write(group, form, db, &counts).map(\.row.key))
                    if !rest.isEmpty { throw Undo() }
                }
                outcome.add(counts)
                let written = Set(group.map(\.key))
                return failed.filter { !written.contains($0.row.key) }
            } catch is Undo {} catch let error as PostgresError where Self.isOfRow(error) { return failed }
            group.removeAll { rest.contains($0.key) }
        }
        return failed
    }
}

extension BridgeDatabase {
    /// The columns of unique indexes that can hold values for a while that no other row has, with such values in SQL. A
    /// NULL would reach rows that refer to a column, and stay there.
    fileprivate func vacatedColumns(of table: BridgedTable) throws -> [ExactString: String] {
        let found = try db.query(
            """
            SELECT DISTINCT a.attname, a.attnotnull OR t.typnotnull OR EXISTS (SELECT FROM pg_constraint
              WHERE contype = 'f' AND confrelid = i.indrelid AND a.attnum = ANY (confkey)) FROM pg_index i
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
            JOIN pg_type t ON t.oid = a.atttypid WHERE i.indrelid = $1::oid AND i.indisunique
            """, [.text(table.oid)])
        var columns: [ExactString: String] = [:]
        for row in 0..<found.count {
            guard let name = found[row, 0], let column = table.columns.first(where: { $0.name.hasBytes(of: name) })
            else { continue }
            columns[ExactString(name)] = found[row, 1] == "f" ? "NULL" : column.unused(in: table)
        }
        return columns
    }
}

extension BridgedTable {
    /// Has the rows of a batch hold other values in some columns in which they are not as their objects; nil if there
    /// are none.
    fileprivate func vacate(_ indices: [Int], _ values: [ExactString: String]) -> String? {
        let vacated = indices.compactMap { index in
            values[ExactString(columns[index].name)].map { (index: index, value: $0) }
        }
        if vacated.isEmpty { return nil }
        let settings = vacated.map { index, value in
            let name = columns[index].name.quoted
            return "\(name) = CASE WHEN \(differs(index)) THEN \(value) ELSE t.\(name) END"
        }
        return """
            UPDATE \(path) t SET \(settings.joined(separator: ", "))
            FROM (SELECT v.*, row_number() OVER () AS number FROM \(rows(vacated.map(\.index)))) v
            WHERE t.\(key.name.quoted) = v.k AND (\(vacated.map { differs($0.index) }.joined(separator: " OR ")))
            """
    }
}

extension BridgedTable.Column {
    /// A value in SQL that no row has; nil for a type that has none which all constraints let in.
    fileprivate func unused(in table: BridgedTable) -> String? {
        switch (kind, type) {
        case _ where isArray: nil
        case (.text, _): "md5(random()::text)::\(type)"
        case (.uuid, _): "gen_random_uuid()"
        case (.int, "smallint"): unused(to: Int64(Int16.max), in: table)
        case (.int, "integer"): unused(to: Int64(Int32.max), in: table)
        case (.int, "bigint"): unused(to: .max, in: table)
        default: nil
        }
    }

    /// A number above those that are there: another one for each row of a batch. If there is no room, one below them.
    private func unused(to greatest: Int64, in table: BridgedTable) -> String {
        func found(_ function: String) -> String {
            "(SELECT \(function)(u.\(name.quoted)) FROM \(table.path) u)"
        }
        let isRoom = "\(found("max")) <= \(greatest - Int64(RowApplication.waitingObjects))"
        return "(CASE WHEN \(isRoom) THEN \(found("max")) + v.number ELSE \(found("min")) - v.number END)::\(type)"
    }
}
#endif

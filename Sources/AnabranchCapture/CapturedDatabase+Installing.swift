import AnabranchCore

// Triggers and side tables are made, tried, dropped and removed (`Spec/Capture.md`, section 2).

extension CapturedDatabase {
    // MARK: Installing

    /// The names of the tables that could be captured.
    public func tableNames() throws -> [String] {
        try translating {
            try db.rows(
                """
                SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
                AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'sync\\_%' ESCAPE '\\' ORDER BY name
                """
            ).compactMap { $0[0].string }
        }
    }

    /// Installs triggers and side tables, and notes the rows that are there. When it throws before the first report of
    /// progress, nothing is changed; afterwards it goes on where it was when it is called again.
    ///
    /// - Parameters:
    ///   - names: the tables.
    ///   - rules: the rules of tables, by name.
    ///   - progress: is called after each transaction with the number of rows noted so far.
    /// - Returns: notes for the person who installs, such as generated columns that are left out.
    @discardableResult public func install(
        _ names: [String], rules: [String: TableRule] = [:], progress: (Int) throws -> Void = { _ in }
    ) throws -> [String] {
        try translating {
            guard !db.isReadOnly else { throw CaptureError(.unreadable, "\(path): the database cannot be written") }
            if let stray = rules.keys.first(where: { !names.contains($0) }) {
                throw CaptureError(.badRule, "a rule for a table that is not captured", table: stray)
            }
            let notes = try db.transaction { try makeAll(names, rules) }
            try recordRows(progress)
            return notes
        }
    }

    private func makeAll(_ names: [String], _ rules: [String: TableRule]) throws -> [String] {
        if try !isInstalled {
            if let taken = try db.value("SELECT name FROM sqlite_schema WHERE name LIKE 'sync\\_%' ESCAPE '\\'")?.string
            {
                throw CaptureError(.notCapturable, "the database has a '\(taken)' of its own")
            }
            try db.execute(Self.sideTables)
            try set("collected", to: .int(0))
            // The newest entry always stays, so that no number is given twice.
            try db.run("INSERT INTO sync_history (id, action) VALUES (0, 0)")
        }
        guard try !isPaused else { throw CaptureError(.paused, "capture is paused: resume it first") }
        var added: [CapturedTable] = []
        var number = try db.value("SELECT coalesce(max(id), 0) FROM sync_table")?.int ?? 0
        for name in names {
            if let known = (tables + added).first(where: { $0.name.folded == name.folded }) {
                guard try rules[name].map({ try $0.checked(known.shape, in: db) == known.rule }) ?? true else {
                    let reason = "it is captured with another rule: uninstall it first"
                    throw CaptureError(.badRule, reason, table: known.name)
                }
                continue
            }
            let shape = try TableShape(name, in: db)
            let rule = try (rules[name] ?? TableRule()).checked(shape, in: db)
            if rule.pulls.contains(.insert), try has("Z_PRIMARYKEY") && has("Z_METADATA") {
                let reason = "Core Data counts its keys, and fails where others insert: let 'pull' have no insert"
                throw CaptureError(.notCapturable, reason, table: shape.name)
            }
            number += 1
            added.append(CapturedTable(number: number, shape: shape, rule: rule))
        }
        if let error = broken.first { throw error }
        let all = try Self.linked(tables + added)
        for table in all where added.contains(where: { $0.number == table.number }) {
            try db.run(
                "INSERT INTO sync_table (id, name, columns, rule) VALUES (?, ?, ?, ?)",
                [
                    .int(table.number), SQLValue(table.name), SQLValue(columnsText(table)),
                    SQLValue(table.rule.json.encoded),
                ])
            try addGuids(to: table, among: all, isNew: true)
            try makeTriggers(of: table)
            try testTriggers(of: table)
            try set("noting:\(table.number)", to: .null)
            if !table.rule.matches.isEmpty { try awaitMatching(of: table) }
        }
        try load()
        let generated = added.flatMap { table in
            table.shape.generated.map { "table \(table.name), column \($0): generated, so it is not synced" }
        }
        guard try !added.isEmpty && has("grdb_migrations") else { return generated }
        return generated + ["an application of GRDB with eraseDatabaseOnSchemaChange erases a database with new tables"]
    }

    private func has(_ table: String) throws -> Bool {
        try db.value("SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?", [SQLValue(table)]) != nil
    }

    func columnsText(_ table: CapturedTable) -> String {
        JSONValue.array(table.properties.map { .string($0.name) }).encoded
    }

    func makeTriggers(of table: CapturedTable) throws {
        for trigger in table.triggers {
            try db.execute("DROP TRIGGER IF EXISTS main.\(trigger.name.quoted)")
            try db.execute(trigger.sql)
        }
    }

    /// Fires the triggers with a row that is there, and undoes it. An application's own constraints may forbid it.
    private func testTriggers(of table: CapturedTable) throws {
        let name = "main.\(table.name.quoted)"
        let columns = table.shape.columns.map(\.name.quoted)
        let list = columns.joined(separator: ", ")
        let values = columns.map { _ in "?" }.joined(separator: ", ")
        let settings = columns.map { "\($0) = \($0)" }.joined(separator: ", ")
        do {
            try db.compile("INSERT INTO \(name) (\(list)) VALUES (\(values))")
            try db.compile("UPDATE \(name) SET \(settings)")
            try db.compile("DELETE FROM \(name)")
            struct Undo: Error {}
            do {
                try db.savepoint {
                    guard let key = try db.value("SELECT \(table.keyText) FROM \(name) WHERE \(table.hasKey) LIMIT 1"),
                        let row = table.keyValues(key)
                    else { return }
                    try db.run("UPDATE \(name) SET \(settings) WHERE \(table.isRow)", table.rowValues(row))
                    let copy = "SELECT \(list) FROM \(name) WHERE \(table.isRow)"
                    try db.run("INSERT OR REPLACE INTO \(name) (\(list)) \(copy)", table.rowValues(row))
                    try db.run("DELETE FROM \(name) WHERE \(table.isRow)", table.rowValues(row))
                    let seen = try db.rows(
                        "SELECT DISTINCT action FROM sync_history WHERE tbl = ?", [.int(table.number)])
                    guard Set([1, 3, 4]).isSubset(of: seen.compactMap { $0[0].int }) else {
                        throw CaptureError(.notCapturable, "its triggers do not fire", table: table.name)
                    }
                    throw Undo()
                }
            } catch is Undo {} catch let error as SQLError where error.isConstraint && !error.isFatal {}
        } catch let error as SQLError {
            let reason = "writing to it fails with what this program has: \(error)"
            throw CaptureError(.notCapturable, reason, table: table.name)
        }
    }

    /// Writes an entry for each row that was there before, in the order of keys.
    private func recordRows(_ progress: (Int) throws -> Void) throws {
        var count = 0
        for table in tables {
            let name = "noting:\(table.number)"
            while let last = try state(name) {
                let noted = try db.transaction { try recordRows(of: table, after: last, state: name) }
                count += noted
                try progress(count)
            }
        }
    }

    private func recordRows(of table: CapturedTable, after last: SQLValue, state name: String) throws -> Int {
        let rest = table.rows(after: last == .null ? nil : last)
        let before = try db.value("SELECT max(id) FROM sync_history") ?? .int(0)
        try db.run(
            """
            INSERT INTO sync_history (tbl, key, action) SELECT \(table.number), \(table.keyText), 5
            FROM main.\(table.name.quoted) WHERE \(rest.condition) ORDER BY \(table.keyList) LIMIT \(Self.batchRows)
            """, rest.values)
        let noted = db.changes
        let newest = try db.value("SELECT key FROM sync_history WHERE id > ? ORDER BY id DESC LIMIT 1", [before])
        try set(name, to: noted < Self.batchRows ? nil : newest)
        return noted
    }

    // MARK: Pausing and removing

    /// Removes the triggers, so that the schema can be changed; identities stay.
    public func pause() throws {
        try translating {
            try checkInstalled()
            try db.transaction {
                try dropTriggers()
                try set("paused", to: .int(1))
            }
        }
    }

    /// Installs the triggers again. The next pass finds changes made during the pause by comparing.
    public func resume() throws {
        try translating {
            try checkInstalled()
            guard try isPaused else { return }
            try db.transaction {
                try load()
                if let error = broken.first { throw error }
                for table in tables { try renew(table) }
                try set("paused", to: nil)
            }
            checkedSchema = nil
        }
    }

    /// Removes triggers and side tables: the database has the schema that it had before.
    public func uninstall() throws {
        try translating {
            guard try isInstalled else { return }
            db.forgetStatements()
            try db.transaction {
                try dropTriggers()
                for row in try db.rows("SELECT id FROM sync_table") { try dropGuids(of: row[0].int) }
                for name in Self.sideTableNames { try db.execute("DROP TABLE IF EXISTS main.\(name)") }
            }
            try load()
        }
    }

    /// Stops capturing some tables, such as those that the application has dropped or renamed. Their objects stay.
    /// - Throws: `CaptureError` if one of them is not captured, or if another table refers to it; nothing is changed.
    public func uninstall(_ names: [String]) throws {
        try translating {
            try checkInstalled()
            db.forgetStatements()
            try db.transaction {
                for name in names {
                    let found = try db.value(
                        "SELECT id FROM sync_table WHERE name = ? COLLATE NOCASE", [SQLValue(name)])
                    guard let number = found else {
                        throw CaptureError(.notInstalled, "it is not captured", table: name)
                    }
                    try dropTriggers(of: name)
                    try dropGuids(of: number.int)
                    for side in ["sync_row", "sync_pending", "sync_conflict", "sync_step"] {
                        try db.run("DELETE FROM \(side) WHERE tbl = ?", [number])
                    }
                    try db.run("DELETE FROM sync_dangling WHERE ?1 IN (tbl, target)", [number])
                    // The newest entry stays, whatever it records.
                    try db.run("UPDATE sync_history SET action = 0 WHERE tbl = ?", [number])
                    for state in ["noting", "compare", "restored", "match"] {
                        try set("\(state):\(number.int ?? 0)", to: nil)
                    }
                    try db.run("DELETE FROM sync_table WHERE id = ?", [number])
                }
                try load()
                if let error = broken.first { throw error }
            }
            checkedSchema = nil
        }
    }

    private func dropTriggers(of name: String? = nil) throws {
        let ours = try db.rows(
            """
            SELECT name FROM sqlite_schema, (SELECT name AS captured FROM sync_table)
            WHERE type = 'trigger' AND name IN (\(CapturedTable.triggerEndings.map { "'sync_' || captured || '_\($0)'" }
                .joined(separator: ", "))) AND captured = coalesce(?, captured) COLLATE NOCASE
            """, [name.map { SQLValue($0) } ?? .null])
        for name in ours.compactMap({ $0[0].string }) { try db.execute("DROP TRIGGER main.\(name.quoted)") }
    }
}

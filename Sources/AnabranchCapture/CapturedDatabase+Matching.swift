import AnabranchCore

// Rows that were there before the first exchange get the objects that they are, if there are any (`Spec/Capture.md`,
// section 3): before others get new ones, which would double them.

extension CapturedDatabase {
    /// True if rows are still to be matched with objects: until they are, none gets a new object.
    var isMatching: Bool { get throws { try db.value("SELECT 1 FROM sync_state WHERE name LIKE 'match:%'") != nil } }

    /// Has the next pass match the rows of a table.
    func awaitMatching(of table: CapturedTable) throws { try set("match:\(table.number)", to: .int(1)) }

    /// Has the next pass match rows whose objects this database may have forgotten.
    func awaitMatching() throws {
        for table in tables where !table.rule.matches.isEmpty { try awaitMatching(of: table) }
    }

    /// The pairs that there would be, and what would be alone.
    func matches(with state: ObjectGraph, rowsWin: Bool) throws -> [CaptureMatches] {
        try checkInstalled()
        try db.transaction("DEFERRED") { try load() }
        if let error = broken.first { throw error }
        let matching = Matching(self, tables.filter { !$0.rule.matches.isEmpty }, state, rowsWin: rowsWin)
        try matching.find()
        let found = try matching.plans.map { plan in
            var matches = try matching.count(plan)
            try matching.forEachBatch(of: plan.table) { batch in
                for (row, guid) in batch {
                    if let pair = try matching.compare(row, guid, plan) { matches.add(pair.shown(in: plan)) }
                }
            }
            return matches
        }
        try matching.end()
        return found
    }

    /// Rows that were matched.
    struct Matched {
        var tables: [CaptureMatches] = []
        var objects: [DirtyObject] = []
        /// False if the application has written rows meanwhile that would be matched: what it has written is collected
        /// first.
        var isWhole = true
    }

    /// Gives rows the objects that they are.
    func match(with state: ObjectGraph, rowsWin: Bool) throws -> Matched {
        let tables = try tables.filter { try self.state("match:\($0.number)") != nil }
        let matching = Matching(self, tables, state, rowsWin: rowsWin)
        try matching.find(checkSchema)
        var matched = Matched()
        var busy: Set<RowKey> = [], newest = try self.state("collected")?.int ?? 0
        for plan in matching.plans {
            var matches = try matching.count(plan)
            try matching.forEachBatch(of: plan.table) { batch in
                try db.transaction {
                    try checkSchema()
                    busy.formUnion(try rowsWritten(after: newest))
                    for (row, guid) in batch {
                        guard !busy.contains(row) else {
                            matched.isWhole = false
                            continue
                        }
                        guard let pair = try matching.compare(row, guid, plan) else { continue }
                        try map(pair, plan)
                        matches.add(pair.shown(in: plan))
                        matched.objects.append(DirtyObject(table: row.table, guid: guid))
                    }
                    // If this process ends before the rows equal their objects, the next one finishes the work.
                    try set("applied", to: nil)
                    newest = try db.value("SELECT max(id) FROM sync_history")?.int ?? newest
                }
            }
            matched.tables.append(matches)
        }
        try matching.end()
        return matched
    }

    /// The rows that entries after one tell of.
    private func rowsWritten(after id: Int64) throws -> [RowKey] {
        try db.rows("SELECT tbl, key, was FROM sync_history WHERE id > ? AND action > 0", [.int(id)]).flatMap { row in
            [row[1], row[2]].compactMap { key in row[0].int.map { RowKey(table: $0, key: key) } }
        }
    }

    /// Gives a row its object. The values that the object is to have count as ones that the row has got since.
    private func map(_ pair: Matching.Pair, _ plan: Matching.Plan) throws {
        let seen = pair.values.enumerated().map { place, value in pair.fromRow.contains(place) ? .null : value }
        try map(pair.row, to: pair.guid, seen: RowDigest(seen, of: plan.table))
        // References to it become links as well.
        let row = [.int(pair.row.table), pair.row.key, pair.row.key]
        try db.run("INSERT INTO sync_history (tbl, key, action, was) VALUES (?, ?, 2, ?)", row)
        guard !pair.lost.isEmpty else { return }
        try keep([CaptureConflict(.matched, pair.lost, of: pair.guid, in: pair.row.table)])
    }

    /// Has all other rows get new objects.
    func endMatching() throws {
        try db.transaction {
            for table in tables {
                try set("match:\(table.number)", to: nil)
                try set("compare:\(table.number)", to: .int(1))
            }
        }
    }
}

extension Matching.Pair {
    fileprivate func shown(in plan: Matching.Plan) -> CaptureMatches.Pair {
        CaptureMatches.Pair(
            key: row.key.string ?? "\(row.key.int ?? 0)", object: Hex.encode(guid.bytes),
            different: different.map { plan.columns[$0].form.column.name })
    }
}

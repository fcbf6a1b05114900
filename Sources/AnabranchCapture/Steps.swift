import AnabranchCore

// What is collected changes the replica and the map, which are in two files. The change to the map is noted first,
// with the time that the transaction of the replica is going to have; when both are done, the note goes. So after a
// crash the time of the replica's last transaction says which half is missing (`Spec/Capture.md`, section 5).

extension CapturedDatabase {
    /// Records what is about to be made of entries.
    /// - Parameters:
    ///   - conflicts: the values that are given up.
    ///   - time: the time of the replica's transaction, which no earlier one has.
    func beginStep(_ collected: Collected, _ conflicts: [CaptureConflict] = [], at time: ChangesetTime) throws {
        try db.transaction {
            try db.run("DELETE FROM sync_step")
            for (row, entry) in collected.map {
                try db.run(
                    "INSERT INTO sync_step (tbl, key, guid, seen) VALUES (?, ?, ?, ?)",
                    [
                        .int(row.table), row.key, entry.map { .blob($0.guid.bytes) } ?? .null,
                        entry?.seen.map { .blob($0.bytes) } ?? .null,
                    ])
            }
            for reference in collected.dangling {
                try db.run(
                    "INSERT OR IGNORE INTO sync_dangling (target, target_key, tbl, key, cid) VALUES (?, ?, ?, ?, ?)",
                    [
                        .int(reference.target.table), reference.target.key, .int(reference.row.table),
                        reference.row.key, .int(Int64(reference.column)),
                    ])
            }
            // Should this process end before they are set back, the next one does it.
            if !collected.refused.isEmpty { try set("applied", to: nil) }
            let lines = conflicts.map(\.json)
            try set("step conflicts", to: lines.isEmpty ? nil : SQLValue(JSONValue.array(lines).encoded))
            try set("step until", to: .int(collected.newest))
            try set("step time", to: .int(Int64(clamping: time.rawValue)))
        }
    }

    /// True if the replica's last transaction is the one that was noted.
    func isStepTime(_ lastWritten: ChangesetTime) throws -> Bool {
        try state("step time")?.int == Int64(clamping: lastWritten.rawValue)
    }

    /// The entries of a transaction of the replica that is made of none.
    func noEntries() throws -> Collected { Collected(newest: try state("collected")?.int ?? 0) }

    /// Carries out what was noted, or forgets it if the replica has not made the transaction.
    /// - Parameter lastWritten: the time of the replica's last transaction: an older one if this has changed nothing.
    func endStep(isWritten: Bool, _ lastWritten: ChangesetTime) throws {
        guard let newest = try state("step until") else { return }
        try db.transaction {
            if isWritten {
                try db.run("DELETE FROM sync_row WHERE (tbl, key) IN (SELECT tbl, key FROM sync_step)")
                try db.run("DELETE FROM sync_row WHERE guid IN (SELECT guid FROM sync_step WHERE guid IS NOT NULL)")
                try db.run("INSERT INTO sync_row SELECT tbl, key, guid, seen FROM sync_step WHERE guid IS NOT NULL")
                try db.run(
                    """
                    DELETE FROM sync_dangling
                    WHERE (target, target_key) IN (SELECT tbl, key FROM sync_step WHERE guid IS NOT NULL)
                    OR (tbl, key) IN (SELECT tbl, key FROM sync_step WHERE guid IS NULL)
                    """)
                for table in tables { try writeGuids(of: table, "sync_step") }
                try keepNotedConflicts()
                try set("collected", to: newest)
                try set("written", to: .int(Int64(clamping: lastWritten.rawValue)))
            }
            try forgetStep()
        }
    }

    private func forgetStep() throws {
        try db.run("DELETE FROM sync_step")
        for name in ["step until", "step time", "step conflicts"] { try set(name, to: nil) }
    }

    private func keepNotedConflicts() throws {
        guard let noted = try state("step conflicts")?.string else { return }
        try keep(try JSONValue(parsing: noted.utf8).array?.compactMap { CaptureConflict($0) } ?? [])
    }

    /// Looks for rows that were taken away by an index that triggers cannot name, in tables that have new entries.
    func sweep() throws {
        for table in tables where table.shape.needsSweep {
            try db.transaction {
                let cursor = try state("collected") ?? .int(0)
                let hasNews = try db.value(
                    "SELECT 1 FROM sync_history WHERE id > ? AND tbl = ? LIMIT 1", [cursor, .int(table.number)])
                if hasNews != nil { try recordMissingRows(of: table) }
            }
        }
    }

    /// Keeps values that are given up; the oldest ones go.
    func keep(_ conflicts: [CaptureConflict]) throws {
        for conflict in conflicts {
            try db.run(
                "INSERT INTO sync_conflict (guid, tbl, kind, lost, at) VALUES (?, ?, ?, ?, unixepoch())",
                [
                    .blob(conflict.guid.bytes), .int(conflict.table), SQLValue(conflict.kind.rawValue),
                    SQLValue(conflict.lost),
                ])
        }
        try db.run("DELETE FROM sync_conflict WHERE id <= (SELECT max(id) FROM sync_conflict) - \(Self.keptConflicts)")
    }

    private static let keptConflicts = 10_000

    /// Forgets the replica, and has the rows collected again whose entries the server has not acknowledged. It may
    /// have their objects all the same: these keep their keys.
    /// - Parameter hasObject: true if there is an object of a table with a key.
    /// - Throws: `CaptureError` if most of the other rows have no object: it is hardly the file that they came from.
    func replaceReplica(_ hasObject: (CapturedTable, UUIDBytes) throws -> Bool) throws {
        try db.transaction {
            var rowCount = 0, missingCount = 0
            let waiting = "(tbl, key) IN (SELECT tbl, key FROM sync_history WHERE action > 0)"
            try db.run("SELECT tbl, guid FROM sync_row WHERE NOT \(waiting)") { row in
                guard let table = tables.first(where: { .int($0.number) == row[0] }), let guid = row[1].guid else {
                    return
                }
                rowCount += 1
                if try !hasObject(table, guid) { missingCount += 1 }
            }
            guard missingCount <= rowCount / 2 else {
                throw CaptureError(
                    .replicaMismatch,
                    """
                    \(path): its replica is missing, and \(missingCount) of the \(rowCount) rows that the server had \
                    have no object in the file, and would be deleted: if it is the right file, uninstall capture \
                    and install it again, and all rows are sent as new ones
                    """)
            }
            let collected = try state("collected") ?? .int(0)
            try db.run(
                """
                INSERT INTO sync_history (tbl, key, action)
                SELECT tbl, key, CASE WHEN max(action IN (1, 5, 6)) THEN 6 ELSE 5 END FROM sync_history
                WHERE id <= ? AND action > 0 AND (tbl, key) IN (SELECT tbl, key FROM sync_row) GROUP BY tbl, key
                """, [collected])
            try forgetStep()
            for name in ["written", "applied", "replica"] { try set(name, to: nil) }
            try awaitMatching()
        }
    }

    /// Removes entries that the server has acknowledged, but for the newest one, so that no number is given twice.
    func removeEntries(through id: Int64) throws {
        try db.transaction {
            try db.run("DELETE FROM sync_history WHERE id <= ? AND id < (SELECT max(id) FROM sync_history)", [.int(id)])
            try db.run("UPDATE sync_history SET action = 0 WHERE id <= ?", [.int(id)])
        }
    }
}

// MARK: - Applied objects

extension CapturedDatabase {
    var pendingCount: Int { get throws { Int(clamping: try db.value("SELECT count(*) FROM sync_pending")?.int ?? 0) } }

    /// The objects that wait.
    func pendingObjects() throws -> [DirtyObject] {
        try db.rows("SELECT tbl, guid FROM sync_pending").compactMap { row in
            guard let table = row[0].int, let guid = row[1].guid else { return nil }
            return DirtyObject(table: table, guid: guid)
        }
    }

    /// Writes an entry for each row that others have referred to before it came, so that they are collected.
    func recordReferred(_ rows: [RowKey]) throws {
        guard try db.value("SELECT 1 FROM sync_dangling LIMIT 1") != nil else { return }
        for row in rows {
            try db.run(
                """
                INSERT INTO sync_history (tbl, key, action, was) SELECT target, target_key, 2, target_key
                FROM sync_dangling WHERE target = ? AND target_key = ? LIMIT 1
                """, [.int(row.table), row.key])
        }
    }

    /// The marks of how far this database has come with the replica: a backup has others, or no other rows.
    var marks: [SQLValue?] { get throws { try ["written", "applied", "replica"].map { try state($0) } } }

    /// Records that the rows are those of the objects of a version of the replica.
    func recordApplied(_ version: ClientVersion, of replica: SQLValue?) throws {
        let number = SQLValue.int(Int64(clamping: version.rawValue))
        guard try state("applied") != number || state("replica") != replica else { return }
        try db.transaction {
            try set("applied", to: number)
            try set("replica", to: replica)
        }
    }
}

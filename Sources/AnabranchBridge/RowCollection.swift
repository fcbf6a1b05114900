#if canImport(CLibPQ)
import AnabranchCapture
import AnabranchCore
import AnabranchPostgresWire

/// A change to the object of one row.
struct RowChange: Sendable {
    enum Kind: Sendable {
        /// The row has gone.
        case erase
        /// Columns of the row have these values.
        case put([(column: String, value: JSONValue)], isNew: Bool)
    }

    let className: String
    let key: String
    let kind: Kind
}

/// The changes that entries of the history mean, and how far these entries were read (`Spec/Bridge.md`, section 4).
struct RowBatch: Sendable {
    var changes: [RowChange] = []
    /// The values that no object can hold.
    var conflicts: [RowConflict] = []
    /// The moment up to which all entries are read in the end.
    var target = ""
    /// The last entry that was read; nil if all up to the moment were.
    var position: String?
}

extension BridgeDatabase {
    private static let batchEntries = 2_000
    private static let batchBytes = 4 << 20

    /// The changes that come next; nil if there are none.
    func nextBatch() throws -> RowBatch? {
        var limit = Self.batchEntries
        while true {
            let batch = try transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") { _ in
                try read(limit)
            }
            if let batch { return batch.batch }
            limit = max(1, limit / 8)
        }
    }

    /// The columns that have changed in a row; nil for all.
    private struct Draft {
        var columns: Set<ExactString>?
        var hasGone = false
    }

    /// - Returns: nil if the rows are too large to be read together.
    private func read(_ limit: Int) throws -> (batch: RowBatch?, Void)? {
        let db = try db
        let collected = try state("collected") ?? "3:3:"
        let known = try state("target"), position = try state("position") ?? "0"
        let target = try known ?? db.query("SELECT pg_current_snapshot()")[0, 0] ?? ""
        let entries = try db.query(
            """
            SELECT id, tbl, action, key, to_json(cols) FROM anabranch.history WHERE id > $1::bigint
            AND NOT pg_visible_in_snapshot(xid, $2::pg_snapshot) AND pg_visible_in_snapshot(xid, $3::pg_snapshot)
            ORDER BY id LIMIT \(limit)
            """, [.text(position), .text(collected), .text(target)])
        if entries.count == 0 { return (known == nil ? nil : RowBatch(target: target), ()) }
        var drafts: [String: [ExactString: Draft]] = [:]
        for row in 0..<entries.count {
            guard let table = entries[row, 1], let key = entries[row, 3] else { continue }
            Self.take(entries[row, 2], entries.bytes(row, 4), into: &drafts[table, default: [:]][ExactString(key)])
        }
        try checkShape(of: drafts.keys)
        var batch = RowBatch(target: target)
        if entries.count == limit { batch.position = entries[limit - 1, 0] }
        var bytes = 0
        for table in tables {
            guard let drafts = drafts[table.oid] else { continue }
            guard try read(drafts, of: table, into: &batch, &bytes, limit > 1 ? Self.batchBytes : .max) else {
                return nil
            }
        }
        return (batch, ())
    }

    private static func take(_ action: String?, _ columns: [UInt8]?, into draft: inout Draft?) {
        var known = draft ?? Draft(columns: [])
        switch action {
        case "U":
            let names = columns.flatMap { try? JSONValue(parsing: $0) }?.array?.compactMap(\.string)
            if let names { known.columns?.formUnion(names.map { ExactString($0) }) } else { known.columns = nil }
        case "D": known.hasGone = true
        default: known.columns = nil
        }
        // A row that has gone and come again is a new one.
        if known.hasGone { known.columns = nil }
        draft = known
    }

    /// - Returns: false if the rows are too large.
    private func read(
        _ drafts: [ExactString: Draft], of table: BridgedTable, into batch: inout RowBatch, _ bytes: inout Int,
        _ bytesMax: Int
    ) throws -> Bool {
        var left = Set(drafts.keys)
        try db.forEachRow(table.selectRows, [.array(drafts.keys.map(\.text))]) { row in
            guard let key = row[0, 0].map({ ExactString($0) }), let draft = drafts[key], bytes <= bytesMax else {
                return
            }
            left.remove(key)
            var values: [(column: String, value: JSONValue)] = []
            for (index, column) in table.columns.enumerated() {
                guard draft.columns?.contains(ExactString(column.name)) ?? true else { continue }
                let text = row.bytes(0, index + 1)
                bytes += text?.count ?? 0
                if bytes > bytesMax { return }
                do throws(JSONError) {
                    let value = try text.map { text throws(JSONError) in
                        try JSONValue(parsing: text, depthMax: ExportLine.depthMax)
                    }
                    values.append((column.name, value ?? .null))
                } catch {
                    // A column of the type `json` can have a name twice, for example.
                    let lost = "\(column.name): \(error.reason): \(String(decoding: text ?? [], as: UTF8.self))"
                    batch.conflicts.append(
                        RowConflict(className: table.className, key: key.text, kind: "value", lost: lost))
                }
            }
            if draft.columns == nil || !values.isEmpty {
                let kind = RowChange.Kind.put(values, isNew: draft.columns == nil)
                batch.changes.append(RowChange(className: table.className, key: key.text, kind: kind))
            }
        }
        if bytes > bytesMax { return false }
        for key in left {
            batch.changes.append(RowChange(className: table.className, key: key.text, kind: .erase))
        }
        return true
    }

    // MARK: Steps

    // What is collected changes the replica and the state of the bridge, which are in two places. The new state is
    // noted first, with the time that the transaction of the replica is going to have. So after a crash the time of the
    // replica's last transaction says which half is missing.

    /// Records what is about to be done.
    ///
    /// - Parameters:
    ///   - batch: the entries that are collected; nil for another transaction of the replica.
    ///   - conflicts: what they lose.
    func beginStep(
        _ batch: RowBatch?, _ conflicts: [RowConflict], at time: ChangesetTime, as holder: String, silence: Double
    ) throws {
        try transaction { _ in
            try hold(as: holder, silence: silence)
            try set("step time", to: "\(time.rawValue)")
            try set("step target", to: batch?.target)
            try set("step position", to: batch?.position)
            let lines = conflicts.map { JSONValue.array([$0.className, $0.key, $0.kind, $0.lost].map { .string($0) }) }
            try set("step conflicts", to: lines.isEmpty ? nil : JSONValue.array(lines).encoded)
        }
    }

    /// Takes over what was noted, or forgets it if the replica has not made the transaction.
    /// - Parameter lastWritten: the time of the replica's last transaction.
    func endStep(isWritten: Bool, _ lastWritten: ChangesetTime) throws {
        try transaction { _ in
            guard try state("step time") != nil else { return }
            if isWritten {
                if let target = try state("step target") {
                    let position = try state("step position")
                    if position == nil { try set("collected", to: target) }
                    try set("target", to: position == nil ? nil : target)
                    try set("position", to: position)
                }
                try recordConflicts()
                try set("written", to: "\(lastWritten.rawValue)")
            }
            for name in Self.stepNames { try set(name, to: nil) }
        }
    }

    private static let stepNames = ["step time", "step target", "step position", "step conflicts"]

    /// Has the entries since the last one that the server has confirmed collected again.
    func collectAgain() throws {
        try transaction { db in
            try db.query(
                """
                UPDATE anabranch.state SET value = (SELECT value FROM anabranch.state WHERE name = 'acknowledged')
                WHERE name = 'collected'
                """)
            for name in ["target", "position", "applied"] + Self.stepNames {
                try set(name, to: nil)
            }
        }
    }

    /// Forgets the entries, which belong to another past of the database.
    func forgetEntries() throws {
        try transaction { db in
            try db.execute(
                """
                DELETE FROM anabranch.history;
                UPDATE anabranch.state SET value = pg_current_snapshot()::text
                WHERE name IN ('collected', 'acknowledged');
                UPDATE anabranch.state SET value = (SELECT system_identifier::text FROM pg_control_system())
                WHERE name = 'system'
                """)
            for name in ["target", "position", "applied"] + Self.stepNames {
                try set(name, to: nil)
            }
        }
    }

    /// True if the entries belong to another past: of another cluster, or of one that was set back.
    func isOfAnotherPast() throws -> Bool {
        try db.query(
            """
            SELECT (SELECT value FROM anabranch.state WHERE name = 'system')
                <> (SELECT system_identifier::text FROM pg_control_system())
              OR pg_snapshot_xmax((SELECT value::pg_snapshot FROM anabranch.state WHERE name = 'collected'))
                > pg_snapshot_xmax(pg_current_snapshot())
            """)[0, 0] == "t"
    }

    /// Removes the entries that the server has confirmed.
    func removeEntries(through snapshot: String) throws {
        try transaction { db in
            try set("acknowledged", to: snapshot)
            try db.query(
                "DELETE FROM anabranch.history WHERE pg_visible_in_snapshot(xid, $1::pg_snapshot)", [.text(snapshot)])
        }
    }

    /// Keeps what was written to objects that others have erased, and values that no object can hold: as it was noted.
    private func recordConflicts() throws {
        guard let noted = try state("step conflicts") else { return }
        for line in try JSONValue(parsing: noted.utf8).array ?? [] {
            try db.query(
                "INSERT INTO anabranch.conflict (class, key, kind, lost) VALUES ($1, $2, $3, $4)",
                (line.array ?? []).map { .text($0.string ?? "") })
        }
        try db.query("DELETE FROM anabranch.conflict WHERE id <= (SELECT max(id) FROM anabranch.conflict) - 10000")
    }
}

/// Something of a row that has not become one of its object.
struct RowConflict: Hashable, Sendable {
    let className: String
    let key: String
    /// `erased`: others have erased the object. `value`: it cannot hold the value.
    let kind: String
    let lost: String

    init(className: String, key: String, kind: String, lost: String) {
        (self.className, self.key, self.kind, self.lost) = (className, key, kind, lost.kept)
    }
}
#endif

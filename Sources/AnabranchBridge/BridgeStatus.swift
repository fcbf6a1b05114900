#if canImport(CLibPQ)
public import AnabranchCapture
public import AnabranchCore
import AnabranchPostgresWire

/// How far a database is bridged.
public struct BridgeStatus: Equatable, Sendable {
    /// A table that is bridged.
    public struct Table: Equatable, Sendable {
        /// The table as SQL spells it.
        public let name: String
        /// The class of its objects.
        public let className: String
        /// The number of rows.
        public let rows: Int
        /// True if its triggers are there and whole.
        public let hasTriggers: Bool
    }

    /// An object whose row is not as it is.
    public struct WaitingObject: Equatable, Sendable {
        /// The name of its class.
        public let className: String
        /// The key of its row.
        public let key: String
        /// The reason of the database.
        public let reason: String
    }

    /// The bridged tables, one for each class.
    public let tables: [Table]
    /// The process that has the bridge; nil if none has.
    public let holder: String?
    /// The time since the last sign of life of the holder, in seconds.
    public let silentSeconds: Double
    /// The number of changes in tables that no pass has turned into changes of objects yet.
    public let uncollected: Int
    /// The age of the oldest of these, in seconds; 0 if there is none.
    public let lagSeconds: Double
    /// The number of changes that were collected, but not acknowledged by the server yet.
    public let unacknowledged: Int
    /// The number of objects whose rows the database has refused.
    public let waitingCount: Int
    /// The first hundred of them.
    public let waiting: [WaitingObject]
    /// The number of values that were given up, kept in `anabranch.conflict`.
    public let conflicts: Int
}

/// A difference between a row and its object. The table is spelled as in SQL, and the key is that of the row.
public typealias BridgeDifference = CaptureDifference

extension BridgeDatabase {
    /// How far the database is bridged.
    /// - Throws: `BridgeError`, with the code `notInstalled` if nothing is installed.
    public func status() throws -> BridgeStatus {
        try translating {
            try checkInstalled()
            return try transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") { db in
                try load()
                let broken = Set(try tablesWithoutTriggers().map(\.oid))
                let listed = try tables.map { table in
                    BridgeStatus.Table(
                        name: table.path, className: table.className,
                        rows: Int(try db.query("SELECT count(*) FROM \(table.path)")[0, 0] ?? "") ?? 0,
                        hasTriggers: !broken.contains(table.oid))
                }
                let holder = try db.query(
                    """
                    SELECT name, CASE WHEN isfinite(seen) THEN extract(epoch FROM clock_timestamp() - seen) ELSE 0 END
                    FROM anabranch.holder
                    """)
                let counts = try db.query(
                    """
                    SELECT count(*) FILTER (WHERE NOT s.seen), count(*) FILTER (WHERE s.seen),
                      coalesce(extract(epoch FROM clock_timestamp() - min(h.at) FILTER (WHERE NOT s.seen)), 0),
                      (SELECT count(*) FROM anabranch.pending), (SELECT count(*) FROM anabranch.conflict)
                    FROM anabranch.history h, LATERAL (SELECT pg_visible_in_snapshot(h.xid,
                      (SELECT value::pg_snapshot FROM anabranch.state WHERE name = 'collected')) AS seen) s
                    """)
                let waiting = try db.query(
                    "SELECT class, key, reason FROM anabranch.pending ORDER BY class, key LIMIT 100")
                func number(_ column: Int) -> Int { Int(counts[0, column] ?? "") ?? 0 }
                return BridgeStatus(
                    tables: listed, holder: holder[0, 0], silentSeconds: Double(holder[0, 1] ?? "") ?? 0,
                    uncollected: number(0), lagSeconds: Double(counts[0, 2] ?? "") ?? 0, unacknowledged: number(1),
                    waitingCount: number(3),
                    waiting: (0..<waiting.count).map {
                        BridgeStatus.WaitingObject(
                            className: waiting[$0, 0] ?? "", key: waiting[$0, 1] ?? "", reason: waiting[$0, 2] ?? "")
                    }, conflicts: number(4))
            }
        }
    }

    /// Has the next pass collect all rows as if they had changed, and erase objects that have no row.
    /// - Throws: `BridgeError`.
    public func repairAtNextPass() throws {
        try translating {
            try checkInstalled()
            try set("resync", to: "1")
        }
    }

    /// Compares each row with its object. Rows with entries that are not collected are passed over.
    ///
    /// - Parameters:
    ///   - state: the objects.
    ///   - tell: is called with each difference.
    /// - Returns: the number of objects that were compared.
    /// - Throws: `BridgeError`; what `tell` throws; `ApplyError` if the objects cannot be read.
    public func compare(with state: ObjectGraph, _ tell: (BridgeDifference) throws -> Void) throws -> Int {
        try translating {
            try checkInstalled()
            return try transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") { _ in
                try load()
                let application = RowApplication(self, state, as: "", silence: 0)
                let comparison = ObjectComparison(self, state)
                var count = 0
                for table in tables {
                    let reasons = try reasons(table)
                    try comparison.forEachObject(of: table) { objects in
                        count += objects.count
                        for (key, columns) in try application.differences(objects, of: table) {
                            try tell(
                                BridgeDifference(
                                    table: table.path, key: key, kind: columns.map { .columns($0) } ?? .noRow,
                                    reason: reasons[ExactString(key)]))
                        }
                    }
                    for object in try comparison.rowsWithoutObject(table, limit: .max) {
                        guard let key = table.text(of: object.key), try uncollected([key], table).isEmpty else {
                            continue
                        }
                        try tell(BridgeDifference(table: table.path, key: key, kind: .noObject, reason: nil))
                    }
                }
                return count
            }
        }
    }

    private func reasons(_ table: BridgedTable) throws -> [ExactString: String] {
        let rows = try db.query("SELECT key, reason FROM anabranch.pending WHERE class = $1", [.text(table.className)])
        return Dictionary((0..<rows.count).map { (ExactString(rows[$0, 0] ?? ""), rows[$0, 1] ?? "") }) { first, _ in
            first
        }
    }

    /// The keys among some of rows that have entries of others which are not collected.
    func uncollected(_ keys: [String], _ table: BridgedTable) throws -> Set<ExactString> {
        let rows = try db.query(
            """
            SELECT DISTINCT key FROM anabranch.history WHERE tbl = $1::oid AND key = ANY ($2::text[])
            AND xid IS DISTINCT FROM pg_current_xact_id_if_assigned() AND NOT pg_visible_in_snapshot(xid,
              (SELECT value::pg_snapshot FROM anabranch.state WHERE name = 'collected'))
            """, [.text(table.oid), .array(keys)])
        return Set((0..<rows.count).compactMap { rows[$0, 0].map { ExactString($0) } })
    }
}
#endif

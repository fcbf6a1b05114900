#if canImport(CLibPQ)
import AnabranchHistory
import AnabranchPostgresWire
import Synchronization

/// Looks at the server to which each new connection of a store leads. The same address can lead to another one, after a
/// failover or the restoration of a backup, and that one may lack commits (`Spec/Postgres.md`, section 6).
final class ServerWatch: Sendable {
    /// The server as far as it is known.
    struct Known: Sendable {
        /// The number of times that the timeline was found to be another one.
        var term = 0
        /// The number of times that commits may have been lost, as the store itself says. It begins the leases of files
        /// that were made ready for that.
        var epoch: UInt64 = 0
        fileprivate var timeline: String?
    }

    private let requiresDurability: Bool
    private let state = Mutex(Known())

    init(requiresDurability: Bool) { self.requiresDurability = requiresDurability }

    var known: Known { state.withLock { $0 } }

    /// - Returns: the term of a connection.
    /// - Throws: if nothing can be stored over it.
    func examine(_ connection: PostgresConnection) throws(PostgresError) -> Int {
        let facts = try ServerFacts(of: connection)
        if let refusal = facts.refusal(requiresDurability: requiresDurability) {
            throw PostgresError(.unreachable, refusal)
        }
        var meta = try Self.meta(connection)
        guard meta["format"] == "\(StoreTables.format)" else {
            throw PostgresError(.unreachable, "the store has another format by now: \(meta["format"] ?? "none")")
        }
        if meta["timeline"] != facts.timeline {
            try Self.record(facts.timeline, isFirst: meta["timeline"] == nil, over: connection)
            meta = try Self.meta(connection)
        }
        let epoch = meta["epoch"].flatMap { UInt64($0) } ?? 0
        return state.withLock { known in
            if known.timeline != facts.timeline {
                known = Known(term: known.term + 1, epoch: epoch, timeline: facts.timeline)
            }
            known.epoch = max(known.epoch, epoch)
            return known.term
        }
    }

    private static func meta(_ connection: PostgresConnection) throws(PostgresError) -> [String: String] {
        let rows = try connection.query("SELECT name, value FROM meta")
        var values: [String: String] = [:]
        for row in 0..<rows.count { values[rows[row, 0] ?? ""] = rows[row, 1] }
        return values
    }

    /// Records the timeline, and that commits may have been lost, unless the operator has said that none are.
    private static func record(
        _ timeline: String, isFirst: Bool, over connection: PostgresConnection
    ) throws(PostgresError) {
        if isFirst {
            let sql = "INSERT INTO meta (name, value) VALUES ('timeline', $1), ('epoch', '0') ON CONFLICT DO NOTHING"
            try connection.query(sql, [.text(timeline)])
        }
        // Of several nodes one counts.
        try connection.query(
            """
            WITH changed AS (UPDATE meta SET value = $1 WHERE name = 'timeline' AND value <> $1 RETURNING name)
            UPDATE meta SET value = (value::bigint + 1)::text
            WHERE name = 'epoch' AND EXISTS (SELECT FROM changed)
            AND NOT EXISTS (SELECT FROM meta WHERE name = 'lossless')
            """, [.text(timeline)])
    }
}
#endif

#if canImport(CLibPQ)
import AnabranchHistory
import AnabranchPostgresWire

/// The facts that a server of PostgreSQL tells of itself.
struct ServerFacts {
    private let isStandby: Bool
    /// A setting with which acknowledged commits may be lost.
    private let laxSetting: String?
    /// The cluster, its timeline and the number of the schema: the name of a past that the data have. It is another one
    /// after a standby has taken over, after data were restored to an earlier time, and after a dump was loaded.
    let timeline: String

    init(of connection: PostgresConnection) throws(PostgresError) {
        let rows = try connection.query(
            """
            SELECT pg_is_in_recovery(), (
                SELECT name FROM unnest(ARRAY['fsync', 'full_page_writes', 'synchronous_commit']) AS lax (name)
                WHERE current_setting(name) = 'off' LIMIT 1
            ), CASE WHEN NOT pg_is_in_recovery() THEN
                (SELECT system_identifier FROM pg_control_system())
                || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
                || '/' || COALESCE(to_regnamespace('\(PostgresTarget.schema)')::oid::text, '') END
            """)
        (isStandby, laxSetting, timeline) = (rows[0, 0] == "t", rows[0, 1], rows[0, 2] ?? "")
    }

    /// The reason why nothing can be stored there, for the operator; nil if there is none.
    func refusal(requiresDurability: Bool) -> String? {
        if isStandby { return "PostgreSQL is a standby there, which cannot be written: name the primary server" }
        guard requiresDurability else { return nil }
        return laxSetting.map { name in
            "PostgreSQL would lose acknowledged changes when its machine fails: \(name) is off there; turn it on"
        }
    }
}
#endif

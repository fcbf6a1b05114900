#if canImport(CLibPQ)
package import AnabranchHistory
import AnabranchPostgresWire
import Foundation

/// Both sides of `StoreCopy`.
extension PostgresStore {
    /// Makes a store in a database that has none, or an interrupted copy, which is removed. No server starts on it
    /// before `finishCopy`.
    /// - Parameter options: with `isShared`, it becomes a store for several nodes.
    /// - Throws: `storeUnusable` if there is a store, or as for any other one; `storeFailed`.
    package convenience init(copyIn url: String, options: Options = Options()) throws(HistoryError) {
        try self.init(url, options, makesTables: true, isCopy: true)
    }

    /// Lets servers start on a copy.
    package func finishCopy() throws(HistoryError) { try setMeta("nodes", to: StoreCheck.parties(isShared)) }

    /// Keeps servers from the store in a database, since another one has its place now.
    /// - Parameter place: the place of the other one, for people.
    /// - Throws: `storeFailed`.
    package static func setCopied(_ url: String, to place: String) throws(HistoryError) {
        _ = try withConnection(url) { connection throws(PostgresError) in
            try connection.query(
                """
                INSERT INTO \(PostgresTarget.schema).meta (name, value) VALUES ($1, $2)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value
                """, [.text(StoreCheck.copiedTo), .text(place)])
        }
    }

    /// The seconds for which connections that were just closed are waited for.
    private static let patienceSeconds = 10.0

    /// Refuses a store that servers use: the database has other connections of the same user.
    /// - Returns: the number of rows that were ever written to the store, as PostgreSQL counts them: another one later
    ///   shows that somebody has used it in between.
    /// - Throws: `storeUnusable`; `storeFailed`.
    @discardableResult
    package static func requireUnused(_ url: String) throws(HistoryError) -> String {
        let end = Date(timeIntervalSinceNow: patienceSeconds)
        let (count, written) = try withConnection(url) { connection throws(PostgresError) -> (String, String) in
            var count = try otherConnections(connection)
            while count != "0", Date() <= end {
                Thread.sleep(forTimeInterval: 0.1)
                count = try otherConnections(connection)
            }
            // A connection has counted what it wrote before it is gone.
            let rows = try connection.query(
                """
                SELECT COALESCE(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_all_tables
                WHERE schemaname = '\(PostgresTarget.schema)'
                """)
            return (count, rows[0, 0] ?? "0")
        }
        guard count != "0" else { return written }
        throw HistoryError(
            .storeUnusable,
            """
            the database is in use: its user has \(count) other connections; stop all servers, and other programs of \
            this user
            """)
    }

    private static func otherConnections(_ connection: PostgresConnection) throws(PostgresError) -> String {
        try connection.query(
            """
            SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND usename = current_user AND backend_type = 'client backend' AND pid <> pg_backend_pid()
            """)[0, 0] ?? "some"
    }

    private static func withConnection<Result>(
        _ url: String, _ body: (PostgresConnection) throws(PostgresError) -> Result
    ) throws(HistoryError) -> Result {
        do throws(PostgresError) {
            let connection = try PostgresConnection(url, seconds: Options().seconds)
            defer { connection.close() }
            return try body(connection)
        } catch {
            throw HistoryError(error)
        }
    }
}
#endif

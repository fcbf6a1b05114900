#if canImport(CLibPQ)
import AnabranchHistory
import AnabranchPostgresWire
import Foundation

/// Finds out whether a database can hold a store, and makes the tables if it has none.
struct StoreCheck {
    /// The oldest server with which the store has been tried.
    private static let versionMin = 15
    private static let schema = PostgresTarget.schema

    let target: PostgresTarget
    let requiresDurability: Bool
    /// False to refuse a database without tables.
    let makesTables: Bool
    /// True if several nodes write the store; nil to take either.
    let isShared: Bool?
    /// True for a store that another one is being copied into: it is for nobody yet.
    var isCopy = false

    /// The parties that the store is for, as they are named in it.
    static func parties(_ isShared: Bool) -> String { isShared ? "many" : "one" }

    /// The same of a store that another one is being copied into. Releases that do not know it refuse it as well.
    private static let partiesOfCopy = "none: a copy"

    /// - Returns: whether the tables were made.
    /// - Throws: `storeFailed` or `storeUnusable`, with a sentence for the operator.
    func run() throws(HistoryError) -> Bool {
        do {
            let connection = try PostgresConnection(target.url, seconds: target.seconds)
            defer { connection.close() }
            try checkServer(connection)
            let schemas = try connection.query("SELECT 1 FROM pg_namespace WHERE nspname = '\(Self.schema)'")
            guard makesTables || schemas.count > 0 else {
                throw unusable("the database has no store of Anabranch: no server has used it yet")
            }
            if makesTables, isCopy, schemas.count > 0 { try removeCopy(connection) }
            let isNew = try (schemas.count == 0 || isCopy && makesTables) && make(connection)
            try checkTables(connection)
            return isNew
        } catch let error as HistoryError {
            throw error
        } catch let error as PostgresError {
            throw refusal(error)
        } catch {
            throw HistoryError(.storeFailed, "\(error)")
        }
    }

    private func checkServer(_ connection: PostgresConnection) throws {
        func setting(_ name: String) throws -> String {
            try connection.query("SELECT current_setting('\(name)')")[0, 0] ?? ""
        }
        guard Int(try setting("server_version_num")) ?? 0 >= Self.versionMin * 10_000 else {
            throw unusable(
                "PostgreSQL \(try setting("server_version")) is too old: version \(Self.versionMin) or newer is needed")
        }
        let refusal = try ServerFacts(of: connection).refusal(requiresDurability: requiresDurability)
        if let refusal { throw unusable(refusal) }
    }

    /// - Returns: false if another process has made them in between.
    private func make(_ connection: PostgresConnection) throws -> Bool {
        do {
            let name = UUID().uuidString
            try connection.execute(
                """
                BEGIN;
                \(StoreTables.sql)
                INSERT INTO meta (name, value) VALUES ('format', '\(StoreTables.format)'), ('store', '\(name)'),
                ('nodes', '\(isCopy ? Self.partiesOfCopy : Self.parties(isShared ?? false))');
                COMMIT;
                """)
            return true
        } catch {
            guard error.state == "42P06" || error.state == "23505" else { throw error }
            try connection.execute("ROLLBACK")
            return false
        }
    }

    /// Removes a copy that was interrupted.
    /// - Throws: `storeUnusable` if it is any other store.
    private func removeCopy(_ connection: PostgresConnection) throws {
        try checkTables(connection)
        // It takes as long as there are files to be deleted.
        let patient = try PostgresConnection(target.url, seconds: 3_600)
        defer { patient.close() }
        try patient.execute("SET client_min_messages = warning; DROP SCHEMA \(Self.schema) CASCADE")
    }

    private func checkTables(_ connection: PostgresConnection) throws {
        let foreign = unusable(
            "the schema \(Self.schema) of the database has tables of another application: use another database")
        guard try connection.query("SELECT to_regclass('\(Self.schema).meta')")[0, 0] != nil else { throw foreign }
        let found: String?
        do {
            found = try connection.query("SELECT value FROM \(Self.schema).meta WHERE name = 'format'")[0, 0]
        } catch {
            guard error.state == "42703" else { throw error }
            throw foreign
        }
        guard let format = found.flatMap({ Int($0) }) else { throw foreign }
        guard format == StoreTables.format else {
            throw unusable(
                """
                the store has format \(format); this program reads format \(StoreTables.format): use the release of \
                Anabranch that has written it, or a newer one
                """)
        }
        func value(_ name: String) throws -> String? {
            try connection.query("SELECT value FROM \(Self.schema).meta WHERE name = '\(name)'")[0, 0]
        }
        let nodes = try value("nodes")
        guard isCopy == (nodes == Self.partiesOfCopy) else {
            throw unusable(
                isCopy
                    ? "the database has a store of Anabranch: the copy needs one without"
                    : "`anabranch store copy` into the database was interrupted: run it again, which begins anew")
        }
        if makesTables, let place = try value(Self.copiedTo) {
            throw unusable(
                """
                the store was copied to \(place), which is served in its place. To serve this one again, if no client \
                has been there: DELETE FROM \(Self.schema).meta WHERE name = '\(Self.copiedTo)'
                """)
        }
        if let isShared, !isCopy, nodes != Self.parties(isShared) {
            throw unusable(
                isShared
                    ? """
                    the store was made for one server at a time, and cannot be shared: start the server without \
                    shared, or make one that can be, with `anabranch store copy --shared`
                    """
                    : """
                    several servers share the store: start this one with shared, too, or with another database
                    """)
        }
        let refused = try connection.query(
            """
            SELECT relname FROM pg_class WHERE relnamespace = '\(Self.schema)'::regnamespace AND relkind = 'r'
            AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
            AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')) ORDER BY relname LIMIT 1
            """)
        if let table = refused[0, 0] { throw missingRights("table \(table)") }
    }

    /// The name of the value that says which store has taken the place of this one.
    static let copiedTo = "copied-to"

    // MARK: Refusals

    private func unusable(_ reason: String) -> HistoryError { HistoryError(.storeUnusable, reason) }

    private func missingRights(_ place: String) -> HistoryError {
        unusable(
            """
            the user of PostgreSQL may not do what is needed (\(place)): it has to own the schema \(Self.schema), or \
            have the right CREATE on the database so that it can make it
            """)
    }

    private func refusal(_ error: PostgresError) -> HistoryError {
        if error.state == "42501" { return missingRights(error.message) }
        guard error.code != .refused else { return HistoryError(error) }
        if error.message.contains("password") {
            return unusable("PostgreSQL does not let the user in, check name and password: \(error.message)")
        }
        return HistoryError(.storeFailed, "PostgreSQL cannot be reached: \(error.message)")
    }
}
#endif

#if canImport(CLibPQ)
import AnabranchCore
import AnabranchPostgresWire

/// A PostgreSQL database whose tables are bridged: triggers note which rows change, and the schema `anabranch` holds
/// the notes and how far they are sent (`Spec/Bridge.md`, section 2).
///
/// It is used by one thread at a time.
public final class BridgeDatabase {
    /// The connection string.
    public let target: String
    /// The time that a statement may take, in seconds.
    public let seconds: Double
    private var connection: PostgresConnection?
    /// The tables, those that others refer to first.
    var tables: [BridgedTable] = []
    /// The columns of the tables as they were read.
    private(set) var shape = ""
    /// True if what is written to one row can change others: by triggers of the application, or by foreign keys.
    private(set) var hasSideEffects = false

    /// Thrown if the tables are not any more as they were read.
    struct TablesChanged: Error {}

    /// - Parameters:
    ///   - target: a connection string of libpq, or a `postgres://` URI.
    ///   - seconds: the time that connecting and each statement may take: from 0.001 to 86,400.
    public init(_ target: String, seconds: Double = 60) { (self.target, self.seconds) = (target, seconds) }

    /// The connection, opened again if the last one has broken.
    var db: PostgresConnection {
        get throws {
            if let connection, connection.isOpen { return connection }
            connection = nil
            let opened = try PostgresConnection(target, seconds: seconds)
            try opened.execute(
                """
                SET client_encoding = 'UTF8'; SET extra_float_digits = 1; SET standard_conforming_strings = on;
                SET bytea_output = hex; SET TimeZone = 'UTC'; SET application_name = 'anabranch bridge'
                """)
            connection = opened
            tables = []
            return opened
        }
    }

    /// Closes the connection; the next call makes another one.
    public func close() {
        connection?.close()
        connection = nil
    }

    func translating<Value>(_ body: () throws -> Value) throws -> Value {
        do { return try body() } catch let error as PostgresError { throw BridgeError(error) }
    }

    /// Carries out `body` in a transaction.
    func transaction<Value>(
        _ begin: String = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        _ body: (PostgresConnection) throws -> Value
    ) throws -> Value {
        let db = try db
        try db.execute(begin)
        do {
            let value = try body(db)
            try db.execute("COMMIT")
            return value
        } catch {
            if db.isOpen { try? db.execute("ROLLBACK") }
            throw error
        }
    }

    /// The longest wait for what others have locked: whoever else wants it waits as long.
    static let lockTimeout = "2s"

    /// Carries out `body` in a transaction, which changes tables.
    /// - Throws: `BridgeError` if others keep one of them locked.
    func changingTables<Value>(_ body: (PostgresConnection) throws -> Value) throws -> Value {
        do {
            return try transaction { db in
                try db.execute("SET LOCAL lock_timeout = '\(Self.lockTimeout)'")
                return try body(db)
            }
        } catch let error as PostgresError where error.state == "55P03" {
            throw BridgeError(.refused, "others keep a table locked, by a transaction that is open: nothing is changed")
        }
    }

    /// Carries out `body`, and undoes its changes if the database refuses one of them.
    func savepoint(_ db: PostgresConnection, _ body: () throws -> Void) throws {
        try db.execute("SAVEPOINT anabranch")
        do { try body() } catch {
            if db.isOpen { try db.execute("ROLLBACK TO SAVEPOINT anabranch; RELEASE SAVEPOINT anabranch") }
            throw error
        }
        try db.execute("RELEASE SAVEPOINT anabranch")
    }

    // MARK: State

    /// True if the bridge is installed.
    public var isInstalled: Bool {
        get throws {
            try translating { try db.query("SELECT to_regclass('anabranch.bridged') IS NOT NULL")[0, 0] == "t" }
        }
    }

    func checkInstalled() throws {
        guard try isInstalled else { throw BridgeError(.notInstalled, "the bridge is not installed in this database") }
    }

    func state(_ name: String) throws -> String? {
        try db.query("SELECT value FROM anabranch.state WHERE name = $1", [.text(name)])[0, 0]
    }

    func set(_ name: String, to value: String?) throws {
        if let value {
            try db.query(
                """
                INSERT INTO anabranch.state (name, value) VALUES ($1, $2)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value
                """, [.text(name), .text(value)])
        } else {
            try db.query("DELETE FROM anabranch.state WHERE name = $1", [.text(name)])
        }
    }

    // MARK: Tables

    /// Reads the tables that are bridged from the catalog.
    /// - Returns: true if they are not as they were read before.
    @discardableResult func load() throws -> Bool {
        let db = try db
        let names = try db.query("SELECT schema, name, class FROM anabranch.bridged ORDER BY schema, name")
        var found: [BridgedTable] = []
        for row in 0..<names.count {
            let path = "\(names[row, 0] ?? "").\(names[row, 1] ?? "")"
            do { found.append(try BridgedTable(path, className: names[row, 2], in: db)) } catch let error as BridgeError
            {
                throw BridgeError(
                    error.code,
                    "\(error.reason); if it is gone or renamed: anabranch bridge uninstall --tables \(path)",
                    table: error.table, column: error.column)
            }
        }
        found = ordered(found)
        let list = PostgresValue.array(found.map(\.oid))
        hasSideEffects =
            try db.query(
                """
                SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = ANY ($1::oid[]) AND NOT tgisinternal
                    AND tgname NOT LIKE 'anabranch\\_%')
                  OR EXISTS (SELECT FROM pg_rewrite WHERE ev_class = ANY ($1::oid[]))
                  OR EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND conrelid = ANY ($1::oid[])
                    AND (confdeltype NOT IN ('a', 'r') OR confupdtype NOT IN ('a', 'r')))
                """, [list])[0, 0] == "t"
        shape = try shape(of: found)
        defer { tables = found }
        return found != tables
    }

    /// The columns of tables and of all tables below them, in short: a partition that comes or goes has rows that no
    /// trigger has seen.
    private func shape(of tables: [BridgedTable]) throws -> String {
        try db.query(
            """
            WITH RECURSIVE below AS (SELECT unnest($1::oid[]) AS oid
              UNION SELECT i.inhrelid FROM pg_inherits i JOIN below ON below.oid = i.inhparent)
            SELECT coalesce(md5(string_agg(concat_ws(' ', attrelid, attnum, atttypid, atttypmod, attname), ','
              ORDER BY attrelid, attnum)), '')
            FROM pg_attribute JOIN below ON below.oid = attrelid WHERE attnum > 0 AND NOT attisdropped
            """, [.array(tables.flatMap { [$0.oid] + $0.columns.compactMap(\.list?.oid) })])[0, 0] ?? ""
    }

    /// Throws if tables that some entries are of are not as they were read, or not read yet.
    func checkShape(of oids: some Sequence<String>) throws {
        guard try shape(of: tables) == shape else { throw TablesChanged() }
        let unknown = oids.filter { table(oid: $0) == nil }
        if unknown.isEmpty { return }
        let bridged = try db.query(
            """
            SELECT 1 FROM anabranch.bridged WHERE to_regclass(format('%I.%I', schema, name))::oid = ANY ($1::oid[])
            """, [.array(unknown)])
        if bridged.count > 0 { throw TablesChanged() }
    }

    /// Puts tables before those that refer to them; a cycle begins anywhere.
    private func ordered(_ tables: [BridgedTable]) -> [BridgedTable] {
        var rest = tables, ordered: [BridgedTable] = []
        while !rest.isEmpty {
            let waiting = Set(rest.flatMap { [$0.name, "\($0.schema).\($0.name)", $0.path] })
            let index = rest.firstIndex { table in
                !table.columns.contains { $0.target.map { $0 != table.name && waiting.contains($0) } ?? false }
            }
            ordered.append(rest.remove(at: index ?? 0))
        }
        return ordered
    }

    func table(oid: String) -> BridgedTable? { tables.first { $0.oid == oid } }

    func table(ofClass name: String) -> BridgedTable? { tables.first { $0.className.hasBytes(of: name) } }

    /// The table that a foreign key names.
    func table(named name: String) -> BridgedTable? {
        tables.first { table in
            let names = [table.name, table.name.quoted, "\(table.schema).\(table.name)", table.path]
            return names.contains { $0.hasBytes(of: name) }
        }
    }

    // MARK: Holder

    /// Makes sure that this process has the bridge, in the transaction that is open, or for itself.
    ///
    /// - Parameters:
    ///   - name: this process.
    ///   - silence: the seconds after which another process has lost the bridge.
    /// - Throws: `BridgeError` with the code `heldByOther`.
    func hold(as name: String, silence: Double) throws {
        let held = try db.query(
            """
            UPDATE anabranch.holder SET name = $1, seen = clock_timestamp()
            WHERE name IS NULL OR name = $1 OR seen <= clock_timestamp() - make_interval(secs => $2::float8)
            """, [.text(name), .text("\(silence)")])
        guard held.affected == 1 else {
            let other = try db.query("SELECT name FROM anabranch.holder")[0, 0] ?? ""
            throw BridgeError(.heldByOther, "\(other) has the bridge; it is taken over when that one is silent")
        }
    }

    /// Gives the bridge up, so that another process need not wait.
    func release(_ name: String) throws {
        try db.query("UPDATE anabranch.holder SET name = NULL WHERE name = $1", [.text(name)])
    }
}
#endif

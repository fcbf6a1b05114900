#if canImport(CLibPQ)
import AnabranchCore
import AnabranchPostgresWire

// The schema `anabranch` and the triggers are made, looked at and removed (`Spec/Bridge.md`, section 2).

extension BridgeDatabase {
    private static let sideTables = """
        CREATE SCHEMA anabranch;
        CREATE TABLE anabranch.history (
          id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
          tbl oid NOT NULL, action "char" NOT NULL, key text NOT NULL, cols text[],
          person text NOT NULL DEFAULT coalesce(nullif(current_setting('anabranch.person', true), ''), session_user),
          at timestamptz NOT NULL DEFAULT clock_timestamp());
        CREATE TABLE anabranch.bridged (
          schema name NOT NULL, name name NOT NULL, class text NOT NULL UNIQUE, noted text, PRIMARY KEY (schema, name));
        CREATE TABLE anabranch.state (name text PRIMARY KEY, value text NOT NULL);
        CREATE TABLE anabranch.holder (only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), name text,
          seen timestamptz NOT NULL DEFAULT now());
        CREATE TABLE anabranch.pending (class text, key text, reason text NOT NULL,
          since timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (class, key));
        CREATE TABLE anabranch.conflict (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, class text NOT NULL,
          key text NOT NULL, kind text NOT NULL, lost text NOT NULL, at timestamptz NOT NULL DEFAULT now());
        INSERT INTO anabranch.holder DEFAULT VALUES;
        INSERT INTO anabranch.state VALUES ('collected', '3:3:'), ('acknowledged', '3:3:'), ('form', '1'),
          ('system', (SELECT system_identifier::text FROM pg_control_system()));
        """

    /// The rows that one transaction notes at installation.
    private static let recordedRows = 10_000

    /// Installs the schema `anabranch` and the triggers, and notes the rows that are there. When it throws before the
    /// first report of progress, nothing is changed; afterwards it goes on where it was when it is called again.
    ///
    /// - Parameters:
    ///   - names: the tables, each with the name of its class; nil for the name of the table.
    ///   - progress: is called after each transaction with the number of rows noted so far.
    /// - Returns: notes for the person who installs, such as columns that are left out.
    /// - Throws: `BridgeError`, with the table and the column.
    @discardableResult public func install(
        _ names: [(table: String, className: String?)], progress: (Int) throws -> Void = { _ in }
    ) throws -> [String] {
        try translating {
            let notes = try changingTables { db in
                if try !isInstalled { try db.execute(Self.sideTables) }
                var notes: [String] = []
                for (name, className) in names {
                    let table = try BridgedTable(name, className: className, in: db)
                    try db.query(
                        """
                        INSERT INTO anabranch.bridged (schema, name, class, noted) VALUES ($1, $2, $3, '')
                        ON CONFLICT (schema, name) DO NOTHING
                        """, [.text(table.schema), .text(table.name), .text(table.className)])
                    try makeTriggers(of: table)
                    notes += table.columns.compactMap { column in
                        column.list.map { "table \($0.path): the elements of the list \(column.name) of \(name)" }
                    }
                    notes += table.omitted.map { "table \(name), column \($0.name): \($0.reason), so it is not synced" }
                }
                try load()
                return notes
            }
            try recordRows(progress)
            return notes
        }
    }

    /// Writes an entry for each row that was there before, in the order of their keys.
    private func recordRows(_ progress: (Int) throws -> Void) throws {
        var count = 0
        for table in tables {
            while true {
                let rows = try transaction { db in
                    let noted = try db.query(
                        "SELECT noted FROM anabranch.bridged WHERE schema = $1 AND name = $2 FOR UPDATE",
                        [.text(table.schema), .text(table.name)])
                    guard noted.count == 1, let last = noted[0, 0] else { return 0 }
                    let written = try record(table, after: last.isEmpty ? nil : String(last.dropFirst()), in: db)
                    try db.query(
                        "UPDATE anabranch.bridged SET noted = $3 WHERE schema = $1 AND name = $2",
                        [
                            .text(table.schema), .text(table.name), written.last.map { .text("=" + $0) } ?? .null,
                        ])
                    return written.count
                }
                if rows == 0 { break }
                count += rows
                try progress(count)
            }
        }
    }

    /// - Returns: the number of entries, and the key of the last one; nil if there were none.
    func record(_ table: BridgedTable, after last: String?, in db: PostgresConnection) throws -> (
        count: Int, last: String?
    ) {
        let key = table.key.name.quoted
        let rows = try db.query(
            """
            WITH batch AS (SELECT \(key) AS k FROM \(table.path)
              \(last == nil ? "" : "WHERE \(key) > $2::\(table.key.type)") ORDER BY \(key) LIMIT \(Self.recordedRows)),
            noted AS (INSERT INTO anabranch.history (tbl, action, key) SELECT $1::oid, 'I', k::text FROM batch)
            SELECT count(*), (SELECT k::text FROM batch ORDER BY batch.k DESC LIMIT 1) FROM batch
            """, [.text(table.oid)] + (last.map { [.text($0)] } ?? []))
        return (Int(rows[0, 0] ?? "") ?? 0, rows[0, 1])
    }

    // MARK: Triggers

    private func functionName(_ table: BridgedTable) -> String { "anabranch.\("capture_\(table.oid)".quoted)" }

    /// The body of the function of a table's triggers. Only names that begin with `TG_`, `olds` and `news` are
    /// unqualified in it, so that no column of the application can shadow others.
    private func functionBody(_ table: BridgedTable) -> String {
        let key = table.key.name.quoted
        let insertion = "INSERT INTO anabranch.history (tbl, action, key"
        // Values of the type `json` that are invalid as `jsonb` cannot be compared: then all columns count as changed,
        // and the application's statement is carried out.
        let begin = table.hasJSON ? "BEGIN " : ""
        func end(_ statements: String) -> String {
            table.hasJSON ? " EXCEPTION WHEN data_exception THEN \(statements) END;" : ""
        }
        if table.isFamily {
            let again = "\(insertion)) VALUES (\(table.oid), 'I', NEW.\(key)::text);"
            return """
                BEGIN
                  IF TG_OP = 'TRUNCATE' THEN
                    EXECUTE pg_catalog.format(
                      '\(insertion)) SELECT \(table.oid), ''D'', "anabranch.t".%I::text FROM %I.%I AS "anabranch.t"',
                      \(table.key.name.literal), TG_TABLE_SCHEMA, TG_TABLE_NAME);
                  ELSIF TG_OP = 'DELETE' THEN
                    \(insertion)) VALUES (\(table.oid), 'D', OLD.\(key)::text);
                  ELSIF TG_OP = 'INSERT' THEN
                    \(insertion)) VALUES (\(table.oid), 'I', NEW.\(key)::text);
                  ELSIF OLD.\(key) IS DISTINCT FROM NEW.\(key) THEN
                    \(insertion)) VALUES (\(table.oid), 'D', OLD.\(key)::text), (\(table.oid), 'I', NEW.\(key)::text);
                  ELSE
                    \(begin)\(insertion), cols) SELECT \(table.oid), 'U', NEW.\(key)::text, "anabranch.c".cols
                    FROM (SELECT pg_catalog.array_agg("anabranch.e".key) AS cols
                      FROM pg_catalog.jsonb_each(pg_catalog.to_jsonb(OLD)) AS "anabranch.e"
                      WHERE pg_catalog.to_jsonb(NEW)->"anabranch.e".key IS DISTINCT FROM "anabranch.e".value
                    ) AS "anabranch.c" WHERE "anabranch.c".cols IS NOT NULL;\(end(again))
                  END IF;
                  RETURN NULL;
                END
                """
        }
        let again = """
            \(insertion)) SELECT \(table.oid), 'D', "anabranch.o".\(key)::text FROM olds AS "anabranch.o";
            \(insertion)) SELECT \(table.oid), 'I', "anabranch.n".\(key)::text FROM news AS "anabranch.n";
            """
        return """
            BEGIN
              IF TG_OP = 'TRUNCATE' THEN
                \(insertion)) SELECT \(table.oid), 'D', "anabranch.t".\(key)::text FROM \(table.path) AS "anabranch.t";
              ELSIF TG_OP = 'DELETE' THEN
                \(insertion)) SELECT \(table.oid), 'D', "anabranch.o".\(key)::text FROM olds AS "anabranch.o";
              ELSIF TG_OP = 'INSERT' THEN
                \(insertion)) SELECT \(table.oid), 'I', "anabranch.n".\(key)::text FROM news AS "anabranch.n";
              ELSE
                \(begin)\(insertion), cols)
                SELECT \(table.oid), CASE WHEN "anabranch.r".n IS NULL THEN 'D' WHEN "anabranch.r".o IS NULL THEN 'I'
                  ELSE 'U' END, "anabranch.r".k, "anabranch.c".cols
                FROM (SELECT coalesce("anabranch.n".\(key), "anabranch.o".\(key))::text AS k,
                    pg_catalog.to_jsonb("anabranch.o") AS o, pg_catalog.to_jsonb("anabranch.n") AS n
                  FROM olds AS "anabranch.o" FULL JOIN news AS "anabranch.n"
                    ON "anabranch.o".\(key) = "anabranch.n".\(key)) AS "anabranch.r",
                  LATERAL (SELECT pg_catalog.array_agg("anabranch.e".key) AS cols
                    FROM pg_catalog.jsonb_each("anabranch.r".o) AS "anabranch.e"
                    WHERE "anabranch.r".n->"anabranch.e".key IS DISTINCT FROM "anabranch.e".value) AS "anabranch.c"
                WHERE "anabranch.r".o IS NULL OR "anabranch.r".n IS NULL OR "anabranch.c".cols IS NOT NULL;\(end(again))
              END IF;
              RETURN NULL;
            END
            """
    }

    private static let triggers = ["anabranch_i", "anabranch_u", "anabranch_d", "anabranch_t"]

    /// Makes the function and the triggers of a table, and of its partitions those that they do not get by themselves.
    func makeTriggers(of table: BridgedTable) throws {
        let db = try db, function = functionName(table)
        try dropTriggers(of: table.oid)
        try db.execute(
            """
            CREATE OR REPLACE FUNCTION \(function)() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
            SET search_path = pg_catalog, pg_temp AS \(functionBody(table).literal)
            """)
        try db.execute("REVOKE ALL ON FUNCTION \(function)() FROM PUBLIC")
        let each = table.isFamily ? "FOR EACH ROW" : "FOR EACH STATEMENT"
        let olds = table.isFamily ? "" : "OLD TABLE AS olds", news = table.isFamily ? "" : "NEW TABLE AS news"
        func trigger(_ name: String, _ when: String, _ rows: String, _ each: String, on path: String) throws {
            let rows = rows.isEmpty || rows == " " ? "" : "REFERENCING \(rows)"
            try db.execute("CREATE TRIGGER \(name) \(when) ON \(path) \(rows) \(each) EXECUTE FUNCTION \(function)()")
        }
        for path in try family(of: table) {
            // Triggers of rows that partitions do not inherit, and those of TRUNCATE.
            let isRoot = path == table.path
            let inherits = try db.query("SELECT relispartition FROM pg_class WHERE oid = $1::regclass", [.text(path)])
            if isRoot || inherits[0, 0] != "t" {
                try trigger("anabranch_i", "AFTER INSERT", news, each, on: path)
                try trigger("anabranch_u", "AFTER UPDATE", "\(olds) \(news)", each, on: path)
                try trigger("anabranch_d", "AFTER DELETE", olds, each, on: path)
            }
            try trigger("anabranch_t", "BEFORE TRUNCATE", "", "FOR EACH STATEMENT", on: path)
        }
        for column in table.columns {
            if let list = column.list { try makeTriggers(of: list, column.name, table) }
        }
    }

    /// The body of the function of the triggers of a table of elements: the list of the owner has changed.
    private func functionBody(_ list: BridgedTable.ListTable, of column: String, _ table: BridgedTable) -> String {
        func record(_ source: String) -> String {
            """
            INSERT INTO anabranch.history (tbl, action, key, cols) SELECT DISTINCT \(table.oid)::oid, 'U'::"char",
                  "anabranch.e".owner::text, ARRAY[\(column.literal)] FROM \(source) AS "anabranch.e"
                  WHERE "anabranch.e".owner IS NOT NULL;
            """
        }
        return """
            BEGIN
              IF TG_OP = 'TRUNCATE' THEN \(record(list.path))
              ELSIF TG_OP = 'DELETE' THEN \(record("olds"))
              ELSIF TG_OP = 'INSERT' THEN \(record("news"))
              ELSE \(record("(SELECT \"anabranch.o\".owner FROM olds AS \"anabranch.o\" UNION "
                + "SELECT \"anabranch.n\".owner FROM news AS \"anabranch.n\")"))
              END IF;
              RETURN NULL;
            END
            """
    }

    private func makeTriggers(of list: BridgedTable.ListTable, _ column: String, _ table: BridgedTable) throws {
        let db = try db, function = "anabranch.\("capture_\(table.oid)_\(list.oid)".quoted)"
        try db.execute(
            """
            CREATE OR REPLACE FUNCTION \(function)() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
            SET search_path = pg_catalog, pg_temp AS \(functionBody(list, of: column, table).literal);
            REVOKE ALL ON FUNCTION \(function)() FROM PUBLIC
            """)
        let kinds = [
            ("i", "AFTER INSERT", "REFERENCING NEW TABLE AS news"),
            ("u", "AFTER UPDATE", "REFERENCING OLD TABLE AS olds NEW TABLE AS news"),
            ("d", "AFTER DELETE", "REFERENCING OLD TABLE AS olds"), ("t", "BEFORE TRUNCATE", ""),
        ]
        for (ending, when, rows) in kinds {
            try db.execute(
                """
                CREATE TRIGGER anabranch_\(ending) \(when) ON \(list.path) \(rows) FOR EACH STATEMENT
                EXECUTE FUNCTION \(function)()
                """)
        }
    }

    /// The table and all tables below it.
    private func family(of table: BridgedTable) throws -> [String] {
        guard table.isFamily else { return [table.path] }
        let found = try db.query(
            """
            WITH RECURSIVE below AS (SELECT $1::oid AS oid
              UNION SELECT i.inhrelid FROM pg_inherits i JOIN below ON below.oid = i.inhparent)
            SELECT format('%I.%I', n.nspname, c.relname) FROM below JOIN pg_class c USING (oid)
            JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid <> $1::oid AND c.relkind IN ('r', 'p')
            """, [.text(table.oid)])
        return [table.path] + (0..<found.count).compactMap { found[$0, 0] }
    }

    private func dropTriggers(of oid: String) throws {
        let db = try db
        let found = try db.query(
            """
            SELECT format('DROP TRIGGER %I ON %s', t.tgname, t.tgrelid::regclass) FROM pg_trigger t
            JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = 'anabranch' AND t.tgparentid = 0
              AND (p.proname = 'capture_' || $1 OR starts_with(p.proname, 'capture_' || $1 || '_'))
            """, [.text(oid)])
        for row in 0..<found.count { if let sql = found[row, 0] { try db.execute(sql) } }
    }

    /// The tables whose triggers are missing, switched off or others.
    func tablesWithoutTriggers() throws -> [BridgedTable] {
        try tables.filter { table in
            if try listsWithoutTriggers(table) { return true }
            let found = try db.query(
                """
                SELECT count(*) FILTER (WHERE t.tgenabled IN ('O', 'A')), count(*), bool_and(p.prosrc = $2)
                FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname = 'anabranch' AND p.proname = 'capture_' || $1 AND t.tgrelid = $1::oid
                """, [.text(table.oid), .text(functionBody(table))])
            let family = table.isFamily ? try tablesBelowWithoutTriggers(table) : false
            return found[0, 0] != "\(Self.triggers.count)" || found[0, 2] != "t" || family
        }
    }

    /// True if triggers of a table of elements are missing, switched off or others.
    private func listsWithoutTriggers(_ table: BridgedTable) throws -> Bool {
        try table.columns.contains { column in
            guard let list = column.list else { return false }
            let found = try db.query(
                """
                SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
                JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname = 'anabranch' AND t.tgrelid = $1::oid AND t.tgenabled IN ('O', 'A') AND p.prosrc = $2
                """, [.text(list.oid), .text(functionBody(list, of: column.name, table))])
            return found[0, 0] != "\(Self.triggers.count)"
        }
    }

    /// True if a partition was added: rows of its own have triggers, but TRUNCATE has none.
    private func tablesBelowWithoutTriggers(_ table: BridgedTable) throws -> Bool {
        let found = try db.query(
            """
            SELECT count(*) FROM unnest($1::text[]) p WHERE NOT EXISTS (
              SELECT FROM pg_trigger t WHERE t.tgrelid = p::regclass AND t.tgname = 'anabranch_t')
            """, [.array(try family(of: table))])
        return found[0, 0] != "0"
    }

    // MARK: Uninstalling

    /// Removes the triggers and the schema `anabranch`, or only releases some tables.
    /// - Parameter names: the tables; nil for all.
    /// - Throws: `BridgeError`.
    public func uninstall(_ names: [String]? = nil) throws {
        try translating {
            try checkInstalled()
            try changingTables { db in
                guard let names else { return try db.execute("DROP SCHEMA anabranch CASCADE") }
                for name in names {
                    let (schema, local) = BridgedTable.parts(name)
                    let found = try db.query(
                        """
                        DELETE FROM anabranch.bridged WHERE name = $1 AND schema = coalesce($2, schema)
                        RETURNING to_regclass(format('%I.%I', schema, name))::oid
                        """, [.text(local), schema.map { .text($0) } ?? .null])
                    guard found.count > 0 else { throw BridgeError(.notInstalled, "it is not bridged", table: name) }
                    for row in 0..<found.count {
                        guard let oid = found[row, 0] else { continue }
                        try dropTriggers(of: oid)
                        let functions = try db.query(
                            """
                            SELECT format('DROP FUNCTION anabranch.%I()', p.proname) FROM pg_proc p
                            JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'anabranch'
                            AND (p.proname = 'capture_' || $1 OR starts_with(p.proname, 'capture_' || $1 || '_'))
                            """, [.text(oid)])
                        for row in 0..<functions.count { try db.execute(functions[row, 0] ?? "") }
                    }
                }
            }
            tables = []
        }
    }
}
#endif

#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

/// The rows that some commits write: one statement for each table, whatever the number of rows and files, with an array
/// for each column.
struct CommitBatch {
    /// A statement, in the order in which they are carried out.
    enum Statement: Int, CaseIterable {
        case newFile, fileHead, clientFile, staleReciprocals, expiredView, expiredViewEntries, noWithheldSchema
        case withheldSchema, reciprocal, logEntry, conflictKey, received
        case erasedClass, removedStateRow, stateRow, idempotencyKey, oldIdempotencyKeys
        case view, confirmedViewEntries, viewContent, viewEntry, viewField
        case noDoorRecord, doorRecord, freedIngested, ingested
        case deletedFile, deletedFileHead
    }

    private var columns: [[[Cell]]] = Array(repeating: [], count: Statement.allCases.count)

    /// Adds a row of values for a statement.
    mutating func add(_ statement: Statement, _ cells: Cell...) { add(statement, cells) }

    mutating func add(_ statement: Statement, _ cells: [Cell]) {
        let place = statement.rawValue
        if columns[place].isEmpty { columns[place] = Array(repeating: [], count: cells.count) }
        for (column, cell) in cells.enumerated() { columns[place][column].append(cell) }
    }

    /// The statements that have rows; the batch is empty afterwards.
    mutating func takeSteps() -> [PostgresStep] {
        defer { self = CommitBatch() }
        return Statement.allCases.compactMap { statement in
            let cells = columns[statement.rawValue], form = Self.forms[statement.rawValue]
            guard !cells.isEmpty else { return nil }
            return Self.step(form, cells)
        }
    }

    // MARK: Statements

    private struct Form {
        let sql: String
        let types: [Cell.Kind]
    }

    private typealias Columns = [(name: String, type: Cell.Kind)]

    private static let forms = Statement.allCases.map(form)

    private static func numbers(_ names: String...) -> Columns { names.map { ($0, .number) } }
    private static func bytes(_ names: String...) -> Columns { names.map { ($0, .bytes) } }
    private static func flags(_ names: String...) -> Columns { names.map { ($0, .flag) } }

    /// Rows of arrays, as a table of this name.
    private static func rows(_ columns: Columns, as name: String = "n") -> String {
        let arrays = columns.enumerated().map { "$\($0.offset + 1)::\($0.element.type.name)[]" }
        return """
            unnest(\(arrays.joined(separator: ", "))) AS \(name) (\(columns.map(\.name).joined(separator: ", ")))
            """
    }

    private static func form(_ columns: Columns, _ sql: (_ rows: String) -> String) -> Form {
        Form(sql: sql(rows(columns)), types: columns.map(\.type))
    }

    /// Adds rows.
    /// - Parameter key: the columns of which an existing row is replaced; none if there can be no such row.
    private static func insertion(into table: String, _ columns: Columns, replacing key: [String] = []) -> Form {
        let names = columns.map(\.name)
        let changes = names.filter { !key.contains($0) }.map { "\($0) = excluded.\($0)" }
        let conflict =
            key.isEmpty
            ? "" : "ON CONFLICT (\(key.joined(separator: ", "))) DO UPDATE SET \(changes.joined(separator: ", "))"
        return form(columns) { rows in
            "INSERT INTO \(table) (\(names.joined(separator: ", "))) SELECT * FROM \(rows) \(conflict)"
        }
    }

    /// Removes the rows that are like one of these.
    private static func removal(
        from table: String, _ columns: Columns, comparing operators: [String: String] = [:]
    ) -> Form {
        let conditions = columns.map { "t.\($0.name) \(operators[$0.name] ?? "=") n.\($0.name)" }
        return form(columns) { rows in
            "DELETE FROM \(table) t USING \(rows) WHERE \(conditions.joined(separator: " AND "))"
        }
    }

    private static let headColumns =
        numbers("version", "version_salt", "cumulative_size") + bytes("chain")
        + numbers("base_version", "base_salt", "base_cumulative_size") + bytes("base_chain")
        + numbers("sealed_version", "next_ident", "state_version", "bounds") + bytes("checksum")

    private static func form(_ statement: Statement) -> Form {
        switch statement {
        case .newFile:
            return insertion(into: "synced_file", numbers("id") + bytes("path") + numbers("lease") + headColumns)
        case .fileHead:
            let changes = headColumns.map { "\($0.name) = n.\($0.name)" }.joined(separator: ", ")
            return form(numbers("id") + headColumns) { rows in
                "UPDATE synced_file f SET \(changes) FROM \(rows) WHERE f.id = n.id"
            }
        case .clientFile:
            return insertion(
                into: "client_file",
                numbers(
                    "file", "ident", "salt", "client_version", "reciprocal_base", "locked_version", "last_seen")
                    + flags("is_expired") + bytes("user_ident")
                    + numbers("lineage", "base_client_version", "receipt_version", "receipt_client_version")
                    + numbers("revision", "session", "found_away")
                    + bytes("checksum"), replacing: ["file", "ident"])
        case .staleReciprocals:
            return removal(from: "reciprocal", numbers("file", "ident", "version"), comparing: ["version": "<="])
        case .expiredView: return removal(from: "client_view", numbers("file", "ident"))
        case .expiredViewEntries: return removal(from: "view_entry", numbers("file", "ident"))
        case .noWithheldSchema: return removal(from: "withheld_schema", numbers("file", "ident"))
        case .withheldSchema:
            return insertion(
                into: "withheld_schema", numbers("file", "ident") + bytes("checksum", "changeset"),
                replacing: ["file", "ident"])
        case .reciprocal:
            return insertion(
                into: "reciprocal", numbers("file", "ident", "version") + bytes("checksum", "changeset"),
                replacing: ["file", "ident", "version"])
        case .logEntry:
            return insertion(
                into: "log_entry",
                numbers(
                    "file", "version", "salt", "origin", "client_version", "time", "cumulative_size", "base",
                    "release", "protocol") + bytes("checksum", "section", "changeset"))
        case .conflictKey: return insertion(into: "conflict_key", numbers("file", "key", "version", "origin"))
        case .received:
            return insertion(
                into: "received", numbers("file", "version", "time") + bytes("checksum", "changeset"),
                replacing: ["file", "version"])
        case .erasedClass: return removal(from: "state_row", numbers("file", "class"))
        case .removedStateRow:
            return removal(from: "state_row", numbers("file", "class") + bytes("key") + numbers("part"))
        case .stateRow:
            return insertion(
                into: "state_row", numbers("file", "class") + bytes("key") + numbers("part") + bytes("content"),
                replacing: ["file", "class", "key", "part"])
        case .idempotencyKey:
            // The numbers of a file have no gaps.
            return form(numbers("file") + bytes("key") + numbers("version")) { rows in
                """
                INSERT INTO idempotency_key (file, key, version, number) SELECT file, key, version, 1 + COALESCE(
                (SELECT max(number) FROM idempotency_key k WHERE k.file = n.file), 0) FROM \(rows)
                ON CONFLICT (file, key) DO UPDATE SET version = excluded.version
                """
            }
        case .oldIdempotencyKeys:
            return form(numbers("file", "count")) { rows in
                """
                DELETE FROM idempotency_key k USING \(rows) WHERE k.file = n.file AND k.number <=
                (SELECT max(number) FROM idempotency_key o WHERE o.file = n.file) - n.count
                """
            }
        case .view:
            return insertion(
                into: "client_view",
                numbers(
                    "file", "ident", "query_version", "changed", "projected", "first_number", "last_number")
                    + bytes("predicates", "role", "logged", "checksum"), replacing: ["file", "ident"])
        case .confirmedViewEntries:
            return removal(from: "view_entry", numbers("file", "ident", "number"), comparing: ["number": "<"])
        case .viewContent:
            return form(numbers("file") + bytes("digest", "content")) { rows in
                "INSERT INTO view_content (file, digest, content) SELECT * FROM \(rows) ON CONFLICT DO NOTHING"
            }
        case .viewEntry:
            return insertion(
                into: "view_entry",
                numbers(
                    "file", "ident", "number", "version", "client_version", "time", "origin", "bootstrap",
                    "logged_bytes") + bytes("digest", "changeset", "merged", "compensation", "checksum"),
                replacing: ["file", "ident", "number"])
        case .viewField:
            return insertion(
                into: "view_field",
                numbers("file") + bytes("class") + flags("is_class") + bytes("field") + numbers("since"),
                replacing: ["file", "class", "is_class", "field"])
        case .noDoorRecord: return removal(from: "door_record", numbers("file", "space", "kind") + bytes("key"))
        case .doorRecord:
            return insertion(
                into: "door_record",
                numbers("file", "space", "kind") + bytes("key") + numbers("expires") + bytes("value", "checksum"),
                replacing: ["file", "space", "kind", "key"])
        case .freedIngested:
            return removal(from: "ingested", numbers("file", "number"), comparing: ["number": "<="])
        case .ingested:
            // Of several objects of one class and key the first one counts.
            return form(
                numbers("file", "number") + bytes("class") + numbers("key_type") + bytes("key") + numbers("time")
                    + bytes("user_ident", "object", "checksum")
            ) { rows in
                """
                INSERT INTO ingested (file, number, class, key_type, key, time, user_ident, object, checksum)
                SELECT * FROM \(rows) ORDER BY file, number ON CONFLICT DO NOTHING
                """
            }
        case .deletedFile: return insertion(into: "deleted_file", numbers("file"))
        case .deletedFileHead: return removal(from: "synced_file", numbers("id"))
        }
    }

    /// Locks the rows of files in the order of their numbers, so that no two parties wait for each other, and ends the
    /// transaction by dividing by zero if one of them is not as it was read.
    private static let lockingForm = form(numbers("id", "lease", "bounds") + bytes("checksum")) { rows in
        """
        SELECT 1 / (count(*) = array_length($1::bigint[], 1))::int FROM (
            SELECT f.id FROM synced_file f JOIN \(rows)
            ON n.id = f.id AND n.lease = f.lease AND n.bounds = f.bounds AND n.checksum = f.checksum
            ORDER BY f.id FOR NO KEY UPDATE OF f
        ) AS fitting
        """
    }

    /// Ends the transaction in the same way if a client file was written since it was read. Their files are locked.
    private static let revisionForm = form(numbers("file", "ident", "revision")) { rows in
        """
        SELECT 1 / (count(*) = array_length($1::bigint[], 1))::int FROM client_file c JOIN \(rows)
        ON c.file = n.file AND c.ident = n.ident AND c.revision = n.revision
        """
    }

    /// Ends the transaction in the same way if a client has another session than the one that writes its view, or has
    /// expired.
    private static let sessionForm = form(numbers("file", "ident", "session")) { rows in
        """
        SELECT 1 / (count(*) = array_length($1::bigint[], 1))::int FROM client_file c JOIN \(rows)
        ON c.file = n.file AND c.ident = n.ident AND c.session = n.session AND NOT c.is_expired
        """
    }

    /// The lock of files as they were read.
    static func locking(_ records: [FileRecord]) -> [PostgresStep] {
        let records = records.filter(\.isStored)
        guard !records.isEmpty else { return [] }
        return [
            step(
                lockingForm,
                [
                    records.map { .number($0.number) }, records.map { Cell($0.lease.number) },
                    records.map { Cell($0.head.bounds) }, records.map { Cell($0.checksum) },
                ])
        ]
    }

    /// The comparison of the client files and views that commits to a shared store write.
    static func comparing(_ commits: [Commit]) -> [PostgresStep] {
        comparison(
            revisionForm,
            commits.flatMap { commit in
                commit.clientFiles.filter { $0.revision > 1 }
                    .map { (commit.file.number, $0.ident, $0.revision - 1) }
            })
            + comparison(
                sessionForm,
                commits.flatMap { commit in
                    commit.viewsOfKnownClients.map { (commit.file.number, $0.record.ident, $0.session) }
                })
    }

    private static func comparison(_ form: Form, _ rows: [(Int64, ClientFileID, UInt64)]) -> [PostgresStep] {
        guard !rows.isEmpty else { return [] }
        return [step(form, [rows.map { .number($0.0) }, rows.map { Cell($0.1) }, rows.map { Cell($0.2) }])]
    }

    private static func step(_ form: Form, _ columns: [[Cell]]) -> PostgresStep {
        PostgresStep(form.sql, zip(columns, form.types).map { .cells($0, $1) })
    }
}
#endif

import Crypto
import Foundation
import GRDB

/// The tables of a SQLite database as text, for comparison.
struct StoredTables {
    /// One table, its rows in the order of its key.
    struct Table: Equatable {
        let name: String
        /// A row a line: its values as SQL literals, with `|` in between.
        let rows: [String]

        /// Name, number of rows, and SHA-256 of the rows: a line of the tracked list.
        var summary: String {
            let text = rows.map { $0 + "\n" }.joined()
            let digest = SHA256.hash(data: Data(text.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
            return "\(name)\t\(rows.count)\t\(digest.joined())"
        }
    }

    let tables: [Table]

    /// - Parameter path: of a database that nobody writes.
    init(database path: String) throws {
        let queue = try DatabaseQueue(path: path)
        tables = try queue.read { db in
            let names = try String.fetchAll(
                db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
            return [try Self.schema(db)] + (try names.map { try Self.table($0, db) })
        }
        try queue.close()
    }

    /// The statements that made the tables and indices, and the marks of the format.
    private static func schema(_ db: Database) throws -> Table {
        let marks = try ["application_id", "user_version"].map { name in
            "\(name) \(try Int.fetchOne(db, sql: "PRAGMA \(name)") ?? 0)"
        }
        let statements = try String.fetchAll(
            db, sql: "SELECT quote(name) || '|' || quote(sql) FROM sqlite_schema ORDER BY type, name")
        return Table(name: "(schema)", rows: marks + statements)
    }

    private static func table(_ name: String, _ db: Database) throws -> Table {
        let columns = try db.columns(in: name).map { #""\#($0.name)""# }
        let key = try db.primaryKey(name).columns.map { #""\#($0)""# }
        let row = columns.map { "quote(\($0))" }.joined(separator: " || '|' || ")
        let order = key.isEmpty ? columns : key
        return Table(
            name: name,
            rows: try String.fetchAll(
                db, sql: "SELECT \(row) FROM \"\(name)\" ORDER BY \(order.joined(separator: ", "))"))
    }

    /// Where two databases differ first; nil if they hold the same.
    static func difference(_ found: StoredTables, _ expected: StoredTables) -> String? {
        let names = (found.tables.map(\.name), expected.tables.map(\.name))
        guard names.0 == names.1 else { return "tables \(names.0), not \(names.1)" }
        for (table, other) in zip(found.tables, expected.tables) where table != other {
            let index = zip(table.rows, other.rows).enumerated().first { $1.0 != $1.1 }?.offset
            let row = index ?? min(table.rows.count, other.rows.count)
            let rows = [table, other].map { row < $0.rows.count ? String($0.rows[row].prefix(2_000)) : "no row" }
            return "\(table.name), row \(row): \(rows[0])\n instead of: \(rows[1])"
        }
        return nil
    }
}

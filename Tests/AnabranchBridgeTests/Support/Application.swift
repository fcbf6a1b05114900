import AnabranchPostgresWire

/// A connection of an application, and what it reads as texts with `|` between values.
final class Application {
    let db: PostgresConnection

    init(_ url: String) throws { db = try PostgresConnection(url, seconds: 60) }

    func run(_ script: String) throws { try db.execute(script) }

    func rows(_ sql: String) throws -> [String] {
        let rows = try db.query(sql)
        return (0..<rows.count).map { row in
            (0..<rows.columnCount).map { rows[row, $0] ?? "∅" }.joined(separator: "|")
        }
    }
}

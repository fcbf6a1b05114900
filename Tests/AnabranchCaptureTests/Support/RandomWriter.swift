import AnabranchTesting
import GRDB

@testable import AnabranchCapture

/// Writes one database as applications do: by SQL on a connection of SQLite's, or with GRDB. Unique values begin with
/// the writer's name, so that those of two writers never meet.
final class RandomWriter: @unchecked Sendable {
    enum Kind: CaseIterable {
        case insert, insertMany, ignore, replaceInPlace, replaceByCode, upsert, update, updateMany, rekey, replaceCode
        case fail, rollback, delete, deleteAll, deleteFolder, link, tag, replaceTag, respellTag, deleteTag
    }

    private let app: CapturingApp
    private let name: String
    private var random: SeededRandom
    private var made = 0
    /// GRDB's connection; nil for a writer of SQL.
    private let queue: DatabaseQueue?
    private(set) var done: [String: Int] = [:]

    init(_ app: CapturingApp, _ name: String, _ random: SeededRandom) throws {
        (self.app, self.name, self.random) = (app, name, random)
        let isRecursive = Bool.random(using: &self.random) ? "ON" : "OFF"
        guard Bool.random(using: &self.random) else {
            queue = nil
            try app.db.execute("PRAGMA recursive_triggers = \(isRecursive)")
            return
        }
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA recursive_triggers = \(isRecursive)") }
        queue = try DatabaseQueue(path: app.path, configuration: configuration)
    }

    private func newMark() -> String {
        made += 1
        return "\(name)\(made)"
    }

    private func newCode() -> String { "\(name)\(Int.random(in: 0..<6, using: &random))" }

    private func mark() -> String { "'\(newMark())'" }

    private func code() -> String { "'\(newCode())'" }

    private func value() -> String {
        ["NULL", "1", "1.5", "'x'", "'X'", "x'00ff'", "'1'", "''", "-3"].randomElement(using: &random) ?? "NULL"
    }

    /// An order of rows that the seed gives.
    private func order(_ number: String) -> String {
        "ORDER BY (\(number) * 7919 + \(Int.random(in: 0..<1009, using: &random))) % 1009, \(number) LIMIT 1"
    }

    private func key(_ table: String = "item") -> String { "(SELECT id FROM \(table) \(order("id")))" }

    private func folder() -> String { Bool.random(using: &random) ? "NULL" : key("folder") }

    /// - Parameter keepsKeys: true if no key is given again: without triggers, rows would be taken for old ones.
    func write(keepsKeys: Bool = false) throws {
        guard let kind = Kind.allCases.randomElement(using: &random) else { return }
        if keepsKeys, ![.update, .updateMany, .delete].contains(kind) { return }
        do {
            if let queue {
                try queue.writeWithoutTransaction { db in try carryOut(kind, in: db) }
            } else {
                try app.db.execute(sql(kind))
            }
            done["\(queue == nil ? "SQL" : "GRDB") \(kind)", default: 0] += 1
        } catch let error as SQLError where error.isConstraint {
            // An application goes on.
            if kind == .rollback { try? app.db.execute("ROLLBACK") }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {}
    }

    // MARK: SQL

    private func sql(_ kind: Kind) -> String {
        let columns = "item (mark, code, body, n, folder)"
        func row() -> String { "(\(mark()), \(code()), \(value()), \(made), \(folder()))" }
        switch kind {
        case .insert: return "INSERT INTO folder (mark, name) VALUES (\(mark()), 'f')"
        case .insertMany:
            let rows = (0..<5).map { _ in "(\(mark()), NULL, \(value()), 1, \(folder()))" }
            return "INSERT INTO \(columns) VALUES \(rows.joined(separator: ", "))"
        case .ignore: return "INSERT OR IGNORE INTO \(columns) VALUES \(row())"
        case .replaceInPlace:
            return """
                INSERT OR REPLACE INTO item (id, mark, code, body, n, folder)
                SELECT id, mark, code, \(value()), 7, folder FROM item \(order("id"))
                """
        case .replaceByCode: return "INSERT OR REPLACE INTO \(columns) VALUES \(row())"
        case .upsert:
            return """
                INSERT INTO \(columns) VALUES \(row()) ON CONFLICT (code) DO UPDATE SET n = n + 1, body = excluded.body
                """
        case .update: return "UPDATE item SET body = \(value()), folder = \(folder()) WHERE id = \(key())"
        case .updateMany: return "UPDATE item SET n = \(Int.random(in: 0..<3, using: &random)), body = body"
        case .rekey: return "UPDATE item SET id = id + 1000 WHERE id = \(key())"
        case .replaceCode: return "UPDATE OR REPLACE item SET code = \(code()) WHERE id = \(key())"
        case .fail: return "UPDATE OR FAIL item SET code = \(code()) WHERE id > \(key())"
        case .rollback:
            return """
                BEGIN; INSERT INTO \(columns) VALUES \(row()); DELETE FROM item_tag; UPDATE item SET n = -1; ROLLBACK
                """
        case .delete: return "DELETE FROM item WHERE id = \(key())"
        case .deleteAll: return Int.random(in: 0..<4, using: &random) == 0 ? "DELETE FROM item" : "DELETE FROM item_tag"
        case .deleteFolder: return "DELETE FROM folder WHERE id = \(key("folder"))"
        case .link:
            return """
                INSERT OR IGNORE INTO item_tag (item, tag, mark)
                SELECT item.id, name, \(mark()) FROM item, tag WHERE name LIKE '\(name)%'
                \(order("item.id + tag.rowid"))
                """
        case .tag: return "INSERT OR IGNORE INTO tag VALUES (\(code()), \(mark()), 0)"
        case .replaceTag:
            return """
                INSERT OR REPLACE INTO tag SELECT name, mark, n + 1 FROM tag WHERE name LIKE '\(name)%'
                \(order("rowid"))
                """
        case .respellTag: return "UPDATE tag SET name = upper(name) WHERE name = \(code())"
        case .deleteTag: return "DELETE FROM tag WHERE name = \(code())"
        }
    }

    /// The statements that make a table anew with other values, as migrations do; no trigger sees it.
    private static func renewal(_ sql: String) -> String {
        """
        \(sql.replacing(/CREATE TABLE "?item"?/, with: "CREATE TABLE item_new"));
        INSERT INTO item_new SELECT id, mark, code, body, coalesce(n, 0) + 10, folder FROM item;
        DROP TABLE item;
        ALTER TABLE item_new RENAME TO item;
        """
    }

    func renewTable() throws {
        guard let sql = try app.db.value("SELECT sql FROM sqlite_schema WHERE name = 'item'")?.string else { return }
        if let queue {
            made += 1
            var migrator = DatabaseMigrator()
            migrator.registerMigration("renewal \(made)") { db in try db.execute(sql: Self.renewal(sql)) }
            return try migrator.migrate(queue)
        }
        try app.db.execute(
            "PRAGMA foreign_keys = OFF; BEGIN; \(Self.renewal(sql)); COMMIT; PRAGMA foreign_keys = ON;")
    }

    func vacuum() throws { if let queue { try queue.vacuum() } else { try app.db.execute("VACUUM") } }

    // MARK: GRDB

    private func item(in db: Database) throws -> ItemRow? {
        try ItemRow.fetchOne(db, sql: "SELECT * FROM item \(order("id"))")
    }

    private func folder(in db: Database) throws -> Int64? { try Int64.fetchOne(db, sql: "SELECT \(folder())") }

    private func value(in db: Database) throws -> DatabaseValue {
        try DatabaseValue.fetchOne(db, sql: "SELECT \(value())") ?? .null
    }

    private func newItem(_ code: String?, in db: Database) throws -> ItemRow {
        ItemRow(mark: newMark(), code: code, body: try value(in: db), n: made, folder: try folder(in: db))
    }

    private func carryOut(_ kind: Kind, in db: Database) throws {
        switch kind {
        case .insert: try FolderRow(mark: newMark(), name: "f").insert(db)
        case .insertMany:
            try db.inTransaction {
                for _ in 0..<5 { try newItem(nil, in: db).insert(db) }
                return .commit
            }
        case .ignore: try newItem(newCode(), in: db).insert(db, onConflict: .ignore)
        case .replaceInPlace:
            guard var item = try item(in: db) else { return }
            (item.body, item.n) = (try value(in: db), 7)
            try item.insert(db, onConflict: .replace)
        case .replaceByCode: try newItem(newCode(), in: db).insert(db, onConflict: .replace)
        case .upsert:
            _ = try newItem(newCode(), in: db).upsertAndFetch(db, onConflict: ["code"]) { _ in
                [Column("n") += 1, Column("mark").noOverwrite, Column("folder").noOverwrite]
            }
        case .update:
            guard var item = try item(in: db) else { return }
            (item.body, item.folder) = (try value(in: db), try folder(in: db))
            try item.update(db)
        case .updateMany: try ItemRow.updateAll(db, Column("n").set(to: Int.random(in: 0..<3, using: &random)))
        case .rekey:
            guard let id = try item(in: db)?.id else { return }
            try ItemRow.filter(key: id).updateAll(db, Column("id").set(to: id + 1000))
        case .replaceCode:
            guard let id = try item(in: db)?.id else { return }
            try ItemRow.filter(key: id).updateAll(db, onConflict: .replace, Column("code").set(to: newCode()))
        case .fail:
            guard let id = try item(in: db)?.id else { return }
            try ItemRow.filter(Column("id") > id).updateAll(db, onConflict: .fail, Column("code").set(to: newCode()))
        case .rollback:
            try db.inTransaction {
                try newItem(newCode(), in: db).insert(db)
                try ItemTagRow.deleteAll(db)
                try ItemRow.updateAll(db, Column("n").set(to: -1))
                return .rollback
            }
        case .delete:
            guard let id = try item(in: db)?.id else { return }
            try ItemRow.deleteOne(db, key: id)
        case .deleteAll:
            if Int.random(in: 0..<4, using: &random) == 0 {
                try ItemRow.deleteAll(db)
            } else {
                try ItemTagRow.deleteAll(db)
            }
        case .deleteFolder:
            guard let id = try Int64.fetchOne(db, sql: "SELECT \(key("folder"))") else { return }
            try FolderRow.deleteOne(db, key: id)
        case .link:
            guard let id = try item(in: db)?.id, let tag = try tag(in: db) else { return }
            try ItemTagRow(item: id, tag: tag.name, mark: newMark()).insert(db, onConflict: .ignore)
        case .tag: try TagRow(name: newCode(), mark: newMark(), n: 0).insert(db, onConflict: .ignore)
        case .replaceTag:
            guard var tag = try tag(in: db) else { return }
            tag.n = (tag.n ?? 0) + 1
            try tag.insert(db, onConflict: .replace)
        case .respellTag:
            try TagRow.filter(Column("name") == newCode()).updateAll(
                db, Column("name").set(to: Column("name").uppercased))
        case .deleteTag: try TagRow.deleteOne(db, key: newCode())
        }
    }

    /// A tag of this writer.
    private func tag(in db: Database) throws -> TagRow? {
        try TagRow.fetchOne(db, sql: "SELECT * FROM tag WHERE name LIKE '\(name)%' \(order("rowid"))")
    }
}

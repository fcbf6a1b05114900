import AnabranchTesting
import GRDB

@testable import AnabranchCapture

/// Writes one database as applications do, with one of their libraries. Unique values begin with the writer's name, so
/// that those of two writers never meet.
final class RandomWriter: @unchecked Sendable {
    /// The means by which an application writes.
    enum Library: String, CaseIterable {
        /// SQLite itself.
        case sqlite = "SQLite"
        case grdb = "GRDB"
        case shell = "sqlite3"
        case python = "Python"
        case django = "Django"
        case sqlAlchemy = "SQLAlchemy"
        case peewee = "Peewee"
        case sqliteUtils = "SQLiteUtils"
    }

    enum Kind: String, CaseIterable {
        case insertOne, insertMany, ignore, replaceInPlace, replaceByCode, upsert, updateOne, updateMany, rekey
        case replaceCode, fail, rollback, deleteOne, deleteAll, deleteFolder, link, tag, replaceTag, respellTag
        case deleteTag
    }

    /// How statements get to the database.
    private enum Connection {
        case sql((String) throws -> Void)
        case grdb(DatabaseQueue)
        case process(WriterProcess)
    }

    private let app: CapturingApp
    private let name: String
    private let library: Library
    private var random: SeededRandom
    private var made = 0
    private let connection: Connection
    /// The writes that have succeeded, by library and kind.
    private(set) var done: [String: Int] = [:]

    init(
        _ app: CapturingApp, _ name: String, _ library: Library, _ random: SeededRandom, _ processes: WriterProcesses
    ) throws {
        (self.app, self.name, self.library, self.random) = (app, name, library, random)
        // Each connection of an application decides that.
        let isRecursive = Bool.random(using: &self.random) ? 1 : 0, checks = Bool.random(using: &self.random) ? 1 : 0
        switch library {
        case .sqlite:
            try app.db.execute("PRAGMA recursive_triggers = \(isRecursive)")
            connection = .sql(app.db.execute)
        case .shell:
            let shell = try WriterProcess(shell: app.path)
            try shell.execute("PRAGMA recursive_triggers = \(isRecursive); PRAGMA foreign_keys = \(checks)")
            connection = .sql(shell.execute)
        case .grdb:
            var configuration = Configuration()
            configuration.busyMode = .timeout(10)
            configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA recursive_triggers = \(isRecursive)") }
            connection = .grdb(try DatabaseQueue(path: app.path, configuration: configuration))
        case .python, .django, .sqlAlchemy, .peewee, .sqliteUtils:
            let process = try processes.process(of: library.rawValue, for: name)
            try process.call("open", [app.path, ["recursive_triggers": isRecursive, "foreign_keys": checks]])
            connection = .process(process)
        }
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
        if keepsKeys, ![.updateOne, .updateMany, .deleteOne].contains(kind) { return }
        do {
            switch connection {
            case .sql(let execute):
                do { try execute(sql(kind)) } catch {
                    if kind == .rollback { try? execute("ROLLBACK") }
                    throw error
                }
            case .grdb(let queue): try queue.writeWithoutTransaction { db in try carryOut(kind, in: db) }
            case .process(let process): try process.call(kind.rawValue, [request()])
            }
            count(kind.rawValue)
        } catch let error where Self.isConstraint(error) {
            // An application goes on.
        }
    }

    private static func isConstraint(_ error: any Error) -> Bool {
        switch error {
        case let error as SQLError: error.isConstraint
        case let error as DatabaseError: error.resultCode == .SQLITE_CONSTRAINT
        case let error as WriterProcess.Complaint: error.isConstraint
        default: false
        }
    }

    private func count(_ what: String) { done["\(library.rawValue) \(what)", default: 0] += 1 }

    /// The values of what a library for Python writes.
    private func request() -> [String: Any] {
        [
            "name": name, "marks": (0..<5).map { _ in newMark() }, "code": newCode(),
            "values": (0..<5).map { _ in value() }, "n": made, "salt": Int.random(in: 0..<1009, using: &random),
            "filed": Bool.random(using: &random),
        ]
    }

    // MARK: SQL

    private func sql(_ kind: Kind) -> String {
        let columns = "item (mark, code, body, n, folder)"
        func row() -> String { "(\(mark()), \(code()), \(value()), \(made), \(folder()))" }
        switch kind {
        case .insertOne: return "INSERT INTO folder (mark, name) VALUES (\(mark()), 'f')"
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
        case .updateOne: return "UPDATE item SET body = \(value()), folder = \(folder()) WHERE id = \(key())"
        case .updateMany: return "UPDATE item SET n = \(Int.random(in: 0..<3, using: &random)), body = body"
        case .rekey: return "UPDATE item SET id = id + 1000 WHERE id = \(key())"
        case .replaceCode: return "UPDATE OR REPLACE item SET code = \(code()) WHERE id = \(key())"
        case .fail: return "UPDATE OR FAIL item SET code = \(code()) WHERE id > \(key())"
        case .rollback:
            return """
                BEGIN; INSERT INTO \(columns) VALUES \(row()); DELETE FROM item_tag; UPDATE item SET n = -1; ROLLBACK
                """
        case .deleteOne: return "DELETE FROM item WHERE id = \(key())"
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

    /// Makes a table anew by the library's own means.
    func renewTable() throws {
        func renewal() throws -> String {
            Self.renewal(try app.db.value("SELECT sql FROM sqlite_schema WHERE name = 'item'")?.string ?? "")
        }
        switch connection {
        case .sql(let execute):
            // A connection that has checked no foreign keys begins to.
            try execute("PRAGMA foreign_keys = OFF; BEGIN; \(try renewal()) COMMIT; PRAGMA foreign_keys = ON")
        case .grdb(let queue):
            made += 1
            let sql = try renewal()
            var migrator = DatabaseMigrator()
            migrator.registerMigration("renewal \(made)") { db in try db.execute(sql: sql) }
            try migrator.migrate(queue)
        case .process(let process): try process.call("renew")
        }
        count("renew")
    }

    func vacuum() throws {
        switch connection {
        case .sql(let execute): try execute("VACUUM")
        case .grdb(let queue): try queue.vacuum()
        case .process(let process): try process.call("vacuum")
        }
        count("vacuum")
    }

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
        case .insertOne: try FolderRow(mark: newMark(), name: "f").insert(db)
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
        case .updateOne:
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
        case .deleteOne:
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

import AnabranchClient
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchCapture

/// Random writers of two databases, off line and on line at random, and a server (`Spec/Capture.md`, section 3).
@Suite(.timeLimit(.minutes(30))) struct RandomExchangeTests {
    private static let environment = ProcessInfo.processInfo.environment

    /// More of them: `ANABRANCH_CAPTURES=2000 swift test --filter RandomExchangeTests`.
    @Test func rowsAreEqualAtRestAndKeepTheirIdentities() async throws {
        let only = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        let first = Self.environment["ANABRANCH_FIRST"].flatMap(UInt64.init) ?? 1
        let count = Self.environment["ANABRANCH_CAPTURES"].flatMap(UInt64.init) ?? 10
        var done: [String: Int] = [:]
        try await CaptureWorld.run { world in
            for seed in only.map({ $0...$0 }) ?? first...(first + count - 1) {
                do {
                    let run = try RandomExchange(seed, in: world)
                    try await run.carryOut()
                    done.merge(run.done) { $0 + $1 }
                } catch {
                    Issue.record(
                        """
                        seed \(seed): \(error); repeat with
                        ANABRANCH_SEED=\(seed) swift test --filter RandomExchangeTests
                        """)
                }
            }
        }
        if only == nil {
            for kind in RandomWriter.Kind.allCases { #expect(done["\(kind)"] ?? 0 > 0, "no \(kind) has succeeded") }
        }
    }
}

/// Two databases that are written, paused, migrated, closed and synchronized in random order.
private final class RandomExchange {
    private let apps: [CapturingApp]
    private let writers: [RandomWriter]
    private let tables = ["folder", "item", "tag", "item_tag"]
    private var random: SeededRandom
    private var isOnline = [true, true]
    /// The object of each row, by what the row has got when it was made.
    private var objects: [String: String] = [:]

    /// The statements that have succeeded, by kind.
    var done: [String: Int] { writers.reduce(into: [:]) { $0.merge($1.done) { $0 + $1 } } }

    init(_ seed: UInt64, in world: CaptureWorld) throws {
        random = SeededRandom(seed: seed)
        let action = random.pick(["SET NULL", "CASCADE", "NO ACTION", "SET NULL ON UPDATE CASCADE"])
        let schema = """
            PRAGMA journal_mode = \(Bool.random(using: &random) ? "WAL" : "DELETE");
            PRAGMA synchronous = OFF;
            CREATE TABLE folder (id INTEGER PRIMARY KEY, mark TEXT, name TEXT);
            CREATE TABLE item (id INTEGER PRIMARY KEY, mark TEXT, code TEXT UNIQUE, body, n INTEGER,
              folder INTEGER REFERENCES folder ON DELETE \(action));
            CREATE TABLE tag (name TEXT COLLATE NOCASE PRIMARY KEY, mark TEXT, n INTEGER);
            CREATE TABLE item_tag (item INTEGER NOT NULL REFERENCES item ON DELETE CASCADE ON UPDATE CASCADE,
              tag TEXT NOT NULL COLLATE NOCASE REFERENCES tag ON DELETE CASCADE ON UPDATE CASCADE, mark TEXT,
              PRIMARY KEY (item, tag)) WITHOUT ROWID;
            """
        apps = try ["a", "b"].map { try CapturingApp("\($0)-\(seed)", in: world, schema, partition: "rows-\(seed)") }
        writers = try zip(apps, ["a", "b"]).map { app, name in
            try RandomWriter(app, name, SeededRandom(seed: seed &* 2 + (name == "a" ? 0 : 1)))
        }
        for (app, writer) in zip(apps, writers) {
            // Rows that are there before, in one of them or in both.
            for _ in 0..<Int.random(in: 0...5, using: &random) { try writer.write() }
            try app.install(tables)
        }
    }

    func carryOut() async throws {
        for step in 0..<Int.random(in: 10...30, using: &random) {
            do {
                try await self.step()
            } catch {
                throw Failure("step \(step): \(error)")
            }
        }
        try await rest()
        for app in apps {
            try await app.close()
            try app.database.uninstall()
            let left = try app.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'sync%'")
            guard left.isEmpty else { throw Failure("left by uninstall: \(left)") }
        }
    }

    private func step() async throws {
        let index = Int.random(in: 0...1, using: &random)
        let app = apps[index], writer = writers[index]
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<10: for _ in 0..<Int.random(in: 1...6, using: &random) { try writer.write() }
        case 10..<15: try await pass(index)
        case 15: isOnline[index].toggle()
        case 16: try await app.close()
        case 17: try await migrate(app, writer)
        case 18: try await rest()
        default:
            // Both at the same time.
            let count = Int.random(in: 1...6, using: &random)
            let writing = Task { for _ in 0..<count { try writer.write() } }
            try await synchronize(index)
            try await writing.value
        }
    }

    private func pass(_ index: Int) async throws {
        try await synchronize(index)
        try checkIdentities(apps[index])
    }

    private func synchronize(_ index: Int) async throws {
        let app = apps[index]
        try await app.open(online: isOnline[index])
        if isOnline[index] { try await app.synchronize() } else { try await app.capture?.pass() }
    }

    /// A table is made anew, as migrations do it; with a pause or without, with other values or not.
    private func migrate(_ app: CapturingApp, _ writer: RandomWriter) async throws {
        let pauses = Bool.random(using: &random)
        if pauses { try app.database.pause() }
        if Bool.random(using: &random) { try writer.renewTable() } else { try app.db.execute("VACUUM") }
        // Without triggers, a key that is given again would be taken for the old one.
        guard pauses else { return try await pass(app === apps[0] ? 0 : 1) }
        for _ in 0..<Int.random(in: 0...3, using: &random) { try writer.write(keepsKeys: true) }
        try app.database.resume()
    }

    /// Rows keep their objects: those of both databases, at all times.
    private func checkIdentities(_ app: CapturingApp) throws {
        for (number, table) in tables.enumerated() {
            let key = ["id", "id", "quote(name)", "quote(item) || ',' || quote(tag)"][number]
            for row in try app.db.rows(
                """
                SELECT mark, hex(guid) FROM \(table) JOIN sync_row ON key = \(key)
                AND tbl = (SELECT id FROM sync_table WHERE name = '\(table)')
                """)
            {
                guard let mark = row[0].string, let guid = row[1].string else { continue }
                if let old = objects.updateValue(guid, forKey: mark), old != guid {
                    throw Failure("the row \(mark) of \(table) has become another object")
                }
            }
        }
    }

    private func rest() async throws {
        isOnline = [true, true]
        var rounds: [CaptureProgress] = []
        for _ in 0..<8 {
            for app in apps {
                try await app.open()
                rounds.append(try await app.synchronize())
            }
            // The first round may only upload.
            if rounds.count > 2, rounds.suffix(2).allSatisfy(\.isEmpty) { break }
        }
        for app in apps {
            let more = try await app.synchronize()
            guard more.isEmpty else { throw Failure("it does not come to rest: \(more) after \(rounds)") }
            guard try app.uncollected() == 0 else { throw Failure("entries are left") }
            try checkIdentities(app)
            try await compare(app)
        }
        // What waits has another row on the device that made it, or none.
        for query in Self.contents where try apps.allSatisfy({ try $0.waitingCount() == 0 }) {
            let rows = try apps.map { try $0.rows(query) }
            guard rows[0] == rows[1] else { throw Failure("\(query): \(rows[0]) and \(rows[1])") }
        }
    }

    /// Each row is equal to its object, unless that waits.
    private func compare(_ app: CapturingApp) async throws {
        guard let state = try await app.capture?.replica.snapshot().state else { return }
        let database = try app.database
        var differences: [CaptureDifference] = []
        _ = try database.compare(with: state) { differences.append($0) }
        differences.removeAll { $0.reason != nil }
        guard differences.isEmpty else { throw Failure("\(app.path): \(differences)") }
    }

    private static let contents = [
        "SELECT mark, name FROM folder ORDER BY mark",
        """
        SELECT item.mark, code, typeof(body), body, n, folder.mark FROM item LEFT JOIN folder ON folder.id = folder
        ORDER BY item.mark
        """,
        "SELECT mark, name, n FROM tag ORDER BY mark",
        "SELECT item_tag.mark, item.mark, lower(tag) FROM item_tag JOIN item ON item.id = item ORDER BY item_tag.mark",
    ]
}

private struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Writes one database as applications do. Unique values begin with the writer's name, so that those of two writers
/// never meet.
private final class RandomWriter: @unchecked Sendable {
    enum Kind: CaseIterable {
        case insert, insertMany, ignore, replaceInPlace, replaceByCode, upsert, update, updateMany, rekey, replaceCode
        case fail, rollback, delete, deleteAll, deleteFolder, link, tag, replaceTag, respellTag, deleteTag
    }

    private let app: CapturingApp
    private let name: String
    private var random: SeededRandom
    private var made = 0
    private(set) var done: [String: Int] = [:]

    init(_ app: CapturingApp, _ name: String, _ random: SeededRandom) throws {
        (self.app, self.name, self.random) = (app, name, random)
        if Bool.random(using: &self.random) { try app.db.execute("PRAGMA recursive_triggers = ON") }
    }

    private func mark() -> String {
        made += 1
        return "'\(name)\(made)'"
    }

    private func code() -> String { "'\(name)\(Int.random(in: 0..<6, using: &random))'" }

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
            try app.db.execute(sql(kind))
            done["\(kind)", default: 0] += 1
        } catch let error as SQLError where error.isConstraint {
            // An application goes on.
            if kind == .rollback { try? app.db.execute("ROLLBACK") }
        }
    }

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

    /// Makes a table anew with other values, as migrations do; no trigger sees it.
    func renewTable() throws {
        guard let sql = try app.db.value("SELECT sql FROM sqlite_schema WHERE name = 'item'")?.string else { return }
        try app.db.execute(
            """
            PRAGMA foreign_keys = OFF;
            BEGIN;
            \(sql.replacing(/CREATE TABLE "?item"?/, with: "CREATE TABLE item_new"));
            INSERT INTO item_new SELECT id, mark, code, body, coalesce(n, 0) + 10, folder FROM item;
            DROP TABLE item;
            ALTER TABLE item_new RENAME TO item;
            COMMIT;
            PRAGMA foreign_keys = ON;
            """)
    }
}

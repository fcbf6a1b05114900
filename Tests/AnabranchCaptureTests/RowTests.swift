@testable import AnabranchCapture
import AnabranchClient
import Testing

/// The changes that applications and their tables make to rows (`Spec/Capture.md`).
@Suite struct RowTests {
    private static let tags = "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INTEGER DEFAULT 0)"

    @Test(arguments: ["PRAGMA recursive_triggers = OFF", "PRAGMA recursive_triggers = ON"])
    func aReplacedRowStaysTheSameObject(_ setting: String) async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, Self.tags), b = try CapturingApp("b", in: world, Self.tags)
            for app in [a, b] { try app.install(["tag"]) }
            try a.db.execute(setting)
            try a.db.execute("INSERT INTO tag (id, name) VALUES (1, 'red'), (2, 'blue'), (3, 'green')")
            for app in [a, b] { try await app.synchronize() }
            let key = try b.rows("SELECT id FROM tag WHERE name = 'red'")
            // The row 1 is replaced in its place, and the row 2 has to go for it.
            try a.db.execute("INSERT OR REPLACE INTO tag VALUES (1, 'blue', 5)")
            try a.db.execute("INSERT INTO tag VALUES (3, 'green', 0) ON CONFLICT (id) DO UPDATE SET n = 9")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT name, n FROM tag ORDER BY name") == ["blue|5", "green|9"])
            #expect(try b.rows("SELECT id FROM tag WHERE name = 'blue'") == key)
            try a.db.execute("DELETE FROM tag; VACUUM")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT * FROM tag") == [])
            for app in [a, b] { try await app.close() }
        }
    }

    @Test func oneOfTwoRowsWithAUniqueTextYields() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, Self.tags), b = try CapturingApp("b", in: world, Self.tags)
            var rule = TableRule()
            rule.yielding = .suffix("name")
            for app in [a, b] {
                try app.install(["tag"], rules: ["tag": rule])
                try app.db.execute("INSERT INTO tag (name) VALUES ('red')")
            }
            for app in [a, b, a, b] { try await app.synchronize() }
            for app in [a, b] {
                #expect(try app.rows("SELECT name FROM tag ORDER BY name") == ["red", "red (2)"])
                #expect(try app.rows("SELECT * FROM sync_pending") == [])
                try await app.close()
            }
        }
    }

    @Test(arguments: [TableRule.Yielding.null("name"), .newest("name")])
    func oneOfTwoRowsYieldsAsTheRuleSays(_ rule: TableRule.Yielding) async throws {
        try await CaptureWorld.run { world in
            let schema = "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, n, UNIQUE (n, name))"
            let a = try CapturingApp("a", in: world, schema), b = try CapturingApp("b", in: world, schema)
            var rules = TableRule()
            rules.yielding = rule
            // The row of the first one is made first, whoever is synchronized first.
            for (app, name) in [(a, "red"), (b, "RED")] {
                try app.install(["tag"], rules: ["tag": rules])
                try app.db.execute("INSERT INTO tag (name, n) VALUES ('\(name)', 1), ('other', 1), ('other', NULL)")
                try await app.open(online: false)
                try await #require(app.capture).pass()
            }
            for app in [b, a, b, a] {
                try await app.open()
                try await app.synchronize()
            }
            for app in [a, b] {
                let names = "SELECT coalesce(lower(name), '∅'), count(*) FROM tag"
                let grouped = try app.rows("\(names) WHERE lower(name) = 'red' OR name IS NULL GROUP BY name")
                #expect(grouped == (rule.name == "null" ? ["∅|2", "red|1"] : ["red|1"]))
                #expect(try app.rows("SELECT count(*) FROM tag WHERE n IS NULL AND name = 'other'") == ["2"])
                let first = try app.rows("SELECT name FROM tag WHERE lower(name) = 'red'")
                #expect(first == (rule.name == "null" ? ["red"] : ["RED"]))
                #expect(try app.rows("SELECT * FROM sync_pending") == [])
            }
            let lost = try [a, b].flatMap { try $0.rows("SELECT lost FROM sync_conflict WHERE kind = 'newest'") }
            #expect(lost.contains { $0.contains("red") } == (rule.name == "newest"))
            for app in [a, b] { try await app.close() }
        }
    }

    @Test func ofALongValueThatIsLostTheFirstPartIsKept() async throws {
        try await CaptureWorld.pair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)", ["note"]) { a, b in
            try a.db.execute("INSERT INTO note VALUES (1, 'short')")
            for app in [a, b] { try await app.synchronize() }
            try b.db.execute("DELETE FROM note")
            try await b.synchronize()
            try await #require(a.capture).replica.waitForDownload()
            try a.db.execute("UPDATE note SET title = '\(String(repeating: "é", count: 100_000))'")
            try await #require(a.capture).pass()
            let isCut = "length(CAST(lost AS BLOB)) < 70000 AND instr(lost, 'first 65536 of')"
            #expect(try a.rows("SELECT kind, \(isCut) FROM sync_conflict") == ["erased|1"])
        }
    }

    /// The process ends after the replica's half of a step.
    @Test func whatAStepGivesUpIsKeptByTheNextProcess() async throws {
        try await CaptureWorld.pair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)", ["note"]) { a, b in
            try a.db.execute("INSERT INTO note VALUES (1, 'x')")
            for app in [a, b] { try await app.synchronize() }
            try b.db.execute("DELETE FROM note")
            try await b.synchronize()
            try await #require(a.capture).replica.waitForDownload()
            try a.db.execute("UPDATE note SET title = 'y'; INSERT INTO note VALUES (2, 'z')")
            try await a.endInTheMiddleOfAStep()
            for app in [a, b] { try await app.synchronize() }
            #expect(try a.rows("SELECT kind, lost FROM sync_conflict") == [#"erased|{"title":"y"}"#])
            for app in [a, b] { #expect(try app.rows("SELECT title FROM note") == ["z"]) }
        }
    }

    @Test func aReferenceThatLeadsNowhereIsForgottenWithItsRow() async throws {
        let schema = """
            CREATE TABLE folder (id INTEGER PRIMARY KEY);
            CREATE TABLE note (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder)
            """
        try await CaptureWorld.pair(schema, ["note", "folder"]) { a, _ in
            try a.db.execute("PRAGMA foreign_keys = OFF; INSERT INTO note VALUES (1, 7), (2, 8)")
            try await a.synchronize()
            #expect(try a.rows("SELECT key, target_key FROM sync_dangling ORDER BY key") == ["1|7", "2|8"])
            try a.db.execute("DELETE FROM note WHERE id = 1")
            try await a.synchronize()
            #expect(try a.rows("SELECT key, target_key FROM sync_dangling ORDER BY key") == ["2|8"])
        }
    }

    @Test func withoutARuleTheRowOfOthersWaits() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, Self.tags), b = try CapturingApp("b", in: world, Self.tags)
            for app in [a, b] {
                try app.install(["tag"])
                try app.db.execute("INSERT INTO tag (name) VALUES ('red')")
            }
            try await a.synchronize()
            #expect(try await b.synchronize().waiting == 1)
            #expect(try b.rows("SELECT reason FROM sync_pending") == ["UNIQUE constraint failed: tag.name"])
            try b.db.execute("UPDATE tag SET name = 'crimson'")
            #expect(try await b.synchronize().waiting == 0)
            #expect(try b.rows("SELECT name FROM tag ORDER BY name") == ["crimson", "red"])
            for app in [a, b] { try await app.close() }
        }
    }

    /// Such a constraint or trigger would take away another row, or everything of the transaction.
    @Test(arguments: [
        ("ON CONFLICT REPLACE", ""), ("on  conflict rollback", ""), ("ON CONFLICT IGNORE", ""),
        ("", "CREATE TRIGGER r BEFORE INSERT ON tag WHEN NEW.name = 'red' BEGIN SELECT RAISE(ROLLBACK, 'no'); END"),
    ])
    func whatATableDoesAboutConflictsTakesNoRowAway(_ clause: String, _ trigger: String) async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, Self.tags)
            let b = try CapturingApp(
                "b", in: world, "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE \(clause))")
            for app in [a, b] { try app.install(["tag"]) }
            try b.db.execute("INSERT INTO tag (name) VALUES ('\(trigger.isEmpty ? "red" : "blue")')")
            try b.db.execute(trigger)
            try a.db.execute("INSERT INTO tag (name) VALUES ('green'), ('red'), ('yellow')")
            try await a.synchronize()
            #expect(try await b.synchronize().waiting == 1)
            let names = ["green", trigger.isEmpty ? "red" : "blue", "yellow"]
            #expect(try b.rows("SELECT name FROM tag ORDER BY name") == names.sorted())
            #expect(try b.rows("SELECT count(*) FROM sync_row") == ["3"])
            // Changes of the application are sent all the same.
            try b.db.execute("UPDATE tag SET name = 'GREEN' WHERE name = 'green'")
            for app in [b, a] { try await app.synchronize() }
            #expect(try a.rows("SELECT count(*) FROM tag WHERE name = 'GREEN'") == ["1"])
            for app in [a, b] { try await app.close() }
        }
    }

    @Test func notEveryStatementIsKept() async throws {
        try await CaptureWorld.run { world in
            let db = try CapturingApp("a", in: world, Self.tags).db
            for number in 0..<1_000 { #expect(try db.value("SELECT \(number)") == .int(Int64(number))) }
            #expect(db.preparedCount <= 200)
            // One that is running is kept.
            var rows: [SQLValue] = []
            try db.run("SELECT 1 UNION SELECT 2") { row in
                rows.append(row[0])
                for number in 0..<1_000 { _ = try db.value("SELECT \(number) + 1") }
            }
            #expect(rows == [.int(1), .int(2)])
        }
    }

    @Test func whatHappensDuringAPauseIsFound() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, Self.tags), b = try CapturingApp("b", in: world, Self.tags)
            for app in [a, b] { try app.install(["tag"]) }
            try a.db.execute("INSERT INTO tag (id, name) VALUES (1, 'red'), (2, 'blue'), (3, 'green')")
            for app in [a, b] { try await app.synchronize() }
            try await a.close()
            try a.database.pause()
            try a.db.execute(
                """
                ALTER TABLE tag ADD COLUMN mark TEXT;
                UPDATE tag SET name = 'RED', mark = 'x' WHERE id = 1; DELETE FROM tag WHERE id = 2;
                INSERT INTO tag (id, name) VALUES (4, 'new');
                """)
            #expect(throws: CaptureError.self) { try RowCapture(database: a.path, replica: a.path + ".replica") }
            try a.database.resume()
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT name FROM tag ORDER BY name") == ["RED", "green", "new"])
            for app in [a, b] { try await app.close() }
        }
    }

    @Test(arguments: [
        ("CREATE TABLE t (a)", "table t: it has no primary key: the numbers of its rows change with VACUUM"),
        ("CREATE VIEW t AS SELECT 1", "table t: it is a view: capture the tables that it shows"),
        ("CREATE TABLE t (_id TEXT PRIMARY KEY)", "table t, column _id: objects have their identity under this name"),
        ("CREATE VIRTUAL TABLE t USING fts5(a)", "table t: it is a virtual table, which has no triggers"),
        (
            "CREATE TABLE u (id INTEGER PRIMARY KEY); CREATE TABLE t (id INTEGER PRIMARY KEY, u REFERENCES u)",
            "table t, column u: it has keys of the table u, which is not captured"
        ),
        ("SELECT 1", "table t: there is no such table"),
    ])
    func unsuitableTablesAreRefusedAndNothingIsChanged(_ schema: String, _ reason: String) async throws {
        try await CaptureWorld.run { world in
            let app = try CapturingApp("a", in: world, Self.tags + "; " + schema)
            let before = try app.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
            let error = #expect(throws: CaptureError.self) { try app.install(["tag", "t"]) }
            #expect(error?.description == reason)
            #expect(try app.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY name") == before)
        }
    }
}

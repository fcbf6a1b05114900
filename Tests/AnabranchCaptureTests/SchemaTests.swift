import Foundation
import Testing

@testable import AnabranchCapture

/// Changes of the schema, and what is refused at installation (`Spec/Capture.md`, sections 2 and 5).
@Suite struct SchemaTests {
    private static let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT, mark TEXT)"

    private static let longName = String(repeating: "x", count: 64)

    @Test func triggersThatAreGoneAreMadeAgainAndTheirRowsCompared() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute("INSERT INTO note (title) VALUES ('one'), ('two'), ('three')")
            for app in [a, b] { try await app.synchronize() }
            for ending in CapturedTable.triggerEndings { try a.db.execute("DROP TRIGGER sync_note_\(ending)") }
            #expect(try a.database.status().tables.map(\.hasTriggers) == [false])
            try a.db.execute(
                """
                UPDATE note SET body = 'x' WHERE title = 'one'; DELETE FROM note WHERE title = 'two';
                INSERT INTO note (title) VALUES ('four')
                """)
            #expect(try await a.synchronize().renewedTables == ["note"])
            try await b.synchronize()
            #expect(try b.rows("SELECT title, body FROM note ORDER BY title") == ["four|∅", "one|x", "three|∅"])
            #expect(try a.database.status().tables.map(\.hasTriggers) == [true])
        }
    }

    /// SQLite writes the new name into the triggers itself, so that nothing seems to be missing.
    @Test func aRenamedColumnKeepsItsValues() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute("INSERT INTO note (title, body) VALUES ('one', 'text')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("ALTER TABLE note RENAME COLUMN body TO content")
            try await a.synchronize()
            try b.db.execute("UPDATE note SET title = 'ONE'")
            for app in [b, a] { try await app.synchronize() }
            #expect(try a.rows("SELECT title, content FROM note") == ["ONE|text"])
            try b.db.execute("ALTER TABLE note RENAME COLUMN body TO content")
            for app in [b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows("SELECT title, content FROM note") == ["ONE|text"]) }
        }
    }

    /// Entries name columns by their places, which are others when one is dropped.
    @Test func aDroppedColumnHidesNoChangeOfAnother() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute("INSERT INTO note (title, body, mark) VALUES ('one', 'text', 'm')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE note SET mark = NULL")
            try a.database.pause()
            try a.db.execute("ALTER TABLE note DROP COLUMN title; ALTER TABLE note ADD COLUMN n INTEGER DEFAULT 7")
            try a.database.resume()
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT title, body, mark FROM note") == ["one|text|∅"])
            // A row that is changed as well keeps what others have in its new column.
            try b.db.execute("UPDATE note SET body = 'TEXT'; ALTER TABLE note ADD COLUMN n INTEGER")
            for app in [b, a] { try await app.synchronize() }
            #expect(try b.rows("SELECT body, n FROM note") == ["TEXT|7"])
            #expect(try a.rows("SELECT body, mark, n FROM note") == ["TEXT|∅|7"])
        }
    }

    @Test func aTableThatIsGoneIsNamedAndCanBeReleased() async throws {
        let schema = Self.notes + "; CREATE TABLE tag (id INTEGER PRIMARY KEY)"
        try await CaptureWorld.pair(schema, ["note", "tag"]) { a, _ in
            try await a.synchronize()
            try a.db.execute("ALTER TABLE tag RENAME TO label")
            let error = await #expect(throws: CaptureError.self) { try await a.synchronize() }
            #expect(error?.description == "table tag: there is no such table")
            #expect(try a.database.status().tables.map(\.fault) == [nil, "there is no such table"])
            try a.database.uninstall(["tag"])
            try await a.synchronize()
            try a.db.execute("INSERT INTO label VALUES (1)")
            #expect(try a.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'sync_tag%'") == [])
            #expect(try await a.synchronize().isEmpty)
        }
    }

    @Test func aTableThatOthersReferToIsNotReleased() async throws {
        let schema = "CREATE TABLE u (id INTEGER PRIMARY KEY); CREATE TABLE t (id INTEGER PRIMARY KEY, u REFERENCES u)"
        try await CaptureWorld.pair(schema, ["t", "u"]) { a, _ in
            let before = try a.rows("SELECT name FROM sqlite_schema ORDER BY name")
            #expect(throws: CaptureError.self) { try a.database.uninstall(["u"]) }
            #expect(throws: CaptureError.self) { try a.database.uninstall(["t", "none"]) }
            #expect(try a.rows("SELECT name FROM sqlite_schema ORDER BY name") == before)
        }
    }

    @Test func generatedColumnsAreLeftOutAndNamed() async throws {
        let schema = """
            CREATE TABLE t (
              id INTEGER PRIMARY KEY, a INTEGER, twice INTEGER AS (2 * a), thrice INTEGER AS (3 * a) STORED)
            """
        try await CaptureWorld.run { world in
            let apps = try ["a", "b"].map { try CapturingApp($0, in: world, schema) }
            for app in apps {
                #expect(
                    try app.database.install(["t"]) == [
                        "table t, column twice: generated, so it is not synced",
                        "table t, column thrice: generated, so it is not synced",
                    ])
            }
            try apps[0].db.execute("INSERT INTO t (a) VALUES (5)")
            for app in apps { try await app.synchronize() }
            #expect(try apps[1].rows("SELECT a, twice, thrice FROM t") == ["5|10|15"])
            for app in apps { try await app.close() }
        }
    }

    @Test(arguments: [
        (
            """
            CREATE TABLE u (id INTEGER PRIMARY KEY, a, UNIQUE (id, a));
            CREATE TABLE t (k TEXT PRIMARY KEY, u INTEGER, a, FOREIGN KEY (u, a) REFERENCES u (id, a));
            """,
            """
            table t, column u: its values are numbers of rows, which differ between databases: name their table in \
            'references'
            """
        ),
        (
            "CREATE TABLE u (id INTEGER PRIMARY KEY); CREATE TABLE t (id INTEGER PRIMARY KEY, \(longName))",
            "table t, column \(longName): the name is longer than 63 bytes"
        ),
        (
            """
            CREATE TABLE u (id INTEGER PRIMARY KEY); INSERT INTO u VALUES (1); CREATE TABLE t (id INTEGER PRIMARY KEY);
            CREATE TRIGGER r BEFORE DELETE ON u BEGIN SELECT RAISE(ROLLBACK, 'never'); END
            """,
            "table u: writing to it fails with what this program has: never"
        ),
        (
            "CREATE TABLE u (id INTEGER PRIMARY KEY); CREATE TABLE sync_row (a)",
            "the database has a 'sync_row' of its own"
        ),
        (
            """
            CREATE TABLE u (id INTEGER PRIMARY KEY); CREATE TABLE t (Z_PK INTEGER PRIMARY KEY, Z_OPT INTEGER);
            CREATE TABLE Z_PRIMARYKEY (Z_ENT INTEGER PRIMARY KEY, Z_NAME, Z_MAX INTEGER);
            CREATE TABLE Z_METADATA (Z_VERSION INTEGER PRIMARY KEY, Z_UUID)
            """,
            "table u: Core Data counts its keys, and fails where others insert: let 'pull' have no insert"
        ),
    ])
    func whatCannotBeSyncedIsNamedAndNothingIsChanged(_ schema: String, _ reason: String) async throws {
        try await CaptureWorld.run { world in
            let app = try CapturingApp("a", in: world, schema)
            let before = try app.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
            let error = #expect(throws: CaptureError.self) { try app.install(["u", "t"]) }
            #expect(error?.description.hasPrefix(reason) == true, "\(error?.description ?? "")")
            #expect(try app.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY name") == before)
        }
    }

    /// Quotation marks, each before an accent too.
    @Test func namesAreQuotedWhateverIsInThem() async throws {
        let name = "a\"\u{301}b\"", quoted = "\"a\"\"\u{301}b\"\"\""
        try await CaptureWorld.pair("CREATE TABLE \(quoted) (id TEXT PRIMARY KEY, \(quoted))", [name]) { a, b in
            try a.db.execute("INSERT INTO \(quoted) VALUES ('x', 'y')")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT * FROM \(quoted)") == ["x|y"])
        }
    }

    /// To SQLite, names are one that differ in the case of A to Z alone.
    @Test func aTableWithAnotherPrimaryKeyIsNamedAndCanBeMatched() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute("INSERT INTO note (title) VALUES ('one'), ('two')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute(
                """
                CREATE TABLE other (title TEXT PRIMARY KEY, body TEXT, mark TEXT);
                INSERT INTO other SELECT title, body, mark FROM note;
                DROP TABLE note; ALTER TABLE other RENAME TO note
                """)
            do {
                try await a.synchronize()
                Issue.record("it went on")
            } catch let error as CaptureError { #expect(error.code == .notCapturable && error.table == "note") }
            try a.database.uninstall(["note"])
            var rule = TableRule()
            rule.matches = ["title"]
            try a.install(["note"], rules: ["note": rule])
            try a.db.execute("UPDATE note SET body = 'x' WHERE title = 'two'")
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] {
                #expect(try app.rows("SELECT title, body FROM note ORDER BY title") == ["one|∅", "two|x"])
                #expect(try app.waitingCount() == 0)
            }
        }
    }

    @Test(arguments: ["UTF-16le", "UTF-16be"]) func textsOfUTF16AreRead(_ encoding: String) async throws {
        let schema = "PRAGMA encoding = '\(encoding)'; CREATE TABLE \"näme\" (\"kéy\" TEXT PRIMARY KEY, t TEXT, b BLOB)"
        try await CaptureWorld.pair(schema, ["näme"]) { a, b in
            #expect(try a.rows("PRAGMA encoding") == [encoding])
            try a.db.execute("INSERT INTO \"näme\" VALUES ('wörld', 'a' || char(0, 128512), x'c3bc'), ('', 'x', '')")
            for app in [a, b] { try await app.synchronize() }
            try b.db.execute("UPDATE \"näme\" SET t = t || 'é', \"kéy\" = \"kéy\" || '!'")
            for app in [b, a] { try await app.synchronize() }
            let query = "SELECT *, hex(t) FROM \"näme\" ORDER BY t"
            #expect(try a.rows(query) == b.rows(query))
            #expect(try a.rows("SELECT \"kéy\", t FROM \"näme\" WHERE b = ''") == ["!|xé"])
        }
    }

    @Test func namesThatLookAlikeAreTwo() async throws {
        let schema = """
            CREATE TABLE "\u{e9}" (id INTEGER PRIMARY KEY, "\u{e9}" TEXT, "e\u{301}" TEXT);
            CREATE TABLE "\u{c9}" (id INTEGER PRIMARY KEY, n REFERENCES "\u{e9}")
            """
        try await CaptureWorld.pair(schema, ["\u{e9}", "\u{c9}"]) { a, b in
            try a.db.execute(
                "INSERT INTO \"\u{e9}\" VALUES (7, 'one', 'two'); INSERT INTO \"\u{c9}\" VALUES (1, 7), (2, NULL)")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT \"\u{e9}\", \"e\u{301}\" FROM \"\u{e9}\"") == ["one|two"])
            #expect(try b.rows("SELECT n IS NULL FROM \"\u{c9}\" ORDER BY 1") == ["0", "1"])
        }
    }

    @Test func whoseApplicationMayEraseItIsSaid() async throws {
        try await CaptureWorld.run { world in
            let app = try CapturingApp("a", in: world, Self.notes)
            #expect(try app.database.install(["note"]) == [])
            try app.database.uninstall()
            try app.db.execute("CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)")
            let note = "an application of GRDB with eraseDatabaseOnSchemaChange erases a database with new tables"
            #expect(try app.database.install(["note"]) == [note])
            #expect(try app.database.install(["note"]) == [])
        }
    }

    /// A file whose header names a version of the format that is only to be read.
    @Test func aDatabaseThatCannotBeWrittenIsRefused() async throws {
        try await CaptureWorld.run { world in
            let path = try CapturingApp("a", in: world, Self.notes).path
            let file = try FileHandle(forUpdating: URL(filePath: path))
            try file.seek(toOffset: 18)
            try file.write(contentsOf: Data([9]))
            try file.close()
            let before = try Data(contentsOf: URL(filePath: path))
            let error = #expect(throws: CaptureError.self) { try CapturedDatabase(path: path).install(["note"]) }
            #expect(error?.description == "\(path): the database cannot be written")
            #expect(try Data(contentsOf: URL(filePath: path)) == before)
        }
    }

    /// This program does not have the function that the application's trigger calls.
    @Test func aTableThatThisProgramCannotWriteIsRefused() async throws {
        let schema = Self.notes + "; CREATE TRIGGER own AFTER INSERT ON note BEGIN SELECT application_function(); END"
        try await CaptureWorld.run { world in
            let app = try CapturingApp("a", in: world, schema)
            let error = #expect(throws: CaptureError.self) { try app.install(["note"]) }
            #expect(error?.description.contains("no such function: application_function") == true)
            #expect(try app.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'sync%'") == [])
        }
    }

    @Test func aRuleThatIsAnotherNowIsRefused() async throws {
        try await CaptureWorld.run { world in
            let app = try CapturingApp("a", in: world, Self.notes)
            try app.install(["note"])
            try app.install(["note"])
            var rule = TableRule()
            rule.filter = "title <> ''"
            let error = #expect(throws: CaptureError.self) { try app.install(["note"], rules: ["note": rule]) }
            #expect(error?.description == "table note: it is captured with another rule: uninstall it first")
            rule.filter = "nothing = 1"
            #expect(throws: CaptureError.self) { try app.install(["note"], rules: ["note": rule]) }
        }
    }
}

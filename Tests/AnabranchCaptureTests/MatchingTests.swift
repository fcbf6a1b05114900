import AnabranchClient
import AnabranchCore
import Foundation
import Testing

@testable import AnabranchCapture

/// Rows that were there on both sides before the first exchange (`Spec/Capture.md`, section 3).
@Suite struct MatchingTests {
    private static let schema = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE);
        CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT, n INTEGER,
          folder INTEGER REFERENCES folder ON DELETE CASCADE);
        """
    private static let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, n INTEGER)"
    private static let joined = """
        SELECT title, body, n, name FROM note LEFT JOIN folder ON folder.id = folder ORDER BY title, name
        """

    private static func rule(_ columns: String...) -> TableRule {
        var rule = TableRule()
        rule.matches = columns
        return rule
    }

    private static let rules = ["folder": rule("name"), "note": rule("title", "folder")]

    /// Two databases that have rows before they are captured.
    private static func pair(
        _ schema: String, _ rules: [String: TableRule], a ownRows: String, b otherRows: String,
        _ body: (CapturingApp, CapturingApp) async throws -> Void
    ) async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, schema), b = try CapturingApp("b", in: world, schema)
            try a.db.execute(ownRows)
            try b.db.execute(otherRows)
            for app in [a, b] { try app.install(app.database.tableNames(), rules: rules) }
            try await body(a, b)
            for app in [a, b] { try await app.close() }
        }
    }

    private static func counts(_ matches: CaptureMatches) -> [Int] {
        [matches.count, matches.differentCount, matches.ambiguousCount, matches.rows, matches.objects]
    }

    @Test func theSecondDatabaseDoublesNothing() async throws {
        try await Self.pair(
            Self.schema, Self.rules,
            a: """
                INSERT INTO folder VALUES (7, 'work'), (8, 'home');
                INSERT INTO note VALUES (1, 'first', 'a', NULL, 7), (2, 'first', NULL, 1, 8),
                  (3, 'only a', NULL, NULL, NULL)
                """,
            b: """
                INSERT INTO folder VALUES (1, 'Home'), (2, 'play');
                INSERT INTO note VALUES (1, 'first', 'b', 2, 1), (2, 'other', NULL, NULL, 2),
                  (3, 'first', NULL, 5, 2)
                """
        ) { a, b in
            try await a.synchronize()
            let before = try a.objects("note") + a.objects("folder")
            let matches = try await b.synchronize().matches
            #expect(matches.map(\.table) == ["folder", "note"])
            #expect(matches.map(Self.counts) == [[1, 1, 0, 1, 1], [1, 1, 0, 2, 2]])
            try await a.synchronize()
            for app in [a, b] {
                #expect(
                    try app.rows(Self.joined) == [
                        "first|b|1|home", "first|∅|5|play", "first|a|∅|work", "only a|∅|∅|∅", "other|∅|∅|play",
                    ])
                #expect(try app.rows("SELECT name FROM folder ORDER BY name") == ["home", "play", "work"])
                #expect(try await app.synchronize().isEmpty)
            }
            #expect(try Array(a.objects("note")[..<3] + a.objects("folder")[..<2]) == before)
            #expect(try b.objects("note")[0] == before[1])
            #expect(try b.objects("folder")[0] == before[4])
            #expect(
                try b.rows("SELECT kind, lost FROM sync_conflict ORDER BY lost")
                    == [#"matched|{"n":"2"}"#, #"matched|{"name":"Home"}"#])
        }
    }

    @Test func rowsWinIfTheyAreToldTo() async throws {
        try await Self.pair(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, n INTEGER, m INTEGER)",
            ["note": Self.rule("title")], a: "INSERT INTO note VALUES (1, 'x', 1, 1), (2, 'y', NULL, 2)",
            b: "INSERT INTO note VALUES (1, 'x', 2, NULL), (2, 'y', 3, 4)"
        ) { a, b in
            b.rowsWin = true
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows("SELECT * FROM note ORDER BY id") == ["1|x|2|1", "2|y|3|4"]) }
            #expect(try a.objects("note") == b.objects("note"))
            #expect(
                try b.rows("SELECT kind, lost FROM sync_conflict ORDER BY lost")
                    == [#"matched|{"m":"2"}"#, #"matched|{"n":"1"}"#])
        }
    }

    @Test func aDryRunChangesNothing() async throws {
        try await Self.pair(
            Self.notes, ["note": Self.rule("title")],
            a: "INSERT INTO note VALUES (1, 'x', 1), (2, 'y', 1), (3, 'z', 1), (4, NULL, 1)",
            b: """
                INSERT INTO note
                VALUES (5, 'x', 2), (6, 'y', 1), (7, 'y', 1), (8, 'z', NULL), (9, NULL, 1), (10, 'q', 1)
                """
        ) { a, b in
            try await a.synchronize()
            try await b.open()
            let everything = ["note", "sync_history", "sync_row", "sync_state"].map { "SELECT * FROM \($0)" }
            let before = try everything.map(b.rows)
            let matches = try await #require(b.capture).matches()
            #expect(matches.map(Self.counts) == [[2, 2, 1, 4, 2]])
            #expect(matches[0].pairs.map(\.key) == ["5", "8"])
            #expect(matches[0].pairs.map(\.different) == [["n"], ["n"]])
            let objects = try a.objects("note")
            #expect(matches[0].pairs.map { $0.object.uppercased() } == [objects[0], objects[2]])
            #expect(matches[0].ambiguous == [.init(values: "'y'", rows: 2, objects: 1)])
            #expect(try everything.map(b.rows) == before)
            // It was what comes.
            let done = try await b.synchronize().matches
            #expect(done == matches)
            try await a.synchronize()
            for app in [a, b] { #expect(try app.rows("SELECT count(*) FROM note") == ["8"]) }
        }
    }

    @Test func aTreeIsMatchedFromItsRoot() async throws {
        let schema = """
            CREATE TABLE place (id INTEGER PRIMARY KEY, name TEXT, parent INTEGER REFERENCES place)
            """
        try await Self.pair(
            schema, ["place": Self.rule("name", "parent")],
            a: "INSERT INTO place VALUES (1, 'x', NULL), (2, 'x', 1), (3, 'x', 2), (4, 'y', 2)",
            b: "INSERT INTO place VALUES (9, 'x', NULL); INSERT INTO place VALUES (8, 'x', 9), (7, 'x', 8), (6, 'z', 7)"
        ) { a, b in
            for app in [a, b, a] { try await app.synchronize() }
            // Its rows have the numbers from 6 on, the root last.
            let own = try a.objects("place"), others = try b.objects("place")
            #expect([others[3], others[2], others[1]] == own[..<3])
            let paths = """
                WITH RECURSIVE found (id, path) AS (SELECT id, name FROM place WHERE parent IS NULL
                  UNION ALL SELECT place.id, path || name FROM place JOIN found ON parent = found.id)
                SELECT path FROM found ORDER BY path
                """
            for app in [a, b] { #expect(try app.rows(paths) == ["x", "xx", "xx" + "x", "xx" + "xz", "xxy"]) }
        }
    }

    @Test func othersReferToAMatchedRow() async throws {
        try await Self.pair(
            Self.schema, ["folder": Self.rule("name")], a: "INSERT INTO folder VALUES (7, 'home')",
            b: "INSERT INTO folder VALUES (1, 'home'); INSERT INTO note VALUES (1, 'x', NULL, NULL, 1)"
        ) { a, b in
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows(Self.joined) == ["x|∅|∅|home"]) }
            #expect(try a.objects("folder") == b.objects("folder"))
        }
    }

    @Test(arguments: [true, false]) func rowsAreMatchedAgainWithWhatTheyWere(_ keepsReplica: Bool) async throws {
        try await Self.pair(
            Self.notes, ["note": Self.rule("title")], a: "INSERT INTO note VALUES (1, 'x', 1), (2, 'y', 1)", b: ""
        ) { a, b in
            for app in [a, b] { try await app.synchronize() }
            let objects = try b.objects("note")
            try await b.close()
            try b.database.uninstall()
            if !keepsReplica { try b.removeReplica() }
            try b.db.execute("UPDATE note SET id = id + 10")
            try b.install(["note"], rules: ["note": Self.rule("title")])
            for app in [b, a] { try await app.synchronize() }
            for app in [a, b] {
                #expect(try app.rows("SELECT title FROM note ORDER BY title") == ["x", "y"])
                #expect(try app.objects("note") == objects)
            }
        }
    }

    /// What was not collected at the time of the backup was collected after it.
    @Test(arguments: [true, false]) func aRestoredDatabaseDoublesNothing(_ keepsReplica: Bool) async throws {
        try await Self.pair(
            Self.notes, ["note": Self.rule("title")], a: "INSERT INTO note VALUES (1, 'x', 1)", b: ""
        ) { a, b in
            try await a.synchronize()
            try a.db.execute("INSERT INTO note VALUES (2, 'y', 1)")
            let backup = try Data(contentsOf: URL(filePath: a.path))
            for app in [a, b] { try await app.synchronize() }
            let objects = try a.objects("note")
            try b.db.execute("UPDATE note SET n = 2; INSERT INTO note VALUES (3, 'z', 3)")
            try await b.synchronize()
            try await a.close()
            try backup.write(to: URL(filePath: a.path))
            if !keepsReplica { try a.removeReplica() }
            for app in [a, b] { try await app.synchronize() }
            for app in [a, b] {
                #expect(try app.rows("SELECT title, n FROM note ORDER BY title") == ["x|2", "y|2", "z|3"])
            }
            #expect(try a.objects("note")[..<2] == objects[...])
        }
    }

    @Test func allRowsOfARestoredDatabaseWinIfTheyAreToldTo() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute(
                "INSERT INTO note VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', NULL), (4, 'd', 4), (5, 'e', 5)")
            for app in [a, b] { try await app.synchronize() }
            let backup = try Data(contentsOf: URL(filePath: a.path)), objects = try a.objects("note")
            try a.db.execute("UPDATE note SET n = 10 WHERE title = 'a'")
            try b.db.execute(
                """
                UPDATE note SET n = 20 WHERE title = 'b'; UPDATE note SET n = 30 WHERE title = 'c';
                DELETE FROM note WHERE title = 'd'; INSERT INTO note (title, n) VALUES ('f', 6)
                """)
            for app in [a, b, a] { try await app.synchronize() }
            try await a.close()
            try backup.write(to: URL(filePath: a.path))
            a.rowsWin = true
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] {
                #expect(
                    try app.rows("SELECT title, n FROM note ORDER BY title")
                        == ["a|1", "b|2", "c|30", "d|4", "e|5", "f|6"])
            }
            #expect(try Array(a.objects("note")[..<5]) == objects)
            #expect(
                try a.rows("SELECT kind, lost FROM sync_conflict ORDER BY lost")
                    == [#"matched|{"n":"10"}"#, #"matched|{"n":"20"}"#])
            for app in [a, b] { #expect(try await app.synchronize().isEmpty) }
        }
    }

    @Test func rowsThatComeLaterAreOthers() async throws {
        try await Self.pair(Self.notes, ["note": Self.rule("title")], a: "", b: "") { a, b in
            for app in [a, b] { try await app.synchronize() }
            for app in [a, b] { try app.db.execute("INSERT INTO note (title) VALUES ('x')") }
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows("SELECT title FROM note") == ["x", "x"]) }
        }
    }

    @Test func nothingIsCollectedBeforeTheObjectsAreThere() async throws {
        try await Self.pair(
            Self.notes, ["note": Self.rule("title")], a: "INSERT INTO note VALUES (1, 'x', 1)",
            b: "INSERT INTO note VALUES (1, 'x', 1)"
        ) { a, b in
            try await a.synchronize()
            try await b.open(online: false)
            let error = await #expect(throws: CaptureError.self) { try await #require(b.capture).pass() }
            #expect(error?.code == .replicaMismatch)
            #expect(try b.uncollected() == 1)
            try await b.open()
            try await b.synchronize()
            #expect(try a.objects("note") == b.objects("note"))
        }
    }

    /// The application has written a row after the others were collected.
    @Test func aRowWithEntriesIsMatchedWhenTheyAreCollected() async throws {
        try await Self.pair(
            Self.notes, ["note": Self.rule("title")], a: "INSERT INTO note VALUES (1, 'x', 1)",
            b: "INSERT INTO note VALUES (1, 'x', 1)"
        ) { a, b in
            try await a.synchronize()
            let state = try await #require(a.capture).replica.snapshot().state
            let database = try b.database
            try database.check()
            let matched = try database.match(with: state, rowsWin: false)
            #expect(!matched.isWhole && matched.objects.isEmpty)
            #expect(try b.rows("SELECT * FROM sync_row") == [])
            // Without a new object.
            let collected = try #require(try Collection.next(in: database, [:]))
            #expect(collected.changes.isEmpty)
            try database.beginStep(collected, at: 1)
            try database.endStep(isWritten: true, 1)
            let next = try database.match(with: state, rowsWin: false)
            #expect(next.isWhole && next.objects.count == 1)
            #expect(try a.objects("note") == b.objects("note"))
        }
    }

    @Test func theApplicationWritesWhileRowsAreMatched() async throws {
        let numbers = """
            WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 5000) SELECT n, n, 1 FROM i
            """
        try await Self.pair(
            Self.notes, ["note": Self.rule("title")], a: "INSERT INTO note VALUES (1, '4321', 1)",
            b: "INSERT INTO note \(numbers)"
        ) { a, b in
            for app in [a, b] { try await app.open() }
            try await a.synchronize()
            try await #require(b.capture).replica.waitForDownload()
            let database = try b.database, state = try await #require(b.capture).replica.snapshot().state
            let matching = Matching(database, database.tables, state, rowsWin: false)
            var count = 0
            try matching.find {
                count += 1
                if count == 2 { try b.db.execute("INSERT INTO note VALUES (6000, 'new', 1)") }
            }
            #expect(count == 3)
            let plan = try #require(matching.plans.first)
            #expect(try matching.count(plan).rows == 5_000)
            var pairs: [SQLValue] = []
            try matching.forEachBatch(of: plan.table) { pairs += $0.map(\.row.key) }
            #expect(pairs == [.int(4_321)])
        }
    }

    /// A row of many megabytes is read alone.
    @Test func aTransactionReadsSomeBytes() async throws {
        try await CaptureWorld.pair("CREATE TABLE note (id INTEGER PRIMARY KEY, b)", ["note"]) { a, _ in
            try a.db.execute("INSERT INTO note VALUES (1, zeroblob(3 << 20)), (2, zeroblob(3 << 20)), (3, NULL)")
            let database = try a.database
            var keys: [SQLValue] = []
            let last = try database.forEach("SELECT id, b FROM note WHERE id > ? ORDER BY id", [.int(0)]) {
                keys.append($0[0])
            }
            #expect(last == .int(2) && keys == [.int(1), .int(2)])
        }
    }

    @Test func theColumnOfTheKeyIsFilled() async throws {
        var rule = Self.rule("title")
        rule.guid = "note_guid"
        try await Self.pair(
            Self.notes, ["note": rule], a: "INSERT INTO note VALUES (1, 'x', 1)",
            b: "INSERT INTO note VALUES (2, 'x', 1)"
        ) { a, b in
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT hex(note_guid) FROM note") == a.objects("note"))
        }
    }

    @Test func subscriptionsBringTheObjectsFirst() async throws {
        try await Self.pair(
            Self.notes, ["note": Self.rule("title")], a: "INSERT INTO note VALUES (1, 'x', 1)",
            b: "INSERT INTO note VALUES (2, 'x', 2), (3, 'y', 3)"
        ) { a, b in
            for app in [a, b] { app.isFlexible = true }
            // The server does not know the class yet.
            try await a.open()
            #expect(try await #require(a.capture).matches().isEmpty)
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows("SELECT title, n FROM note ORDER BY title") == ["x|1", "y|3"]) }
            #expect(try a.objects("note") == b.objects("note"))
        }
    }

    @Test(arguments: [
        (["id"], "match: its values are numbers of rows, which differ between databases"),
        (["title", "name"], "a rule names a column that does not exist"),
    ])
    func aColumnThatTellsNothingIsRefused(_ columns: [String], _ reason: String) async throws {
        try await CaptureWorld.run { world in
            let app = try CapturingApp("a", in: world, Self.notes)
            var rule = TableRule()
            rule.matches = columns
            let error = #expect(throws: CaptureError.self) { try app.install(["note"], rules: ["note": rule]) }
            #expect(error?.reason == reason && error?.column == columns.last)
        }
    }
}

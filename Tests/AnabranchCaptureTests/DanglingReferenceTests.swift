@testable import AnabranchCapture
import Testing

/// References to rows that are not there, as applications make them that check no foreign keys (`Spec/Capture.md`,
/// section 3).
@Suite struct DanglingReferenceTests {
    private static let tables = ["folder", "note"]
    private static let schema = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, folder INTEGER REFERENCES folder)
        """

    /// Each note with its folder.
    private static let filed =
        "SELECT title, name FROM note LEFT JOIN folder ON folder.id = note.folder ORDER BY title"

    /// Gives the key 1 to a folder, to which the note has to lead then, on both sides.
    private static func makeFolder(_ a: CapturingApp, _ b: CapturingApp) async throws {
        try a.db.execute("INSERT INTO folder VALUES (1, 'new')")
        for app in [a, b] { try await app.synchronize() }
        for app in [a, b] { #expect(try app.rows(filed) == ["x|new"]) }
    }

    @Test(arguments: [false, true]) func aRowThatGetsTheKeyOfOneThatWentIsReferredTo(_ isSentBetween: Bool) async throws
    {
        try await CaptureWorld.pair(Self.schema, Self.tables) { a, b in
            try a.db.execute(
                """
                PRAGMA foreign_keys = OFF;
                INSERT INTO folder VALUES (1, 'old');
                INSERT INTO note VALUES (1, 'x', 1)
                """)
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows(Self.filed) == ["x|old"])
            try a.db.execute("DELETE FROM folder")
            if isSentBetween {
                for app in [a, b] { try await app.synchronize() }
                #expect(try b.rows(Self.filed) == ["x|∅"])
            }
            try await Self.makeFolder(a, b)
        }
    }

    @Test func aReferenceToARowThatGetsAnotherKeyLeadsNowhereUntilThereIsOne() async throws {
        try await CaptureWorld.pair(Self.schema, Self.tables) { a, b in
            try a.db.execute(
                """
                PRAGMA foreign_keys = OFF;
                INSERT INTO folder VALUES (1, 'old');
                INSERT INTO note VALUES (1, 'x', 1)
                """)
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE folder SET id = 5")
            for app in [a, b] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows(Self.filed) == ["x|∅"]) }
            try await Self.makeFolder(a, b)
        }
    }

    @Test func aRowWithAnotherKeyKeepsAReferenceThatLeadsNowhere() async throws {
        try await CaptureWorld.pair(Self.schema, Self.tables) { a, b in
            try a.db.execute("PRAGMA foreign_keys = OFF; INSERT INTO note VALUES (1, 'x', 1)")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE note SET id = 9")
            for app in [a, b] { try await app.synchronize() }
            try await Self.makeFolder(a, b)
        }
    }

    @Test func aRowOfOthersIsReferredToByThoseThatHaveItsKey() async throws {
        try await CaptureWorld.pair(Self.schema, Self.tables) { a, b in
            try a.db.execute("PRAGMA foreign_keys = OFF; INSERT INTO note VALUES (1, 'x', 1)")
            try await a.synchronize()
            try b.db.execute("INSERT INTO folder VALUES (7, 'theirs')")
            // The folder is the first row of its table here.
            for app in [b, a, b] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows(Self.filed) == ["x|theirs"]) }
            #expect(try a.rows("SELECT * FROM sync_dangling") == [])
        }
    }

    @Test func aRowThatPassesItsFilterAgainIsReferredTo() async throws {
        var rule = TableRule()
        rule.filter = "name <> 'own'"
        try await CaptureWorld.pair(Self.schema, Self.tables, rules: ["folder": rule]) { a, b in
            try a.db.execute("INSERT INTO folder VALUES (1, 'old'); INSERT INTO note VALUES (1, 'x', 1)")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE folder SET name = 'own'")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows(Self.filed) == ["x|∅"])
            try a.db.execute("UPDATE folder SET name = 'new'")
            for app in [a, b] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows(Self.filed) == ["x|new"]) }
        }
    }
}

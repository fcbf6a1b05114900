@testable import AnabranchCapture
import Testing

/// Two databases and a server (`Spec/Capture.md`).
@Suite struct ExchangeTests {
    private static let schema = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, folder INTEGER REFERENCES folder ON DELETE CASCADE);
        """
    private static let joined =
        "SELECT title, name FROM note LEFT JOIN folder ON folder.id = note.folder ORDER BY title, name"

    @Test func rowsOfTwoDatabasesAreExchanged() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, Self.schema), b = try CapturingApp("b", in: world, Self.schema)
            let before = try a.rows("SELECT sql FROM sqlite_schema ORDER BY name")
            try a.db.execute(
                "INSERT INTO folder VALUES (7, 'work'); INSERT INTO note VALUES (1, 'first', 7), (2, 'second', NULL)")
            // Its numbers are others than those of the same rows there.
            try b.db.execute("INSERT INTO folder VALUES (1, 'home'); INSERT INTO note VALUES (1, 'mine', 1)")
            for app in [a, b] { try app.install(["note", "folder"]) }
            for app in [a, b, a] { try await app.synchronize() }
            let expected = ["first|work", "mine|home", "second|∅"]
            for app in [a, b] { #expect(try app.rows(Self.joined) == expected) }

            try a.db.execute("UPDATE note SET title = 'FIRST' WHERE id = 1")
            try b.db.execute("UPDATE note SET folder = 1 WHERE title = 'first'; DELETE FROM note WHERE title = 'mine'")
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] {
                #expect(try app.rows(Self.joined) == ["FIRST|home", "second|∅"])
                #expect(try app.uncollected() == 0)
                // Nothing comes back.
                #expect(try await app.synchronize().isEmpty)
            }
            for app in [a, b] {
                try await app.close()
                try app.database.uninstall()
            }
            #expect(try a.rows("SELECT sql FROM sqlite_schema ORDER BY name") == before)
        }
    }
}

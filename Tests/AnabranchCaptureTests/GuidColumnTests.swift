import Testing

@testable import AnabranchCapture

/// A column with the key of each row's object, on request (`Spec/Capture.md`, section 4).
@Suite struct GuidColumnTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
        CREATE TABLE tag (name TEXT PRIMARY KEY, n);
        INSERT INTO note VALUES (1, 'first')
        """
    private static let guids = "SELECT title, hex(note_guid) FROM note ORDER BY title, 2"

    private static func rules() -> [String: TableRule] {
        var note = TableRule(), tag = TableRule()
        (note.guid, tag.guid) = ("note_guid", "tag_guid")
        return ["note": note, "tag": tag]
    }

    @Test func bothDatabasesHaveTheSameKeysWhateverIsWrittenThere() async throws {
        try await CaptureWorld.pair(Self.schema, ["note", "tag"], rules: Self.rules()) { a, b in
            try a.db.execute("INSERT INTO note (title) VALUES ('second'); INSERT INTO tag (name) VALUES ('x')")
            for app in [a, b, a] { try await app.synchronize() }
            let known = "SELECT hex(guid) FROM sync_row ORDER BY 1"
            let shown = "SELECT hex(note_guid) FROM note UNION ALL SELECT hex(tag_guid) FROM tag ORDER BY 1"
            for app in [a, b] { #expect(try app.rows(known) == app.rows(shown)) }
            #expect(try a.rows(Self.guids) == b.rows(Self.guids))
            #expect(try a.rows(Self.guids).count == 3)

            // A library writes all columns that it has read, or null; and a copy is another row.
            try a.db.execute(
                """
                UPDATE note SET title = 'changed', note_guid = NULL WHERE title = 'second';
                INSERT INTO note (title, note_guid) SELECT 'copy', note_guid FROM note WHERE title = 'first' LIMIT 1;
                UPDATE tag SET n = 2, tag_guid = 'nonsense'
                """)
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows(known) == app.rows(shown)) }
            #expect(try Set(a.rows("SELECT hex(note_guid) FROM note")).count == 4)
            #expect(try a.rows(Self.guids) == b.rows(Self.guids))
            for app in [a, b] { #expect(try await app.synchronize().isEmpty) }

            // A migration makes the table anew, without the column.
            try b.db.execute(
                """
                CREATE TABLE new (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO new SELECT id, title FROM note;
                DROP TABLE note; ALTER TABLE new RENAME TO note
                """)
            #expect(try await b.synchronize().renewedTables == ["note"])
            #expect(try a.rows(Self.guids) == b.rows(Self.guids))
        }
    }

    @Test func nothingIsLeftOfIt() async throws {
        try await CaptureWorld.run { world in
            let app = try CapturingApp("a", in: world, Self.schema),
                schema = "SELECT sql FROM sqlite_schema ORDER BY name"
            let before = try app.rows(schema)
            try app.install(["note", "tag"], rules: Self.rules())
            try app.database.uninstall(["tag"])
            #expect(try app.rows("SELECT name FROM pragma_table_info('tag')") == ["name", "n"])
            try app.database.uninstall()
            #expect(try app.rows(schema) == before)
        }
    }

    @Test(arguments: [
        ("CREATE VIEW notes (a, b) AS SELECT * FROM note", "note_guid", "with another column the view notes fails"),
        ("", "Title", "the table has a column of that name"),
        ("", "tag_guid", "tag has a column of that name"),
    ])
    func itIsRefusedWhereItWouldBreakSomething(_ more: String, _ name: String, _ reason: String) async throws {
        try await CaptureWorld.run { world in
            let app = try CapturingApp("a", in: world, Self.schema + ";" + more)
            var rules = Self.rules()
            rules["note"]?.guid = name
            let before = try app.rows("SELECT sql FROM sqlite_schema")
            let error = #expect(throws: CaptureError.self) { try app.install(["note", "tag"], rules: rules) }
            #expect(error?.reason.hasPrefix(reason) == true && error?.column != nil, "\(error?.description ?? "")")
            #expect(try app.rows("SELECT sql FROM sqlite_schema") == before)
        }
    }
}

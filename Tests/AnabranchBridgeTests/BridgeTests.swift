import AnabranchBridge
import AnabranchClient
import AnabranchPostgresWire
import AnabranchTesting
import Foundation
import Testing

/// Rows become objects and objects rows, whatever writes them (`Spec/Bridge.md`, sections 2 to 5).
@Suite(.timeLimit(.minutes(30))) struct BridgeTests {
    private static let notes = "CREATE TABLE note (id bigint PRIMARY KEY, title text UNIQUE, n int CHECK (n < 100))"

    /// Nothing waits, nothing differs, and nothing is under way.
    private static func expectEqual(
        _ world: BridgeWorld, _ bridge: TableBridge, sourceLocation: SourceLocation = #_sourceLocation
    )
        async throws
    {
        #expect(try await bridge.synchronize().waiting == 0, sourceLocation: sourceLocation)
        #expect(try await world.differences(bridge.replica) == [], sourceLocation: sourceLocation)
        var last = try await bridge.synchronize()
        // Every few seconds it looks at the triggers, and compares whole tables where one was missing.
        if !last.renewedTables.isEmpty { last = try await bridge.synchronize() }
        #expect(last.isEmpty, sourceLocation: sourceLocation)
        #expect(try world.app.rows("SELECT * FROM anabranch.history") == [], sourceLocation: sourceLocation)
    }

    @Test func rowsAndObjectsGoBothWaysOnce() async throws {
        try await BridgeWorld.run(Self.notes + "; INSERT INTO note VALUES (1, 'before', 1)", ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run(
                "INSERT INTO note VALUES (2, 'two', 2), (3, 'three', 3); UPDATE note SET n = 5 WHERE id = 2")
            #expect(try await bridge.synchronize().collected == 3)
            #expect(try await device.values("note", "n") == ["1 1", "2 5", "3 3"])

            try await device.change { transaction in
                try transaction.object("note", key: 1)?.set("title", to: "from a device")
                try transaction.create("note", key: 4, ["title": "new", "n": 4])
                if let object = try transaction.object("note", key: 3) { try transaction.delete(object) }
            }
            // Another column of the same row, at the same time.
            try world.app.run("UPDATE note SET n = 11 WHERE id = 1")
            try await Self.expectEqual(world, bridge)
            #expect(
                try world.app.rows("SELECT * FROM note ORDER BY id") == [
                    "1|from a device|11", "2|two|5", "4|new|4",
                ])
            #expect(try await device.values("note", "n") == ["1 11", "2 5", "4 4"])
            #expect(try await device.values("note", "title") == ["1 from a device", "2 two", "4 new"])

            // A key that changes is another object; what is deleted and inserted is there.
            try world.app.run(
                "UPDATE note SET id = id + 10; DELETE FROM note WHERE id = 12; INSERT INTO note VALUES (12, 'x', 0)")
            try await Self.expectEqual(world, bridge)
            #expect(try await device.values("note", "title") == ["11 from a device", "12 x", "14 new"])
        }
    }

    /// In the order of the keys: texts of numbers have another one, and so do texts if capitals make no difference.
    @Test(arguments: [
        ("bigint", "SELECT generate_series(1, 10001)", 10_001),
        ("citext COLLATE \"C\"", "SELECT 'a' || generate_series(1, 10000) UNION VALUES ('B1'), ('B2')", 10_002),
    ])
    func eachRowIsNotedOnceAtInstallation(_ type: String, _ keys: String, _ count: Int) async throws {
        let schema = "CREATE EXTENSION citext; CREATE TABLE item (id \(type) PRIMARY KEY); INSERT INTO item \(keys)"
        try await BridgeWorld.run(schema) { world in
            var noted = 0
            try world.database.install([("item", nil)]) { noted = $0 }
            #expect(noted == count)
            let entries = "SELECT count(*), count(DISTINCT key) FROM anabranch.history"
            #expect(try world.app.rows(entries) == ["\(count)|\(count)"])
        }
    }

    @Test func aFileWithSubscriptionsIsBridged() async throws {
        let schema = """
            \(Self.notes); INSERT INTO note VALUES (1, 'before', 1), (2, 'two', 2); CREATE TABLE gone (id bigint);
            CREATE FUNCTION deleted() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO gone VALUES (OLD.id); RETURN NULL; END $$;
            CREATE TRIGGER deleted AFTER DELETE ON note FOR EACH ROW EXECUTE FUNCTION deleted()
            """
        try await BridgeWorld.run(schema, ["note"], isFlexible: true) { world in
            let bridge = try await world.bridge()
            try await bridge.synchronize()
            let device = try await world.device()
            try await device.subscribe([Subscription("note")])
            try await device.waitForSubscriptions()
            #expect(try await device.values("note", "n") == ["1 1", "2 2"])
            try await device.change { transaction in
                try transaction.object("note", key: 1)?.set("n", to: 11)
                try transaction.create("note", key: 3, ["title": "new", "n": 3])
            }
            try world.app.run("UPDATE note SET title = 'sql' WHERE id = 2")
            try await Self.expectEqual(world, bridge)
            #expect(try await device.values("note", "title") == ["1 before", "2 sql", "3 new"])

            // A new replica has no objects yet: no row is deleted because of that.
            try await bridge.close()
            try await Self.expectEqual(world, try await world.bridge("b"))
            #expect(try world.app.rows("SELECT * FROM gone") == [])
            #expect(try world.app.rows("SELECT * FROM note ORDER BY id") == ["1|before|11", "2|sql|2", "3|new|3"])
        }
    }

    @Test func aPassThatIsCancelledEndsBetweenTwoTransactions() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try await bridge.synchronize()
            try world.app.run("INSERT INTO note SELECT i, 't' || i, 1 FROM generate_series(1, 5000) i")
            let cancelled = Task { try await bridge.pass { _ in withUnsafeCurrentTask { $0?.cancel() } } }
            await #expect(throws: CancellationError.self) { try await cancelled.value }
            try await Self.expectEqual(world, bridge)
            #expect(try await device.values("note", "n").count == 5_000)
        }
    }

    @Test func namesAndKeysThatLookAlikeAreTwo() async throws {
        let schema = "CREATE TABLE note (id text PRIMARY KEY, \"\u{e9}\" text, \"e\u{301}\" text)"
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note VALUES ('\u{e9}', 'a', 'b'), ('e\u{301}', 'c', 'd')")
            try await Self.expectEqual(world, bridge)
            try world.app.run("UPDATE note SET \"e\u{301}\" = 'x'")
            try await Self.expectEqual(world, bridge)
            for (key, values) in [("\u{e9}", ["a", "x"]), ("e\u{301}", ["c", "x"])] {
                let found = try await device.read { transaction in
                    let object = try transaction.object("note", key: .string(Array(key.utf8)))
                    return try ["\u{e9}", "e\u{301}"].map { try object?.value($0) }
                }
                let expected: [Payload?] = values.map { .string(Array($0.utf8)) }
                #expect(found == expected)
            }
        }
    }

    @Test func aColumnThatLooksLikeTheKeyIsAnotherOne() async throws {
        let schema = "CREATE TABLE note (\"\u{e9}\" bigint PRIMARY KEY, \"e\u{301}\" text)"
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note VALUES (1, 'a')")
            try await Self.expectEqual(world, bridge)
            try await device.waitForDownload()
            let value = try await device.read { try $0.object("note", key: 1)?.value("e\u{301}") }
            #expect(value == "a")
        }
    }

    @Test func writesOfEveryKindAreSeen() async throws {
        let schema =
            Self.notes + """
                ; CREATE TABLE tag (id text PRIMARY KEY,
                  note bigint REFERENCES note ON DELETE CASCADE ON UPDATE CASCADE);
                """
        try await BridgeWorld.run(schema, ["note", "tag"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note SELECT i, 't' || i, i FROM generate_series(1, 8) i")
            try world.app.run("INSERT INTO tag SELECT 'a' || i, i FROM generate_series(1, 8) i")
            try await Self.expectEqual(world, bridge)
            #expect(try await device.values("tag", "id").count == 8)

            try world.app.run(
                """
                BEGIN;
                DELETE FROM note WHERE id = 1;
                UPDATE note SET id = 20 WHERE id = 2;
                UPDATE note SET id = -id WHERE id IN (3, 4); UPDATE note SET id = 7 + id WHERE id < 0;
                INSERT INTO note VALUES (5, 'upserted', 50) ON CONFLICT (id) DO UPDATE SET title = excluded.title;
                MERGE INTO note USING (VALUES (6), (30)) v (id) ON note.id = v.id
                  WHEN MATCHED THEN UPDATE SET n = 66 WHEN NOT MATCHED THEN INSERT VALUES (30, 'merged', 30);
                SAVEPOINT s; UPDATE note SET n = 99; ROLLBACK TO s;
                WITH gone AS (DELETE FROM note WHERE id = 7 RETURNING *)
                  INSERT INTO note SELECT 40, 'moved', n FROM gone;
                COMMIT;
                """)
            var lines = ["50\tcopied\t1\n", "51\talso\t\\N\n"]
            _ = try world.app.db.copyIn("COPY note FROM STDIN") {
                lines.isEmpty ? nil : Array(lines.removeFirst().utf8)
            }
            try await Self.expectEqual(world, bridge)
            #expect(
                try await device.values("note", "title") == [
                    "3 t4", "4 t3", "5 upserted", "6 t6", "8 t8", "20 t2", "30 merged", "40 moved", "50 copied",
                    "51 also",
                ])
            #expect(try await device.values("tag", "id").count == 6)

            try world.app.run("BEGIN; TRUNCATE note CASCADE; INSERT INTO note VALUES (3, 'after', 0); COMMIT")
            try await Self.expectEqual(world, bridge)
            #expect(try await device.values("note", "title") == ["3 after"])
            #expect(try await device.values("tag", "id") == [])
        }
    }

    /// A transaction that began before others and ends after them is read when it has ended, and each entry once.
    @Test func aLongTransactionIsNeitherLostNorWaitedFor() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge(), slow = try Application(world.url)
            try slow.run("BEGIN; INSERT INTO note VALUES (1, 'slow', 1)")
            try world.app.run("INSERT INTO note VALUES (2, 'quick', 2)")
            #expect(try await bridge.synchronize().collected == 1)
            #expect(try await device.values("note", "title") == ["2 quick"])
            try slow.run("UPDATE note SET n = 3 WHERE id = 1; COMMIT")
            #expect(try await bridge.synchronize().collected == 1)
            #expect(try await device.values("note", "n") == ["1 3", "2 2"])

            // A row that another session has locked is left, and others are written.
            try slow.run("BEGIN; UPDATE note SET n = 4 WHERE id = 1")
            try await device.change { transaction in
                try transaction.object("note", key: 1)?.set("title", to: "locked")
                try transaction.object("note", key: 2)?.set("title", to: "free")
            }
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT title FROM note ORDER BY id") == ["slow", "free"])
            try slow.run("COMMIT")
            try await Self.expectEqual(world, bridge)
            #expect(try world.app.rows("SELECT * FROM note ORDER BY id") == ["1|locked|4", "2|free|2"])
        }
    }

    @Test func namesOfTheApplicationTakeNobodysPlace() async throws {
        let columns = [
            "k", "n", "o", "r", "c", "e", "key", "cols", "tbl", "action", "olds", "news", "value", "v", "t", "c0",
        ]
        let schema = """
            CREATE SCHEMA "a b"; CREATE TABLE "a b"."it's ""so\"\"\" ("the key" uuid PRIMARY KEY,
              \(columns.map { "\"\($0)\" text" }.joined(separator: ", ")), "back\\slash" text, "näme" text);
            """
        try await BridgeWorld.run(schema) { world in
            let path = #""a b"."it's ""so""""#
            try world.install([#"a b.it's "so""#])
            let device = try await world.device(), bridge = try await world.bridge()
            let key = "01234567-89ab-cdef-0123-456789abcdef"
            try world.app.run("INSERT INTO \(path) (\"the key\", k, news) VALUES ('\(key)', 'a', 'b')")
            try world.app.run("UPDATE \(path) SET n = 'c', \"back\\slash\" = 'd', \"näme\" = 'e'")
            try await Self.expectEqual(world, bridge)
            #expect(try await device.values(#"it's "so""#, "back\\slash") == ["\(key) d"])
            let object = PrimaryKey.uuid(try #require(UUIDBytes(Hex.decode(key.replacing("-", with: "")) ?? [])))
            try await device.change { transaction in
                for name in columns + ["näme"] {
                    try transaction.object(#"it's "so""#, key: object)?.set(name, to: "x'\"\\")
                }
            }
            try await Self.expectEqual(world, bridge)
            let equal = (columns + ["näme"]).map { "\"\($0)\" = E'x\\'\"\\\\'" }.joined(separator: " AND ")
            #expect(try world.app.rows("SELECT count(*) FROM \(path) WHERE \(equal)") == ["1"])
            try world.database.repairAtNextPass()
            try await Self.expectEqual(world, bridge)
        }
    }

    @Test func aWriterNeedsNoRightsOfTheBridge() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let role = "writer_\(UUID().uuidString.prefix(8).lowercased())"
            try world.app.run(
                """
                CREATE ROLE \(role) LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON note TO \(role);
                SET ROLE \(role); SET anabranch.person = 'ann@example.com';
                INSERT INTO note VALUES (1, 'a', 1); UPDATE note SET n = 2;
                RESET anabranch.person; UPDATE note SET n = 3;
                """)
            #expect(throws: (any Error).self) { try world.app.run("SELECT * FROM anabranch.history") }
            try world.app.run("RESET ROLE")
            #expect(
                try world.app.rows("SELECT person FROM anabranch.history ORDER BY id") == [
                    "ann@example.com", "ann@example.com", "postgres",
                ])
            let bridge = try await world.bridge()
            try await Self.expectEqual(world, bridge)
        }
    }

    @Test func partitionedAndInheritedTablesAreSeen() async throws {
        let schema = """
            CREATE TABLE part (id bigint PRIMARY KEY, n int) PARTITION BY RANGE (id);
            CREATE TABLE part_a PARTITION OF part FOR VALUES FROM (0) TO (100);
            CREATE TABLE part_b PARTITION OF part FOR VALUES FROM (100) TO (200);
            CREATE TABLE base (id bigint PRIMARY KEY, n int); CREATE TABLE heir (more text) INHERITS (base);
            """
        try await BridgeWorld.run(schema, ["part", "base"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run(
                """
                INSERT INTO part VALUES (1, 1), (101, 1); INSERT INTO part_a VALUES (2, 2);
                INSERT INTO base VALUES (1, 1); INSERT INTO heir VALUES (2, 2, 'x');
                """)
            try await Self.expectEqual(world, bridge)
            #expect(try await device.values("part", "n") == ["1 1", "2 2", "101 1"])
            #expect(try await device.values("base", "n") == ["1 1", "2 2"])
            try world.app.run(
                """
                UPDATE part SET id = id + 150 WHERE id = 2; UPDATE part_b SET n = 9 WHERE id = 101;
                CREATE TABLE part_c PARTITION OF part FOR VALUES FROM (200) TO (300);
                INSERT INTO part_c VALUES (201, 3);
                TRUNCATE part_a; DELETE FROM base WHERE id = 2; UPDATE heir SET n = 7;
                """)
            try await device.change { try $0.create("part", key: 250, ["n": 4]) }
            try await Self.expectEqual(world, bridge)
            #expect(try await device.values("part", "n") == ["101 9", "152 2", "201 3", "250 4"])
            #expect(try world.app.rows("SELECT id FROM part_c ORDER BY id") == ["201", "250"])
            #expect(try await device.values("base", "n") == ["1 1"])
        }
    }

    @Test func columnsAndTablesCanBeAddedWhileTheBridgeRuns() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note VALUES (1, 'one', 1), (2, 'two', 2)")
            try await bridge.synchronize()
            try world.app.run(
                """
                ALTER TABLE note ADD COLUMN mark text DEFAULT 'old', DROP COLUMN n;
                UPDATE note SET mark = 'new' WHERE id = 2;
                CREATE TABLE tag (id text PRIMARY KEY, note bigint REFERENCES note); INSERT INTO tag VALUES ('a', 1);
                """)
            try world.install(["tag"])
            try world.app.run("INSERT INTO tag VALUES ('b', 2); INSERT INTO note VALUES (3, 'three', 'x')")
            try await Self.expectEqual(world, bridge)
            #expect(try await device.values("note", "mark") == ["1 old", "2 new", "3 x"])
            #expect(try await device.values("note", "n") == ["1 1", "2 2", "3 ∅"])
            #expect(try await device.values("tag", "id").count == 2)
        }
    }
}

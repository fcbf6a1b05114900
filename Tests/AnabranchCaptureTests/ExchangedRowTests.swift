@testable import AnabranchCapture
import AnabranchClient
import Testing

/// Rows of which none can be written first (`Spec/Capture.md`, section 6).
@Suite struct ExchangedRowTests {
    @Test(arguments: [
        "CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT NOT NULL UNIQUE CHECK (length(u) < 4), v INTEGER)",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE, v)",
        "CREATE TABLE t (u TEXT PRIMARY KEY, v INTEGER) STRICT, WITHOUT ROWID",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, u NOT NULL, v); CREATE UNIQUE INDEX t_u ON t (lower(u)) WHERE v < 9",
    ])
    func uniqueValuesAreExchanged(_ schema: String) async throws {
        try await CaptureWorld.pair(schema, ["t"]) { a, b in
            try a.db.execute("INSERT INTO t (u, v) VALUES ('a', 1), ('b', 2), ('c', 3), ('d', 4)")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE t SET u = u || '-'; UPDATE t SET u = substr('bcad', v, 1)")
            // A row that cannot come hinders none of them.
            try b.db.execute("INSERT INTO t (u, v) VALUES ('e', 5)")
            try a.db.execute("INSERT INTO t (u, v) VALUES ('e', 6)")
            for app in [a, b] { try await app.synchronize() }
            let query = "SELECT u, v FROM t WHERE v < 5 ORDER BY v"
            for app in [a, b] { #expect(try app.rows(query) == ["b|1", "c|2", "a|3", "d|4"]) }
            #expect(try b.waitingCount() == 1)
        }
    }

    /// Rows of the application that refer to them follow.
    @Test func uniqueValuesThatOthersReferToAreExchanged() async throws {
        let schema = """
            CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INTEGER);
            CREATE TABLE own (v INTEGER, u TEXT REFERENCES t (u) ON UPDATE CASCADE)
            """
        try await CaptureWorld.pair(schema, ["t"]) { a, b in
            try a.db.execute("INSERT INTO t (u, v) VALUES ('a', 1), ('b', 2)")
            for app in [a, b] { try await app.synchronize() }
            try b.db.execute("INSERT INTO own SELECT v, u FROM t")
            try a.db.execute("UPDATE t SET u = u || '-'; UPDATE t SET u = substr('ba', v, 1)")
            for app in [a, b] { try await app.synchronize() }
            for table in ["t", "own"] {
                #expect(try b.rows("SELECT v, u FROM \(table) ORDER BY v") == ["1|b", "2|a"])
            }
        }
    }

    @Test func aLongListIsTurnedRound() async throws {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, was INTEGER, place INTEGER NOT NULL UNIQUE)"
        try await CaptureWorld.pair(schema, ["t"]) { a, b in
            try a.db.execute(
                """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
                INSERT INTO t (was, place) SELECT i, i FROM n
                """)
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE t SET place = -place; UPDATE t SET place = 2501 + place")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT count(*) FROM t WHERE was + place = 2501") == ["2500"])
            #expect(try b.waitingCount() == 0)
        }
    }

    /// The database of the other device has no constraint.
    @Test func uniqueValuesAreExchangedOneAfterTheOther() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, "CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT, v INTEGER)")
            let b = try CapturingApp(
                "b", in: world, "CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INTEGER)")
            for app in [a, b] { try app.install(["t"]) }
            try a.db.execute("INSERT INTO t (u, v) VALUES ('a', 1), ('b', 2)")
            for app in [a, b] { try await app.synchronize() }
            for (change, waiting) in [("u = 'b' WHERE v = 1", 1), ("u = 'a' WHERE v = 2", 0)] as [(String, Int64)] {
                try a.db.execute("UPDATE t SET \(change)")
                for app in [a, b] { try await app.synchronize() }
                #expect(try b.waitingCount() == waiting)
            }
            #expect(try b.rows("SELECT u, v FROM t ORDER BY v") == ["b|1", "a|2"])
            for app in [a, b] { try await app.close() }
        }
    }

    /// At the first exchange, or if all objects are compared, those of each table come by themselves.
    @Test(arguments: [false, true]) func rowsReferToEachOther(_ isRepaired: Bool) async throws {
        let schema = """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT,
              head INTEGER NOT NULL REFERENCES person DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, team INTEGER NOT NULL REFERENCES team);
            CREATE TABLE place (id INTEGER PRIMARY KEY, name TEXT, within INTEGER NOT NULL REFERENCES place)
            """
        try await CaptureWorld.pair(schema, ["team", "person", "place"]) { a, b in
            // The numbers of rows are others there.
            try b.db.execute("INSERT INTO place VALUES (1, 'mars', 1)")
            try a.db.execute(
                """
                BEGIN;
                INSERT INTO team VALUES (1, 'red', 10), (2, 'blue', 20);
                INSERT INTO person VALUES (10, 'ann', 1), (11, 'bob', 1), (20, 'eve', 2);
                INSERT INTO place VALUES (1, 'earth', 1), (2, 'oslo', 1);
                COMMIT
                """)
            if isRepaired {
                try await b.open(online: false)
                try await #require(b.capture).pass()
                try b.database.repairAtNextPass()
                try await a.synchronize()
                try await b.open()
                try await #require(b.capture).replica.waitForDownload()
            }
            for app in [a, b, a] { try await app.synchronize() }
            func expect(_ heads: [String], _ teams: [String]) throws {
                for app in [a, b] {
                    let head = "SELECT t.name, p.name FROM team t JOIN person p ON p.id = head ORDER BY 1"
                    #expect(try app.rows(head) == heads)
                    let team = "SELECT p.name, t.name FROM person p JOIN team t ON t.id = team ORDER BY 1"
                    #expect(try app.rows(team) == teams)
                    let places = "SELECT p.name, q.name FROM place p JOIN place q ON q.id = p.within ORDER BY 1"
                    #expect(try app.rows(places) == ["earth|earth", "mars|mars", "oslo|earth"])
                    #expect(try app.waitingCount() == 0)
                }
            }
            try expect(["blue|eve", "red|ann"], ["ann|red", "bob|red", "eve|blue"])
            try b.db.execute(
                """
                BEGIN;
                UPDATE team SET head = (SELECT p.id FROM person p WHERE p.name = 'bob');
                DELETE FROM person WHERE name = 'eve';
                UPDATE person SET team = (SELECT t.id FROM team t WHERE t.name = 'blue');
                DELETE FROM team WHERE name = 'red';
                COMMIT
                """)
            for app in [b, a] { try await app.synchronize() }
            try expect(["blue|bob"], ["ann|blue", "bob|blue"])
        }
    }

    /// Nothing is left of the values that a row holds in between, also where its target does not come.
    @Test func aRowWhoseTargetIsMissingWaits() async throws {
        let schema = """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, folder INTEGER NOT NULL)
            """
        var rule = TableRule()
        rule.references = ["folder": "folder"]
        try await CaptureWorld.pair(schema, ["folder", "note"], rules: ["note": rule]) { a, b in
            try b.db.execute("INSERT INTO folder VALUES (1, 'x')")
            try a.db.execute("INSERT INTO folder VALUES (5, 'x'); INSERT INTO note VALUES (1, 'one', 5)")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT * FROM note") == [])
            #expect(try b.waitingCount() == 2)
            try b.db.execute("DELETE FROM folder")
            try await b.synchronize()
            #expect(try b.rows("SELECT title, name FROM note JOIN folder ON folder.id = folder") == ["one|x"])
            #expect(try b.waitingCount() == 0)
        }
    }
}

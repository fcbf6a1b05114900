import AnabranchClient
import Synchronization
import Testing

@testable import AnabranchCapture

/// The writes of applications that are easily missed or misunderstood (`Spec/Capture.md`, section 2).
@Suite struct WriteTests {
    private static let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT COLLATE NOCASE, body)"

    @Test func theApplicationSeesNothingOfTheTriggers() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, _ in
            try a.db.execute("INSERT INTO note VALUES (41, 'x', NULL); UPDATE note SET title = 'y'")
            #expect(try a.rows("SELECT last_insert_rowid(), changes()") == ["41|1"])
        }
    }

    @Test(arguments: [
        // The collation takes both for equal.
        ("'abc'", "title = 'ABC'", "ABC|x"), ("'abc'", "body = 1", "abc|1"),
        // The storage class alone.
        ("'abc'", "body = x'78'", "abc|x78"), ("NULL", "title = ''", "|x"), ("'abc'", "title = NULL", "∅|x"),
    ])
    func aChangeOfSpellingOrStorageClassIsOne(_ title: String, _ change: String, _ row: String) async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute("INSERT INTO note (title, body) VALUES (\(title), 'x')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE note SET \(change)")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT title, body FROM note") == [row])
        }
    }

    /// A column without affinity keeps integers and reals apart; beyond 2^53 it is the value that differs.
    @Test(arguments: [
        ("1", "1.0"), ("0.0", "0"), ("9007199254740993", "9007199254740992.0"),
        ("9223372036854775807", "9223372036854775808.0"),
    ])
    func anIntegerAndARealAreTwoValues(_ first: String, _ second: String) async throws {
        let schema = """
            CREATE TABLE t (k TEXT PRIMARY KEY, plain, n NUMERIC);
            CREATE TABLE s (k TEXT PRIMARY KEY, x ANY) STRICT
            """
        try await CaptureWorld.pair(schema, ["t", "s"]) { a, b in
            try a.db.execute("INSERT INTO t VALUES ('k', \(first), \(first)); INSERT INTO s VALUES ('k', \(first))")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE t SET plain = \(second), n = \(second); UPDATE s SET x = \(second)")
            for app in [a, b] { try await app.synchronize() }
            let query = "SELECT plain, typeof(plain), n, typeof(n), x, typeof(x) FROM t JOIN s USING (k)"
            #expect(try a.rows(query) == b.rows(query))
        }
    }

    @Test func anUpdateWithEqualValuesIsNone() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, _ in
            try a.db.execute("INSERT INTO note (title, body) VALUES ('abc', 1.5), (NULL, NULL)")
            try await a.synchronize()
            try a.db.execute("UPDATE note SET id = id, title = title, body = body")
            #expect(try await a.synchronize().isEmpty)
            #expect(try a.uncollected() == 0)
        }
    }

    /// What a failed statement has noted keeps its number, although `sqlite_sequence` would not count it.
    @Test func aStatementThatFailsInBetweenHidesNoLaterOne() async throws {
        try await CaptureWorld.pair("CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE)", ["t"]) { a, b in
            try a.db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
            for app in [a, b, a] { try await app.synchronize() }
            #expect(throws: SQLError.self) { try a.db.execute("UPDATE OR FAIL t SET a = 'y' WHERE id = 1") }
            for app in [a, b, a] { try await app.synchronize() }
            try a.db.execute("UPDATE t SET a = 'z' WHERE id = 1")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT a FROM t ORDER BY a") == ["y", "z"])
        }
    }

    @Test func keysThatAreGivenAgainBelongToNewObjects() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute("INSERT INTO note VALUES (1, 'one', NULL), (2, 'two', NULL)")
            for app in [a, b] { try await app.synchronize() }
            let before = try a.objects("note")
            try a.db.execute("DELETE FROM note WHERE id = 2; INSERT INTO note VALUES (2, 'new', NULL)")
            for app in [a, b] { try await app.synchronize() }
            let after = try a.objects("note")
            #expect(after[0] == before[0] && after[1] != before[1])
            #expect(try b.objects("note") == after)
        }
    }

    /// SQLite gives the row of another device the number of a row whose deletion is not collected yet.
    @Test func aNumberThatIsGivenAgainInTheMidstOfAPassErasesNothingElse() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute("INSERT INTO note VALUES (1, 'one', NULL), (2, 'two', NULL)")
            for app in [a, b] { try await app.synchronize() }
            try b.db.execute("INSERT INTO note (title) VALUES ('three')")
            try await b.synchronize()
            let capture = try #require(a.capture)
            try await capture.replica.waitForDownload()
            try a.db.execute("UPDATE note SET body = 1 WHERE id = 1")
            let isFirst = Mutex(true)
            nonisolated(unsafe) let db = a.db
            // The first report comes between collecting and applying.
            try await capture.pass { _ in
                guard isFirst.withLock({ $0 }) else { return }
                isFirst.withLock { $0 = false }
                try? db.execute("DELETE FROM note WHERE id = 2")
            }
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] {
                #expect(try app.rows("SELECT title FROM note ORDER BY title") == ["one", "three"])
            }
        }
    }

    @Test func keysThatAreExchangedTakeTheirObjectsAlong() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute("INSERT INTO note VALUES (1, 'one', NULL), (2, 'two', NULL)")
            for app in [a, b] { try await app.synchronize() }
            let before = try a.objects("note")
            try a.db.execute(
                """
                UPDATE note SET id = -1 WHERE id = 1; UPDATE note SET id = 1 WHERE id = 2;
                UPDATE note SET id = 2 WHERE id < 0
                """)
            for app in [a, b] { try await app.synchronize() }
            #expect(try a.objects("note") == before.reversed())
            #expect(try b.rows("SELECT title FROM note ORDER BY title") == ["one", "two"])
        }
    }

    /// A collation of the key takes the old row for the new one; there is one object all the same.
    @Test func aKeyThatIsReplacedInAnotherSpellingIsOneRow() async throws {
        let schema = "CREATE TABLE tag (name TEXT COLLATE NOCASE PRIMARY KEY, n)"
        try await CaptureWorld.pair(schema, ["tag"]) { a, b in
            try a.db.execute("INSERT INTO tag VALUES ('abc', 1)")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("INSERT OR REPLACE INTO tag VALUES ('ABC', 2)")
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] {
                #expect(try app.rows("SELECT * FROM tag") == ["ABC|2"])
                #expect(try app.rows("SELECT key FROM sync_row") == ["'ABC'"])
                #expect(try app.rows("SELECT * FROM sync_pending") == [])
            }
        }
    }

    /// So does a column without type with an integer and a real.
    @Test(arguments: [
        "UPDATE t SET k = 1.0 WHERE k = 1", "INSERT OR REPLACE INTO t VALUES (1.0, 'one')",
        "DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1.0, 'one')",
    ])
    func aKeyThatBecomesARealIsOneRow(_ change: String) async throws {
        try await CaptureWorld.pair("CREATE TABLE t (k NOT NULL PRIMARY KEY, v)", ["t"]) { a, b in
            try a.db.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute(change)
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] {
                #expect(try app.rows("SELECT typeof(k), v FROM t ORDER BY v") == ["real|one", "integer|two"])
                #expect(try app.rows("SELECT key FROM sync_row ORDER BY key") == ["1.0", "2"])
                #expect(try app.rows("SELECT * FROM sync_pending") == [])
            }
        }
    }

    /// A generated column is not the one that a statement changes.
    @Test func whatAGeneratedColumnTakesAwayIsDeleted() async throws {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, folded TEXT AS (lower(name)) UNIQUE)"
        try await CaptureWorld.pair(schema, ["t"]) { a, b in
            try a.db.execute("INSERT INTO t (name) VALUES ('A'), ('B'), ('C')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE OR REPLACE t SET name = 'a' WHERE name = 'B'")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT name FROM t ORDER BY name") == ["C", "a"])
            #expect(try b.waitingCount() == 0)
        }
    }

    @Test func anIndexThatNoTriggerCanNameIsSweptBehind() async throws {
        let schema = """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, live INTEGER);
            CREATE UNIQUE INDEX t_lower ON t (lower(a));
            CREATE UNIQUE INDEX t_live ON t (live) WHERE live > 0
            """
        try await CaptureWorld.pair(schema, ["t"]) { a, b in
            try a.db.execute("INSERT INTO t VALUES (1, 'x', 0), (2, 'y', 1)")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("INSERT OR REPLACE INTO t VALUES (3, 'X', 0), (4, 'z', 1)")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT a, live FROM t ORDER BY a") == ["X|0", "z|1"])
        }
    }

    /// The entries of one REPLACE are read together, even if 2,000 others come before.
    @Test func aReplacementAtTheEndOfABatchKeepsItsObject() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, _ in
            try a.db.execute("INSERT INTO note VALUES (1, 'one', NULL)")
            try await a.synchronize()
            let before = try a.objects("note")
            try a.db.execute(
                """
                WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < \(Collection.entryCount))
                INSERT INTO note SELECT i, 'n', NULL FROM n;
                INSERT OR REPLACE INTO note VALUES (1, 'ONE', NULL)
                """)
            #expect(try a.uncollected() == Int64(Collection.entryCount) + 1)
            try await a.synchronize()
            #expect(try a.objects("note").first == before.first)
        }
    }

    /// Applications insert again and again what is there. Each time an entry says which row would have gone.
    @Test func ignoredRowsAreCollectedBatchByBatch() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, _ in
            try a.db.execute("INSERT INTO note VALUES (1, 'one', NULL)")
            try await a.synchronize()
            let last = try #require(try a.db.value("SELECT max(id) FROM sync_history")?.int)
            try a.db.execute(
                """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(5 * Collection.entryCount))
                INSERT OR IGNORE INTO note SELECT 1, 'again', NULL FROM n
                """)
            #expect(try a.uncollected() == Int64(5 * Collection.entryCount))
            let database = try a.database
            try database.check()
            let collected = try #require(try Collection.next(in: database, [:]))
            #expect(collected.changes.isEmpty && collected.newest <= last + Int64(Collection.entryCount))
            #expect(try await a.synchronize().isEmpty)
            #expect(try a.uncollected() == 0)
        }
    }

    /// One row has so many entries that those of another one are not looked at.
    @Test func noRowIsWrittenWhoseEntriesAreNotCollected() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, _ in
            try a.db.execute("INSERT INTO note VALUES (1, 'one', NULL), (2, 'two', NULL)")
            try await a.synchronize()
            try a.db.execute(
                """
                WITH RECURSIVE n (i) AS (
                  SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < \(Application.uncollectedCount))
                INSERT OR IGNORE INTO note SELECT 1, 'again', NULL FROM n;
                UPDATE note SET body = 'new' WHERE id = 2
                """)
            let database = try a.database
            try database.check()
            let table = try #require(database.tables.first)
            let guid = try #require(try database.guid(of: RowKey(table: table.number, key: .int(2))))
            let dirty = DirtyObject(table: table.number, guid: guid)
            let state = try await #require(a.capture).replica.snapshot().state
            let forms = [table.number: table.properties.map { ColumnForm($0, of: table) }]
            var application = Application(database, state, forms)
            let outcome = try application.run([(dirty, try application.object(dirty))])
            #expect(outcome.left == [dirty] && outcome.count == 0)
            #expect(try a.rows("SELECT body FROM note WHERE id = 2") == ["new"])
        }
    }

    /// The replica has made its half of a step, and the database cannot make the other one. The step before, which
    /// makes the classes, collects nothing.
    @Test func aStepThatIsHalfDoneIsNotMadeAgain() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, b in
            try a.db.execute(
                """
                INSERT INTO note (title) VALUES ('one');
                CREATE TRIGGER full BEFORE INSERT ON sync_state WHEN NEW.name = 'collected' AND NEW.value > 0 BEGIN
                  SELECT RAISE(ABORT, 'full'); END
                """)
            await #expect(throws: CaptureError.self) { try await a.synchronize() }
            try await b.synchronize()
            try b.db.execute("UPDATE note SET body = 'from b'")
            try await b.synchronize()
            try a.db.execute("DROP TRIGGER full")
            for app in [a, b] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows("SELECT title, body FROM note") == ["one|from b"]) }
            #expect(try a.rows("SELECT count(*) FROM sync_row") == ["1"])
        }
    }

    @Test func aPropertyThatOthersRemoveIsMadeAgain() async throws {
        try await CaptureWorld.pair(Self.notes, ["note"]) { a, _ in
            try await a.open(online: false)
            let capture = try #require(a.capture)
            try a.db.execute("INSERT INTO note VALUES (1, 'one', NULL)")
            try await capture.pass()
            try await capture.replica.write { tx in try tx.eraseColumn("title", of: "note") }
            try a.db.execute("UPDATE note SET title = 'ONE'")
            await #expect(throws: CaptureError.self) { try await capture.pass() }
            #expect(try await capture.pass().collected == 1)
        }
    }

    /// To `quote`, the first and the third are one.
    @Test func rowsWithANULInTheKeyAreNotNoted() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, "CREATE TABLE t (a PRIMARY KEY, b)")
            try a.db.execute("INSERT INTO t VALUES ('x', 1), (x'0061', 2), ('x' || char(0) || 'y', 3)")
            try a.install(["t"])
            #expect(try a.rows("SELECT key FROM sync_history WHERE action = 5 ORDER BY key") == ["'x'", "X'0061'"])
        }
    }

    @Test func rowsWithANullInTheKeyAreNotSynced() async throws {
        let schema = "CREATE TABLE t (a TEXT PRIMARY KEY, b)"
        try await CaptureWorld.pair(schema, ["t"]) { a, b in
            try a.db.execute("INSERT INTO t VALUES (NULL, 1), (NULL, 2), ('x', 3)")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT * FROM t") == ["x|3"])
            try a.db.execute("UPDATE t SET a = 'y' WHERE b = 1; UPDATE t SET a = NULL WHERE b = 3")
            for app in [a, b] { try await app.synchronize() }
            #expect(try a.rows("SELECT * FROM t ORDER BY b") == ["y|1", "∅|2", "∅|3"])
            #expect(try b.rows("SELECT * FROM t") == ["y|1"])
        }
    }

    /// Some databases have rows whose foreign keys lead nowhere: `foreign_keys` is off in most connections.
    @Test func aReferenceToARowThatComesLaterBecomesALink() async throws {
        let schema = """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, folder INTEGER REFERENCES FOLDER (ID))
            """
        try await CaptureWorld.pair(schema, ["note", "folder"]) { a, b in
            try a.db.execute("PRAGMA foreign_keys = OFF; INSERT INTO note VALUES (1, 'x', 9)")
            for app in [a, b, a] { try await app.synchronize() }
            #expect(try a.rows("SELECT * FROM note") == ["1|x|9"])
            #expect(try b.rows("SELECT title, folder FROM note") == ["x|∅"])
            try b.db.execute("INSERT INTO folder VALUES (3, 'other')")
            try await b.synchronize()
            try a.db.execute("INSERT INTO folder VALUES (9, 'nine')")
            for app in [a, b, a] { try await app.synchronize() }
            let joined = "SELECT title, name FROM note LEFT JOIN folder ON folder.id = folder"
            for app in [a, b] { #expect(try app.rows(joined) == ["x|nine"]) }
        }
    }

    /// The device that has made a change has synced what its own triggers did.
    @Test func triggersOfTheApplicationCountOnce() async throws {
        let schema = """
            CREATE TABLE total (name TEXT PRIMARY KEY, n INTEGER);
            CREATE TABLE local (name TEXT PRIMARY KEY, n INTEGER);
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
            INSERT INTO local VALUES ('notes', 0);
            CREATE TRIGGER counts AFTER INSERT ON note BEGIN
              UPDATE total SET n = n + 1; UPDATE local SET n = n + 1; END
            """
        var filtered = TableRule()
        filtered.filter = "name <> 'own'"
        try await CaptureWorld.pair(schema, ["note", "total"], rules: ["total": filtered]) { a, b in
            try a.db.execute("INSERT INTO total VALUES ('notes', 0)")
            for app in [a, b] { try await app.synchronize() }
            // This row belongs to this database alone, whatever triggers do to it.
            try b.db.execute("INSERT INTO total VALUES ('own', 0)")
            try a.db.execute("INSERT INTO note (title) VALUES ('x'), ('y')")
            for app in [a, b, a] { try await app.synchronize() }
            #expect(try a.rows("SELECT * FROM total") == ["notes|2"])
            #expect(try b.rows("SELECT * FROM total ORDER BY name") == ["notes|2", "own|2"])
            // A table that is not captured keeps what the trigger did.
            #expect(try b.rows("SELECT * FROM local") == ["notes|2"])
        }
    }
}

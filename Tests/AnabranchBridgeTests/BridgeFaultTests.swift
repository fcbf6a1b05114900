import AnabranchBridge
import AnabranchClient
import AnabranchTesting
import Foundation
import Testing

/// Faults: values that do not fit, triggers that are missing, processes that take over (`Spec/Bridge.md`, sections 5 to
/// 7).
@Suite(.timeLimit(.minutes(30))) struct BridgeFaultTests {
    private static let notes = "CREATE TABLE note (id bigint PRIMARY KEY, title text UNIQUE, n int CHECK (n < 100))"

    private static func failure(_ body: () async throws -> Void) async throws -> BridgeError {
        do { try await body() } catch let error as BridgeError { return error }
        return try #require(nil, "nothing was thrown")
    }

    @Test func whatATableDoesNotTakeWaitsWithTheReason() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try await bridge.synchronize()
            try await device.waitForDownload()
            try await device.change { transaction in
                for key in 1...20 {
                    let title: Payload = key == 7 ? "a\0b" : key == 9 ? "t8" : .string(Array("t\(key)".utf8))
                    try transaction.create(
                        "note", key: .int(Int64(key)), ["title": title, "n": key == 3 ? 1_000 : 1])
                }
            }
            #expect(try await bridge.synchronize().waiting == 3)
            let status = try world.database.status()
            #expect(status.waiting.map(\.key) == ["3", "7", "9"] && status.uncollected == 0 && status.holder == "a")
            #expect(status.waiting[0].reason.contains("note_n_check") && status.waiting[2].reason.contains("23505"))
            #expect(try world.app.rows("SELECT count(*) FROM note") == ["17"])
            let differences = try await world.differences(bridge.replica)
            #expect(
                differences.count == 3 && differences.allSatisfy { $0.contains("noRow") && $0.contains("SQLSTATE") })

            // It is written when what was in its way is gone.
            try world.app.run("UPDATE note SET title = 'other' WHERE id = 8")
            try await device.change { transaction in
                try transaction.object("note", key: 3)?.set("n", to: 3)
                try transaction.object("note", key: 7)?.set("title", to: "ab")
            }
            #expect(try await bridge.synchronize().waiting == 0)
            #expect(
                try world.app.rows("SELECT title FROM note WHERE id IN (3, 7, 8, 9) ORDER BY id") == [
                    "t3", "ab", "other", "t8",
                ])
        }
    }

    /// Any client can make one. What else there is goes on.
    @Test func anObjectWhoseKeyNoIndexTakesWaits() async throws {
        try await BridgeWorld.run("CREATE TABLE tag (id text PRIMARY KEY, n int)", ["tag"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try await bridge.synchronize()
            try await device.waitForDownload()
            try await device.change { transaction in
                for count in [2_001, 4_096, 2_000] {
                    // Bytes that cannot be pressed.
                    let key = (0..<count).map { _ in UInt8.random(in: 0x21...0x7e) }
                    try transaction.create("tag", key: .string(key), ["n": 1])
                }
                try transaction.create("tag", key: "a", ["n": 1])
            }
            #expect(try await bridge.synchronize().waiting == 2)
            #expect(try world.app.rows("SELECT length(id) FROM tag ORDER BY 1") == ["1", "2000"])
            let reasons = try world.database.status().waiting.map(\.reason)
            #expect(reasons == ["no row can have its key", "no row can have its key"])
            try await device.change { try $0.object("tag", key: "a")?.set("n", to: 2) }
            _ = try await bridge.synchronize()
            #expect(try world.app.rows("SELECT n FROM tag WHERE id = 'a'") == ["2"])
        }
    }

    /// An index takes a little more than the bridge does.
    @Test func aRowWhoseKeyNoObjectTakesStaysAsItIs() async throws {
        try await BridgeWorld.run("CREATE TABLE tag (id text PRIMARY KEY, n int)", ["tag"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            let key = String(decoding: (0..<2_500).map { _ in UInt8.random(in: 0x41...0x5a) }, as: UTF8.self)
            try world.app.run("INSERT INTO tag VALUES ('\(key)', 1), ('a', 1)")
            try await bridge.synchronize()
            #expect(
                try world.app.rows("SELECT kind, length(key) FROM anabranch.conflict ORDER BY key") == ["value|2500"])
            #expect(try world.app.rows("SELECT length(id) FROM tag ORDER BY 1") == ["1", "2500"])
            #expect(try world.database.status().waiting.isEmpty)
            #expect(try await device.values("tag", "n").count == 1)
            try world.app.run("DELETE FROM tag WHERE n = 1")
            try await bridge.synchronize()
            #expect(try await device.values("tag", "n").isEmpty)
            #expect(try world.app.rows("SELECT count(*) FROM anabranch.conflict") == ["1"])
        }
    }

    @Test func whatTriggersOfTheApplicationDoIsSetBackOnBridgedTablesOnly() async throws {
        let schema =
            Self.notes + """
                ; CREATE TABLE log (at timestamptz DEFAULT now(), note bigint);
                CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                  INSERT INTO log (note) VALUES (NEW.id);
                  NEW.n := NEW.n + 1;
                  IF NEW.id < 100 THEN INSERT INTO note VALUES (NEW.id + 100, 'of ' || NEW.id, 0); END IF;
                  RETURN NEW; END $$;
                CREATE TRIGGER touch BEFORE INSERT ON note FOR EACH ROW EXECUTE FUNCTION touch();
                """
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note VALUES (1, 'sql', 1)")
            try await bridge.synchronize()
            #expect(try await device.values("note", "n") == ["1 2", "101 1"])
            try await device.change { try $0.create("note", key: 2, ["title": "device", "n": 1]) }
            #expect(try await bridge.synchronize().isUnstable == false)
            #expect(try await world.differences(bridge.replica) == [])
            #expect(try world.app.rows("SELECT id, n FROM note ORDER BY id") == ["1|2", "2|1", "101|1"])
            #expect(try world.app.rows("SELECT count(*) FROM log") == ["4"])
            #expect(try await bridge.synchronize().isEmpty)
        }
    }

    /// Other writers would wait with it.
    @Test func aTableThatOthersKeepLockedIsNotWaitedFor() async throws {
        try await BridgeWorld.run(Self.notes) { world in
            let reason = "others keep a table locked, by a transaction that is open: nothing is changed"
            try world.app.run("BEGIN; INSERT INTO note VALUES (1, 'a', 1)")
            #expect(try await Self.failure { try world.install(["note"]) }.description == reason)
            #expect(try !world.database.isInstalled)
            try world.app.run("COMMIT")
            try world.install(["note"])
            try world.app.run("BEGIN; UPDATE note SET n = 2")
            #expect(try await Self.failure { try world.database.uninstall() }.description == reason)
            for sql in ["COMMIT", "DROP TRIGGER anabranch_u ON note", "BEGIN", "UPDATE note SET n = 3"] {
                try world.app.run(sql)
            }
            let bridge = try await world.bridge()
            #expect(try await Self.failure { try await bridge.synchronize() }.description == reason)
            try world.app.run("COMMIT")
            #expect(try await bridge.synchronize().renewedTables == [#""public"."note""#])
            #expect(try await world.differences(bridge.replica) == [])
        }
    }

    @Test func theStatusOfAHolderForEverCanBeRead() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            for time in ["infinity", "-infinity"] {
                try world.app.run("UPDATE anabranch.holder SET name = 'a', seen = '\(time)'")
                #expect(try world.database.status().silentSeconds == 0)
            }
        }
    }

    @Test func writesWithoutTriggersAreFoundByComparing() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note SELECT i, 't' || i, i FROM generate_series(1, 5) i")
            try await bridge.synchronize()
            try world.app.run(
                """
                SET session_replication_role = replica;
                UPDATE note SET n = 50 WHERE id = 1; DELETE FROM note WHERE id = 2;
                INSERT INTO note VALUES (6, 't6', 6); RESET session_replication_role;
                """)
            #expect(try await bridge.synchronize().isEmpty)
            #expect(try await world.differences(bridge.replica).map { $0.split(separator: " ")[1] } == ["1", "2", "6"])
            try world.database.repairAtNextPass()
            try await bridge.synchronize()
            #expect(try await device.values("note", "n") == ["1 50", "3 3", "4 4", "5 5", "6 6"])

            // Triggers that are gone or switched off are made again, and the rows compared.
            try world.app.run(
                """
                ALTER TABLE note DISABLE TRIGGER anabranch_u; DROP TRIGGER anabranch_d ON note;
                UPDATE note SET n = 51 WHERE id = 1; DELETE FROM note WHERE id = 3
                """
            )
            #expect(try world.database.status().tables.map(\.hasTriggers) == [false])
            try await bridge.close()
            let next = try await world.bridge("a")
            #expect(try await next.synchronize().renewedTables == [#""public"."note""#])
            #expect(try await device.values("note", "n").first == "1 51")
            #expect(try world.database.status().tables.map(\.hasTriggers) == [true])
            #expect(try await world.differences(next.replica) == [])
        }
    }

    /// Rows of the application that refer to them follow.
    @Test func uniqueValuesThatOthersReferToAreExchanged() async throws {
        let schema = """
            CREATE TABLE note (id bigint PRIMARY KEY, title text UNIQUE);
            CREATE TABLE own (id bigint, title text REFERENCES note (title) ON UPDATE CASCADE)
            """
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note VALUES (1, 'a'), (2, 'b'); INSERT INTO own SELECT id, title FROM note")
            try await bridge.synchronize()
            try await device.waitForDownload()
            try await device.change { transaction in
                try transaction.object("note", key: 1)?.set("title", to: "b")
                try transaction.object("note", key: 2)?.set("title", to: "a")
            }
            try await bridge.synchronize()
            for table in ["note", "own"] {
                #expect(try world.app.rows("SELECT id, title FROM \(table) ORDER BY id") == ["1|b", "2|a"])
            }
        }
    }

    @Test func partitionsBringRowsAndTakeThemAway() async throws {
        let schema = """
            CREATE TABLE note (id bigint PRIMARY KEY, title text, n bigint) PARTITION BY RANGE (id);
            CREATE TABLE early PARTITION OF note FOR VALUES FROM (0) TO (10);
            CREATE TABLE late PARTITION OF note FOR VALUES FROM (10) TO (20)
            """
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device()
            func synchronize() async throws {
                let bridge = try await world.bridge("a")
                try await bridge.synchronize()
                #expect(try await world.differences(bridge.replica) == [])
                try await bridge.close()
            }
            try world.app.run("INSERT INTO note VALUES (1, 'a', 1), (11, 'b', 2)")
            try await synchronize()
            #expect(try await device.values("note", "n") == ["1 1", "11 2"])
            try world.app.run("ALTER TABLE note DETACH PARTITION late; INSERT INTO late VALUES (12, 'c', 3)")
            try await synchronize()
            #expect(try await device.values("note", "n") == ["1 1"])
            try world.app.run("ALTER TABLE note ATTACH PARTITION late FOR VALUES FROM (10) TO (20)")
            try await synchronize()
            #expect(try await device.values("note", "n") == ["1 1", "11 2", "12 3"])
            try world.app.run("DROP TABLE late")
            try await synchronize()
            #expect(try await device.values("note", "n") == ["1 1"])
        }
    }

    @Test func rowsThatAnInstallationHasNotNotedAreCollected() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            // As after an installation that was ended before it had noted the first rows.
            try world.app.run("INSERT INTO note SELECT i, 't' || i, i FROM generate_series(1, 3) i")
            try world.app.run("DELETE FROM anabranch.history; UPDATE anabranch.bridged SET noted = ''")
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT count(*) FROM note") == ["3"])
            #expect(try await device.values("note", "n") == ["1 1", "2 2", "3 3"])
            #expect(try world.app.rows("SELECT count(*) FROM anabranch.bridged WHERE noted IS NOT NULL") == ["0"])
        }
    }

    @Test func anObjectThatComesWhileAllIsComparedIsNotErased() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note VALUES (1, 'one', 1)")
            try await bridge.synchronize()
            try world.database.repairAtNextPass()
            try world.app.run("BEGIN; LOCK TABLE anabranch.history IN EXCLUSIVE MODE")
            async let pass = bridge.pass()
            let waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'anabranch.history'::regclass"
            while try world.app.rows(waits).isEmpty { await Task.yield() }
            try await device.waitForDownload()
            try await device.change { try $0.create("note", key: 2, ["title": "two", "n": 2]) }
            try await bridge.replica.waitForDownload()
            try world.app.run("COMMIT")
            _ = try await pass
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT title FROM note ORDER BY id") == ["one", "two"])
            #expect(try await device.values("note", "title").count == 2)
        }
    }

    @Test func oneProcessHasTheBridgeAndAnotherTakesOver() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let device = try await world.device()
            let a = try await world.bridge("a"), b = try await world.bridge("b")
            try world.app.run("INSERT INTO note VALUES (1, 'one', 1)")
            try await a.synchronize()
            let error = try await Self.failure { try await b.synchronize() }
            #expect(error.code == .heldByOther && error.reason.hasPrefix("a has the bridge"))

            // What a has collected and not sent is sent by c, which takes over; a notices.
            try world.app.run("UPDATE note SET n = 2; INSERT INTO note VALUES (2, 'two', 2)")
            try await a.pass()
            let c = try await world.bridge("c", silence: 0)
            try await c.synchronize()
            try await device.change { try $0.object("note", key: 1)?.set("title", to: "new") }
            try await c.synchronize()
            #expect(try await device.values("note", "n") == ["1 2", "2 2"])
            #expect(try world.app.rows("SELECT title FROM note ORDER BY id") == ["new", "two"])
            try world.app.run("DELETE FROM note WHERE id = 2")
            try await c.synchronize()
            try world.app.run("UPDATE anabranch.holder SET seen = 'infinity'")
            try await a.replica.waitForDownload()
            #expect(try await Self.failure { try await a.pass() }.code == .heldByOther)
            #expect(try await world.differences(c.replica) == [])
            #expect(try await device.values("note", "title") == ["1 new"])

            // It gives the bridge up when it ends.
            try world.app.run("UPDATE anabranch.holder SET seen = now()")
            try await c.close()
            try await b.synchronize()
            #expect(try await world.differences(b.replica) == [])
            #expect(try world.app.rows("SELECT title FROM note") == ["new"])
        }
    }

    @Test func anotherFileAndMassDeletionsAreRefused() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            try world.app.run("INSERT INTO note SELECT i, 't' || i, 1 FROM generate_series(1, 300) i")
            let a = try await world.bridge("a", file: "notes")
            try await a.synchronize()
            try await a.close()
            let other = try await world.bridge("b", file: "others")
            #expect(try await Self.failure { try await other.synchronize() }.code == .fileMismatch)
            try await other.close()

            // The file has lost most objects while nobody looked.
            let device = try await world.device()
            try await device.change { transaction in
                for object in try transaction.objects("note").dropFirst(10) { try transaction.delete(object) }
            }
            let c = try await world.bridge("c", file: "notes")
            let error = try await Self.failure { try await c.synchronize() }
            #expect(error.code == .fileMismatch && error.reason.contains("290 of 300 rows"))
            #expect(try world.app.rows("SELECT count(*) FROM note") == ["300"])
            try await c.close()
            let d = try await world.bridge("d", allowsDeletions: true, file: "notes")
            try await d.synchronize()
            #expect(try world.app.rows("SELECT count(*) FROM note") == ["10"])
        }
    }

    @Test func aRestoredDatabaseTakesWhatTheFileHas() async throws {
        try await BridgeWorld.run(Self.notes, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note VALUES (1, 'one', 1), (2, 'two', 2)")
            try await bridge.synchronize()
            try await bridge.close()
            // As in another cluster, from a dump that is older than the file.
            try world.app.run(
                """
                ALTER TABLE note DISABLE TRIGGER USER;
                UPDATE note SET n = 99 WHERE id = 1; DELETE FROM note WHERE id = 2;
                INSERT INTO note VALUES (3, 'three', 3); ALTER TABLE note ENABLE TRIGGER USER;
                UPDATE anabranch.state SET value = '1' WHERE name = 'system';
                """)
            let next = try await world.bridge("a")
            try await next.synchronize()
            #expect(try world.app.rows("SELECT * FROM note ORDER BY id") == ["1|one|1", "2|two|2", "3|three|3"])
            #expect(try await device.values("note", "n") == ["1 1", "2 2", "3 3"])
            #expect(try await world.differences(next.replica) == [])
        }
    }

    @Test func whatCannotBeBridgedIsSaidAndChangesNothing() async throws {
        let schema = """
            CREATE TABLE good (id bigint PRIMARY KEY, at interval, total numeric GENERATED ALWAYS AS (1) STORED, n int);
            CREATE TABLE nokey (id bigint); CREATE TABLE two (a int, b int, PRIMARY KEY (a, b));
            CREATE TABLE odd (id inet PRIMARY KEY); CREATE VIEW seen AS SELECT * FROM good;
            CREATE TYPE color AS ENUM ('red'); CREATE TABLE few (id color PRIMARY KEY);
            """
        try await BridgeWorld.run(schema) { world in
            for (name, reason) in [
                ("nokey", "no primary key"), ("two", "several columns"), ("odd", "a key of type inet"),
                ("few", "a key of type color"), ("seen", "it is a view"), ("missing", "no such table"),
                ("pg_catalog.pg_class", "belongs to PostgreSQL"),
            ] {
                let error = try await Self.failure { try world.install(["good", name]) }
                #expect(error.code == .notBridgeable && error.table == name && error.reason.contains(reason))
                #expect(try world.app.rows("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == ["0"])
            }
            #expect(throws: BridgeError.self) { try world.database.status() }
            #expect(try world.install(["good"]).count == 2)
            #expect(try world.app.rows("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == ["4"])
            try world.database.uninstall()
            #expect(
                try world.app.rows(
                    """
                    SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal
                    UNION ALL SELECT count(*) FROM pg_namespace WHERE nspname = 'anabranch'
                    """
                )
                    == ["0", "0"])
        }
    }
}

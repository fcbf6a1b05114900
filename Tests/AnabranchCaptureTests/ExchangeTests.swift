@testable import AnabranchCapture
import AnabranchClient
import AnabranchCore
import AnabranchReplica
import Foundation
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

    @Test(arguments: [false, true])
    func aClockThatIsSetBackMakesTheReplicaNoOlderCopy(_ endsInAStep: Bool) async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, Self.schema)
            try a.install(["folder"])
            try a.db.execute("INSERT INTO folder VALUES (7, 'work')")
            try await a.synchronize()
            try await a.close()
            // Another transaction, which the database knows of, as the clock was ahead.
            let replica = try SyncedReplica(path: a.path + ".replica") {
                ChangesetTime(secondsSince1970: Date.now.timeIntervalSince1970 + 3_600)
            }
            try await replica.write { try $0.objects("folder")[0].set("name", to: "home") }
            let written = await replica.record.lastWritten
            try await replica.close()
            try a.db.execute("UPDATE sync_state SET value = \(written.rawValue) WHERE name = 'written'")
            if endsInAStep {
                try a.db.execute("INSERT INTO folder VALUES (8, 'garden')")
                try await a.open(online: false)
                try await a.endInTheMiddleOfAStep()
            } else {
                // The class of an empty table is made outside of a step.
                try a.install(["note"])
            }
            for _ in 0..<2 {
                try await a.open(online: false)
                _ = try await #require(a.capture).pass()
                try await a.close()
            }
            let names = try a.rows("SELECT name FROM folder ORDER BY id")
            #expect(names == (endsInAStep ? ["home", "garden"] : ["home"]))
        }
    }

    @Test(arguments: [false, true]) func aLostReplicaIsMadeAnew(_ isFlexible: Bool) async throws {
        try await CaptureWorld.pair(Self.schema, ["note", "folder"]) { a, b in
            for app in [a, b] { app.isFlexible = isFlexible }
            try a.db.execute(
                """
                INSERT INTO folder VALUES (7, 'work');
                INSERT INTO note VALUES (1, 'first', 7), (2, 'second', NULL), (3, 'third', NULL)
                """)
            for app in [a, b, a] { try await app.synchronize() }
            // The server does not get what is collected now, and the last row is not even that.
            try await a.open(online: false)
            try a.db.execute("UPDATE note SET title = 'SECOND' WHERE id = 2; INSERT INTO note VALUES (4, 'fourth', 7)")
            #expect(try await #require(a.capture).pass().collected == 2)
            try a.db.execute("INSERT INTO note VALUES (5, 'fifth', NULL)")
            try b.db.execute("UPDATE folder SET name = 'home'; DELETE FROM note WHERE title = 'third'")
            try await b.synchronize()

            try await a.close()
            try a.removeReplica()
            try await a.open(online: false)
            let error = await #expect(throws: CaptureError.self) { try await #require(a.capture).pass() }
            #expect(error?.code == .replicaMismatch)
            try await a.open()
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] {
                #expect(try app.rows(Self.joined) == ["SECOND|∅", "fifth|∅", "first|home", "fourth|home"])
                #expect(try await app.synchronize().isEmpty)
            }
        }
    }

    @Test func aChangeOfARowOrAnObjectEndsTheWait() async throws {
        try await CaptureWorld.pair(Self.schema, ["note", "folder"]) { a, b in
            for app in [a, b] { try await app.synchronize() }
            let (capture, other) = (try #require(a.capture), try #require(b.capture))
            // Nothing changes.
            try await capture.waitForChange(atMost: .milliseconds(1))
            async let row: Void = capture.waitForChange(atMost: .seconds(100_000))
            async let object: Void = other.waitForChange(atMost: .seconds(100_000))
            try a.db.execute("INSERT INTO note VALUES (1, 'first', NULL)")
            try await row
            #expect(try await a.synchronize().collected == 1)
            try await object
            #expect(try await other.pass().applied == 1)
            // Its own writes are none.
            try await other.waitForChange(atMost: .milliseconds(1))
            #expect(try await other.pass().isEmpty)
        }
    }

    @Test func aPassThatIsCancelledEndsBetweenTwoTransactions() async throws {
        try await CaptureWorld.pair(Self.schema, ["note", "folder"]) { a, b in
            try a.db.execute(
                """
                WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < 5000)
                INSERT INTO note (title) SELECT 'title ' || i FROM number
                """)
            try await a.open()
            let capture = try #require(a.capture)
            let cancelled = Task { try await capture.pass { _ in withUnsafeCurrentTask { $0?.cancel() } } }
            await #expect(throws: CancellationError.self) { try await cancelled.value }
            let left = try #require(try a.uncollected())
            #expect(left > 0 && left < 5_000)

            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT count(*), count(DISTINCT title) FROM note") == ["5000|5000"])
            #expect(try await a.synchronize().isEmpty)
        }
    }

    @Test func rowsAreNotDeletedForAFileWithoutThem() async throws {
        try await CaptureWorld.run { world in
            let app = try CapturingApp("a", in: world, Self.schema)
            try app.db.execute("INSERT INTO folder VALUES (7, 'work'); INSERT INTO note VALUES (1, 'first', 7)")
            try app.install(["note", "folder"])
            try await app.synchronize()
            try await app.close()
            try app.removeReplica()
            app.partition = #""other""#
            let error = await #expect(throws: CaptureError.self) { try await app.synchronize() }
            #expect(error?.code == .replicaMismatch)
            #expect(error?.reason.contains("2 of the 2 rows") == true)
            #expect(try app.rows(Self.joined) == ["first|work"])
            try await app.close()
        }
    }
}

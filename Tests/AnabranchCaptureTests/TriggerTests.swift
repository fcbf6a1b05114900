@testable import AnabranchCapture
import AnabranchClient
import Testing

/// Triggers of the application that do not let rows be as their objects (`Spec/Capture.md`, section 6).
@Suite struct TriggerTests {
    private static let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT, n INTEGER)"

    @Test func whatTriggersIgnoreWaits() async throws {
        try await CaptureWorld.pair(Self.schema, ["t"]) { a, b in
            let triggers = ["DELETE", "UPDATE", "INSERT"].map { write in
                "CREATE TRIGGER no_\(write) BEFORE \(write) ON t BEGIN SELECT RAISE(IGNORE); END"
            }
            try a.db.execute("INSERT INTO t (u, n) VALUES ('a', 1), ('b', 1)")
            for app in [a, b] { try await app.synchronize() }
            try b.db.execute(triggers.joined(separator: ";"))
            try a.db.execute("DELETE FROM t WHERE u = 'a'; UPDATE t SET n = 2; INSERT INTO t (u, n) VALUES ('c', 1)")
            for app in [a, b, b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try await app.synchronize().isEmpty) }
            #expect(try b.rows("SELECT u, n FROM t ORDER BY u") == ["a|1", "b|1"])
            let reasons = try b.database.status().waiting.map(\.reason).sorted()
            #expect(
                reasons
                    == ["be changed", "be deleted", "in"].map { "a trigger of the application does not let it \($0)" })
            var differences: [String] = []
            let state = try await #require(b.capture).replica.snapshot().state
            _ = try b.database.compare(with: state) { differences.append($0.reason ?? "none") }
            #expect(differences.sorted() == reasons)

            // They are written when the triggers are gone, and something has changed.
            try b.db.execute("DROP TRIGGER no_DELETE; DROP TRIGGER no_UPDATE; DROP TRIGGER no_INSERT")
            try a.db.execute("INSERT INTO t (u, n) VALUES ('d', 1)")
            for app in [a, b] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows("SELECT u, n FROM t ORDER BY u") == ["b|2", "c|1", "d|1"]) }
            #expect(try b.waitingCount() == 0)
        }
    }

    /// It has the last word in its database, and nowhere else.
    @Test func whatTriggersChangeAgainIsKept() async throws {
        try await CaptureWorld.pair(Self.schema, ["t"]) { a, b in
            try b.db.execute(
                """
                CREATE TABLE log (u);
                CREATE TRIGGER limits AFTER UPDATE ON t WHEN NEW.n > 9 BEGIN
                  INSERT INTO log VALUES (NEW.u); UPDATE t SET n = 9 WHERE id = NEW.id; END
                """)
            try a.db.execute("INSERT INTO t (u, n) VALUES ('a', 1), ('b', 1)")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE t SET u = u || '!', n = 10 WHERE u = 'a'")
            try await a.synchronize()
            #expect(try await b.synchronize().isUnstable == false)
            for app in [a, b] { #expect(try await app.synchronize().isEmpty) }
            #expect(try a.rows("SELECT u, n FROM t ORDER BY u") == ["a!|10", "b|1"])
            #expect(try b.rows("SELECT u, n FROM t ORDER BY u") == ["a!|9", "b|1"])
            #expect(try b.rows("SELECT kind, lost FROM sync_conflict") == [#"altered|{"n":"10"}"#])
            // Once when it came, and once when it was set back.
            #expect(try b.rows("SELECT * FROM log") == ["a!", "a!"])
        }
    }
}

import AnabranchClient
import AnabranchCore
import AnabranchReplica
import Testing

@testable import AnabranchCapture

/// Rules of tables, and what the table of another device does not take (`Spec/Capture.md`, sections 4 and 6).
@Suite struct RuleTests {
    private static let notes =
        "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT NOT NULL, draft INTEGER DEFAULT 0)"

    private static func rule(_ json: String) throws -> TableRule {
        try #require(try TableRule.rules(inJSON: Array("{\"note\": \(json)}".utf8))["note"])
    }

    @Test func aRowHasAnObjectWhileTheFilterHolds() async throws {
        let rule = try Self.rule(#"{"filter": "draft = 0"}"#)
        try await CaptureWorld.pair(Self.notes, ["note"], rules: ["note": rule]) { a, b in
            try a.db.execute("INSERT INTO note (title, draft) VALUES ('sent', 0), ('kept', 1)")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT title FROM note") == ["sent"])
            try a.db.execute("UPDATE note SET draft = 1 - draft")
            for app in [a, b, a] { try await app.synchronize() }
            #expect(try b.rows("SELECT title FROM note") == ["kept"])
            // A row that leaves is erased for others, and stays here.
            #expect(try a.rows("SELECT title FROM note ORDER BY title") == ["kept", "sent"])
        }
    }

    @Test func actionsThatAreNotPushedAreSetBack() async throws {
        let rule = try Self.rule(#"{"push": ["insert"]}"#)
        try await CaptureWorld.pair(Self.notes, ["note"], rules: ["note": rule]) { a, b in
            try a.db.execute("INSERT INTO note (title) VALUES ('one'), ('two')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE note SET title = 'ONE' WHERE title = 'one'; DELETE FROM note WHERE title = 'two'")
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows("SELECT title FROM note ORDER BY title") == ["one", "two"]) }
        }
    }

    /// The process ends between the two halves of a pass.
    @Test func whatIsNotPushedIsSetBackByTheNextProcess() async throws {
        let rule = try Self.rule(#"{"push": ["insert"]}"#)
        try await CaptureWorld.pair(Self.notes, ["note"], rules: ["note": rule]) { a, _ in
            try a.db.execute("INSERT INTO note (title) VALUES ('one'), ('two')")
            try await a.synchronize()
            try a.db.execute("UPDATE note SET title = 'ONE' WHERE title = 'one'; DELETE FROM note WHERE title = 'two'")
            let last = try await #require(a.capture).replica.record.lastWritten
            try await a.close()
            let database = try a.database
            try database.check()
            let collected = try #require(try Collection.next(in: database, [:]))
            try database.beginStep(collected, at: StepTime.next(after: last))
            try database.endStep(isWritten: true, last)
            try await a.synchronize()
            #expect(try a.rows("SELECT title FROM note ORDER BY title") == ["one", "two"])
        }
    }

    @Test func actionsThatAreNotPulledAreNotCarriedOut() async throws {
        let rule = try Self.rule(#"{"pull": ["insert"]}"#)
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, Self.notes), b = try CapturingApp("b", in: world, Self.notes)
            try a.install(["note"])
            try b.install(["note"], rules: ["note": rule])
            try a.db.execute("INSERT INTO note (title) VALUES ('one'), ('two')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE note SET title = 'ONE' WHERE title = 'one'; DELETE FROM note WHERE title = 'two'")
            for app in [a, b, a] { try await app.synchronize() }
            #expect(try b.rows("SELECT title FROM note ORDER BY title") == ["one", "two"])
            for app in [a, b] { try await app.close() }
        }
    }

    @Test func timesAreSpelledAsEachDatabaseHasThem() async throws {
        let forms = DateForm.allCases
        try await CaptureWorld.run { world in
            var apps: [CapturingApp] = []
            for form in forms {
                let app = try CapturingApp(form.rawValue, in: world, "CREATE TABLE note (name TEXT PRIMARY KEY, at)")
                try app.install(["note"], rules: ["note": Self.rule(#"{"dates": {"at": "\#(form.rawValue)"}}"#)])
                apps.append(app)
            }
            try apps[0].db.execute(
                "INSERT INTO note VALUES ('b', '2026-02-28 23:59:59.500'), ('a', '1969-12-31 00:00:01')")
            for app in apps { try await app.synchronize() }
            let spelled = try apps.map { try $0.rows("SELECT at FROM note ORDER BY name") }
            #expect(
                spelled
                    == [
                        ["1969-12-31 00:00:01", "2026-02-28 23:59:59.500"],
                        ["1969-12-31T00:00:01Z", "2026-02-28T23:59:59.500Z"], ["-86399", "1772323199.5"],
                        ["-86399000", "1772323199500"], ["2440586.500011574", "2461100.4999942128"],
                    ])
            // Nothing that is only spelled otherwise comes back.
            for app in apps { #expect(try await app.synchronize().isEmpty) }
            for app in apps { try await app.close() }
        }
    }

    /// The affinity of a column makes an integer of a number, or none of an integer.
    @Test func timesAreReadInWhateverNumbersColumnsHold() {
        #expect(DateForm.julian.milliseconds(.int(2_440_588)) == 43_200_000)
        #expect(DateForm.unixMilliseconds.milliseconds(.real(1_772_323_199_500)) == 1_772_323_199_500)
        #expect(DateForm.julian.milliseconds(.int(.max)) == nil)
        #expect(DateForm.unixMilliseconds.milliseconds(.real(.infinity)) == nil)
    }

    /// The values that are written to the row beside the time, of which it has milliseconds.
    @Test func aTimeThatStaysKeepsItsNanoseconds() async throws {
        let rule = try Self.rule(#"{"dates": {"at": "unix-ms"}}"#)
        let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, at)"
        try await CaptureWorld.pair(schema, ["note"], rules: ["note": rule]) { a, b in
            try a.db.execute("INSERT INTO note VALUES (1, 'x', 1000)")
            for app in [a, b] { try await app.synchronize() }
            let time = Payload.timestamp(Timestamp(seconds: 5, nanoseconds: 123_456_789))
            let replica = try #require(b.capture).replica
            try await replica.write { try $0.objects("note")[0].set("at", to: time) }
            for app in [b, a] { try await app.synchronize() }
            #expect(try a.rows("SELECT * FROM note") == ["1|x|5123"])
            try a.db.execute("INSERT OR REPLACE INTO note VALUES (1, 'y', 5123)")
            for app in [a, b] { try await app.synchronize() }
            let values = try await replica.read { tx in
                let note = try tx.objects("note")[0]
                return [note["title"], note["at"]]
            }
            #expect(values == [.string(Array("y".utf8)), time])
        }
    }

    @Test func anIntegerInAColumnOfRealsIsTheSame() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, "CREATE TABLE note (id INTEGER PRIMARY KEY, n)")
            let b = try CapturingApp("b", in: world, "CREATE TABLE note (id INTEGER PRIMARY KEY, n REAL)")
            for app in [a, b] { try app.install(["note"]) }
            try a.db.execute("INSERT INTO note (n) VALUES (1), (2.5)")
            for app in [a, b] { try await app.synchronize() }
            do {
                let state = try await #require(b.capture).replica.snapshot().state
                #expect(try b.database.compare(with: state) { Issue.record("\($0)") } == 2)
            }
            for app in [a, b] { try await app.close() }
        }
    }

    @Test func aValueThatTheColumnNeedsIsTheDefaultForAll() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp(
                "a", in: world, "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, n INTEGER)")
            let b = try CapturingApp(
                "b", in: world,
                "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT NOT NULL, n INTEGER NOT NULL DEFAULT 3)")
            for app in [a, b] { try app.install(["note"]) }
            try a.db.execute("INSERT INTO note (title) VALUES ('x'), (NULL)")
            for app in [a, b, a] { try await app.synchronize() }
            #expect(try a.rows("SELECT title, n FROM note ORDER BY id") == ["x|3", "∅|∅"])
            #expect(try b.rows("SELECT title, n FROM note") == ["x|3"])
            #expect(try b.rows("SELECT reason FROM sync_pending") == ["NOT NULL constraint failed: note.title"])
            #expect(try b.database.status().waiting.map(\.table) == ["note"])
            try a.db.execute("UPDATE note SET title = 'y' WHERE title IS NULL")
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows("SELECT title, n FROM note ORDER BY title") == ["x|3", "y|3"]) }
            for app in [a, b] { try await app.close() }
        }
    }

    @Test func aNullTakesNoValueThatTheColumnNeeds() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, "CREATE TABLE note (id INTEGER PRIMARY KEY, n INTEGER, m INTEGER)")
            let b = try CapturingApp(
                "b", in: world,
                "CREATE TABLE note (id INTEGER PRIMARY KEY, n INTEGER NOT NULL DEFAULT 3, m INTEGER)")
            for app in [a, b] { try app.install(["note"]) }
            try a.db.execute("INSERT INTO note (n, m) VALUES (5, 1), (6, 1)")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE note SET n = NULL, m = id WHERE m = 1")
            for app in [a, b, a] { try await app.synchronize() }
            for app in [a, b] { #expect(try app.rows("SELECT n, m FROM note ORDER BY m") == ["5|1", "6|2"]) }
            #expect(try b.rows("SELECT * FROM sync_pending") == [])
            for app in [a, b] { try await app.close() }
        }
    }

    @Test func aValueThatNoObjectHoldsStaysInItsRow() async throws {
        let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)"
        try await CaptureWorld.pair(schema, ["note"]) { a, b in
            try a.db.execute("INSERT INTO note VALUES (1, CAST(x'ff' AS TEXT), 'x')")
            for app in [a, b] { try await app.synchronize() }
            try b.db.execute("UPDATE note SET body = 'y'")
            for app in [b, a] { try await app.synchronize() }
            #expect(try a.rows("SELECT hex(title), body FROM note") == ["FF|y"])
            try b.db.execute("UPDATE note SET title = 'z'")
            for app in [b, a] { try await app.synchronize() }
            #expect(try a.rows("SELECT title, body FROM note") == ["z|y"])
        }
    }

    /// An app's objects always have a text there, and the column may have none.
    @Test func aNullThatNoObjectHoldsStaysInItsRow() async throws {
        let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)"
        try await CaptureWorld.pair(schema, ["note"]) { a, b in
            try await a.open()
            try await #require(a.capture).replica.write { tx in
                try tx.addClass("note", key: "_id", .uuid)
                try tx.addColumn("title", .string, to: "note")
            }
            try a.db.execute("INSERT INTO note VALUES (1, NULL, 'new'), (2, 'two', 'x')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("UPDATE note SET title = NULL, body = 'changed' WHERE id = 2")
            for app in [a, b] { try await app.synchronize() }
            #expect(try a.rows("SELECT title, body FROM note ORDER BY id") == ["∅|new", "∅|changed"])
            #expect(try b.rows("SELECT title, body FROM note ORDER BY title") == ["|new", "two|changed"])
            #expect(try a.rows("SELECT kind, lost FROM sync_conflict") == ["value|title", "value|title"])
            for app in [a, b] { #expect(try await app.synchronize().isEmpty) }
        }
    }

    @Test func aRowThatACheckRefusesWaits() async throws {
        try await CaptureWorld.run { world in
            let a = try CapturingApp("a", in: world, "CREATE TABLE note (id INTEGER PRIMARY KEY, n INTEGER)")
            let b = try CapturingApp(
                "b", in: world, "CREATE TABLE note (id INTEGER PRIMARY KEY, n INTEGER CHECK (n < 9))")
            for app in [a, b] { try app.install(["note"]) }
            try a.db.execute("INSERT INTO note (n) VALUES (1), (10)")
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT n FROM note") == ["1"])
            #expect(try b.rows("SELECT reason FROM sync_pending") == ["CHECK constraint failed: n < 9"])
            try a.db.execute("UPDATE note SET n = 11 WHERE n = 1; UPDATE note SET n = 2 WHERE n = 10")
            for app in [a, b] { try await app.synchronize() }
            // The old row stays while the new one waits.
            #expect(try b.rows("SELECT n FROM note ORDER BY n") == ["1", "2"])
            for app in [a, b] { try await app.close() }
        }
    }

    /// The row of another device refers to one that is erased here.
    @Test(arguments: ["", "NOT NULL"])
    func aRowThatOthersStillReferToGoesIfItCan(_ constraint: String) async throws {
        let schema = """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, folder INTEGER \(constraint) REFERENCES folder)
            """
        try await CaptureWorld.pair(schema, ["folder", "note"]) { a, b in
            try a.db.execute("INSERT INTO folder VALUES (1, 'f'), (2, 'g')")
            for app in [a, b] { try await app.synchronize() }
            try a.db.execute("DELETE FROM folder WHERE name = 'f'")
            try b.db.execute("INSERT INTO note (title, folder) SELECT 'x', id FROM folder WHERE name = 'f'")
            for app in [a, b, a, b] { try await app.synchronize() }
            if constraint.isEmpty {
                for app in [a, b] {
                    #expect(try app.rows("SELECT title, folder FROM note") == ["x|∅"])
                    #expect(try app.rows("SELECT name FROM folder") == ["g"])
                    #expect(try app.rows("SELECT * FROM sync_pending") == [])
                }
            } else {
                #expect(try a.rows("SELECT * FROM note") == [])
                #expect(try b.rows("SELECT name FROM folder ORDER BY name") == ["f", "g"])
                for app in [a, b] { #expect(try app.rows("SELECT count(*) > 0 FROM sync_pending") == ["1"]) }
            }
        }
    }

    @Test(arguments: [
        (#"{"note": {"push": ["insret"]}}"#, "table note: push: not one of insert, update, delete"),
        (#"{"note": {"dates": {"at": "unx"}}}"#, "table note, column at: 'unx' is not a form of dates: "),
        (#"{"note": {"filters": ""}}"#, "table note: there is no rule 'filters'"),
        (#"{"note": {"match": "title"}}"#, "table note: match: a list of columns"),
        (#"{"note": {"match": []}}"#, "table note: match: a list of columns"),
        (#"{"note": {"null": "a", "suffix": "a"}}"#, "table note, column a: only one of suffix, null, newest"),
        (#"[]"#, "the rules are no JSON object of tables"),
    ])
    func aMistakeInTheRulesIsNamed(_ text: String, _ reason: String) {
        let error = #expect(throws: CaptureError.self) { try TableRule.rules(inJSON: Array(text.utf8)) }
        #expect(error?.description.hasPrefix(reason) == true, "\(error?.description ?? "")")
    }

    @Test func aRuleComesBackAsItWas() throws {
        let text = """
            {"push": ["insert"], "pull": [], "filter": "draft = 0", "dates": {"at": "unix-ms"}, \
            "references": {"of": "note"}, "match": ["title", "at"], "suffix": "title"}
            """
        let rule = try Self.rule(text)
        #expect(try Self.rule(rule.json.encoded) == rule)
        #expect(rule.pulls.isEmpty && rule.references == ["of": "note"] && rule.matches == ["title", "at"])
    }
}

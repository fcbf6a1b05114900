import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import Foundation
import Testing

@testable import anabranch

/// The commands that say why a synced file is as it is: two phones, both without network, and who has won.
@Suite struct ExplainTests {
    /// Version 1 is a note, versions 2 and 3 change it on two phones that had seen version 1, 4 is the server's.
    private final class Fixture {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        let path = "/\"notes\""

        /// - Parameter isLater: true for a version 5, a note of the second phone that had seen version 3.
        init(isLater: Bool = false) throws {
            let store = try SQLiteStore(directory: directory)
            let file = try SyncedFile(path: VirtualPath(path), store: store)
            let (anna, bert) = (
                try file.allocateIdents(for: ["anna"], at: 1)[0], try file.allocateIdents(for: ["bert"], at: 1)[0]
            )
            var graph = ObjectGraph()
            let first = try graph.write(as: anna.ident) { tx in
                try tx.addClass("Note", key: "_id", .int)
                try tx.addColumn("title", .string, to: "Note")
                try tx.addColumn("tags", .string, collection: .list, to: "Note")
                try tx.create("Note", key: 1)["title"] = "milk"
            }.changeset
            try upload(first, 2, on: 0, at: 1000, as: anna.ident, to: file)
            var (one, other) = (graph, graph)
            let newer = try one.write(as: anna.ident) { tx in
                let note = try tx.create("Note", key: 1)
                note["title"] = "milk and bread"
                try note.list("tags").append("shopping")
            }.changeset
            let older = try other.write(as: bert.ident) { tx in
                let note = try tx.create("Note", key: 1)
                note["title"] = "oat milk"
                try note.list("tags").append("urgent")
            }.changeset
            try upload(newer, 3, on: 1, at: 9000, as: anna.ident, to: file)
            try upload(older, 2, on: 1, at: 5000, as: bert.ident, to: file)
            try file.write(at: 10_000) { tx in try tx.create("Note", key: 2)["title"] = "from the office" }
            if isLater {
                let another = try other.write(as: bert.ident) { _ = try $0.create("Note", key: 3) }.changeset
                try upload(another, 3, on: 3, at: 11_000, as: bert.ident, to: file)
            }
            try store.close()
        }

        deinit { try? FileManager.default.removeItem(atPath: directory) }

        private func upload(
            _ changeset: [UInt8], _ version: ClientVersion, on base: ServerVersion, at time: ChangesetTime,
            as ident: ClientFileID, to file: SyncedFile
        ) throws {
            let cursor = UploadCursor(clientVersion: version, serverVersion: base)
            var upload = Upload(
                progress: cursor,
                changesets: [UploadedChangeset(cursor: cursor, timestamp: time, changeset: changeset)])
            upload.uploader = Uploader(release: 14_005_002, protocolVersion: 12)
            try file.enqueue(upload, from: ident)
            #expect(try file.integrate(at: 1).outcomes.allSatisfy { $0.refusal == nil })
        }

        func run<Command: ParsableCommand>(
            _ type: Command.Type, _ arguments: [String], _ body: (Command, (String) -> Void) throws -> Void
        ) throws -> [String] {
            var lines: [String] = []
            let command = try Command.parse(["--data", directory, "--path", path] + arguments)
            try body(command) { lines.append($0) }
            return lines
        }

        func explain(_ arguments: String...) throws -> [String] {
            try run(ExplainCommand.self, arguments) { try $0.run(output: $1) }
        }

        func blame(_ arguments: String...) throws -> [String] {
            try run(BlameCommand.self, arguments) { try $0.run(output: $1) }
        }

        func diff(_ arguments: String...) throws -> [String] {
            try run(DiffCommand.self, arguments) { try $0.run(output: $1) }
        }
    }

    @Test func versionsAreGroupedIntoEdits() throws {
        let fixture = try Fixture(isLater: true)
        func log(_ arguments: String...) throws -> [String] {
            try fixture.run(LogCommand.self, ["--edits"] + arguments) { try $0.run(output: $1) }
        }
        let lines = try log(), columns = lines.map { $0.split(separator: "  ").map { String($0) } }
        #expect(columns.map { $0[0] } == ["5", "4", "3", "1-2"])
        #expect(columns.map { $0[2] } == ["client 3", "server", "client 3", "client 2"])
        #expect(columns.map { $0[3] } == ["1 version", "1 version", "1 version", "2 versions"])
        #expect(columns[0][4] == "Note/3 created")
        #expect(columns[3][4].hasPrefix("Note/1 created: "))
        #expect(columns[3][4].hasSuffix("; classes or columns"))
        #expect(try log("--pause", "5").count == 5)
        // An object is printed as it is asked for.
        #expect(try log("--object", "Note/3").map { $0.hasSuffix("Note/3 created") } == [true])
        #expect(try log("--count", "1").count == 1)
    }

    @Test func theLoserIsToldWhoWonAndByWhichRule() throws {
        let fixture = try Fixture()
        let anna = #"met version 2 by client 2, user "anna", release 14.5.2, 2015-01-01T00:00:09.000Z"#
        let title = [
            #"lost     Update Note[1].title = String "oat milk""#, "         R6: \(MergeRule.R6.sentence)",
            "         \(anna)", #"             Update Note[1].title = String "milk and bread""#,
        ]
        let head = [
            #"version 3 by client 3, user "bert", release 14.5.2, 2015-01-01T00:00:05.000Z"#,
            "made on version 1; it had not seen 1 version of others", "",
        ]
        let tags = [
            #"changed  ArrayInsert Note[1].tags[0] = String "urgent" (prior size 0)"#,
            #"   to    ArrayInsert Note[1].tags[0] = String "urgent" (prior size 1)"#,
            "         R14: \(MergeRule.R14.sentence)", "         \(anna)",
            #"             ArrayInsert Note[1].tags[0] = String "shopping" (prior size 0) (moved)"#,
        ]
        #expect(
            try fixture.explain("3") == head + title + tags + ["2 instructions: 0 kept, 1 changed, 1 lost"])
        let ofTitle = head + title + ["1 instruction: 0 kept, 0 changed, 1 lost"]
        #expect(try fixture.explain("3", "--object", "Note/1", "--field", "title") == ofTitle)
        #expect(try Pages.text(of: "Spec/Explain.md").contains(ofTitle.joined(separator: "\n")))
        #expect(
            try fixture.explain("3", "--object", "Note/2") == head + ["nothing of version 3 is about that"])
        #expect(try fixture.explain("4")[1] == "made by the server itself: nothing was merged")
    }

    /// It is not kept, since it is the same; whether it always was, nobody knows for ever.
    @Test func anUploadThatIsNotKeptIsSaid() throws {
        let lines = try Fixture(isLater: true).explain("5")
        #expect(
            lines.dropFirst() == [
                "made on version 3; it had not seen 1 version of others",
                "what was uploaded is what entered the log, unless it is older than history.explain-days", "",
                "kept     CreateObject Note[3]", "1 instruction: 1 kept, 0 changed, 0 lost",
            ])
    }

    @Test func blameNamesTheWriterOfEachValue() throws {
        let anna = #"by client 2, user "anna", release 14.5.2, 2015-01-01T00:00"#
        #expect(
            try Fixture().blame("Note/1") == [
                "created by version 1 \(anna):01.000Z", "",
                #"title = "milk and bread""#, "    version 2 \(anna):09.000Z",
                #"tags[0] = "urgent""#,
                #"    version 3 by client 3, user "bert", release 14.5.2, 2015-01-01T00:00:05.000Z"#,
                #"tags[1] = "shopping""#, "    version 2 \(anna):09.000Z",
            ])
    }

    /// The JSON of a value loses nothing: not even bytes that are no text.
    @Test func aStringThatIsNoTextIsPrintedWhole() throws {
        let fixture = try Fixture()
        let store = try SQLiteStore(directory: fixture.directory)
        let file = try SyncedFile(path: VirtualPath(fixture.path), store: store)
        try file.write(at: 12_000) { tx in try tx.create("Note", key: 2).set("title", to: .string([0xC3])) }
        try store.close()
        let title = try fixture.blame("Note/2").first { $0.hasPrefix("title = ") }
        #expect(title == #"title = {"bytes":"c3"}"#)
        #expect(try fixture.diff("4").last == #"    title: "from the office" → {"bytes":"c3"}"#)
    }

    @Test func theHistoryOfAnObjectHasItsVersions() throws {
        let fixture = try Fixture()
        func versions(_ arguments: String...) throws -> [String] {
            try fixture.run(LogCommand.self, ["--object"] + arguments) { try $0.run(output: $1) }.map { "\($0.first!)" }
        }
        #expect(try versions("Note/1") == ["3", "2", "1"])
        #expect(try versions("Note/1", "--count", "2") == ["3", "2"])
        #expect(try versions("Note/2") == ["4"])
    }

    @Test func versionsDifferInObjectsAndProperties() throws {
        let fixture = try Fixture()
        let changed = [
            "~ Note/1", #"    tags: {"list":[]} → {"list":["urgent","shopping"]}"#,
            #"    title: "milk" → "milk and bread""#,
        ]
        let added = ["+ Note/2", #"    tags: {"list":[]}"#, #"    title: "from the office""#]
        #expect(try fixture.diff("1") == changed + added)
        #expect(try fixture.diff("1", "3") == changed)
        #expect(try fixture.diff("4") == [])
        #expect(throws: (any Error).self) { try fixture.diff("3", "1") }
    }

    @Test func whatWasLostCanBeWrittenAgain() throws {
        let fixture = try Fixture()
        func values(_ arguments: [String]) throws -> [LostValue] {
            let options = ["--data", fixture.directory, "--path", fixture.path]
            return try RestoreValueCommand.parse(options + arguments).values().values
        }
        let lost = try values(["3"])
        #expect(lost.map(\.value) == [.string(Array("oat milk".utf8))] && lost[0].author.user == "bert")
        #expect(try values(["3", "--object", "Note/1", "--field", "title"]).count == 1)
        for arguments in [["2"], ["3", "--object", "Note/2"], ["3", "--object", "Note/1", "--field", "tags"]] {
            #expect(throws: InputError.self) { try values(arguments) }
        }
    }

    @Test func jsonIsForPrograms() throws {
        let fixture = try Fixture()
        let explained = try JSONSerialization.jsonObject(with: Data(fixture.explain("3", "--json")[0].utf8))
        let members = try #require(explained as? [String: Any])
        #expect(members["certainty"] as? String == "exact" && members["user"] as? String == "bert")
        #expect(members["upload_kept"] as? Bool == true && members["base"] as? Int == 1)
        let effects = try #require(members["effects"] as? [[String: Any]])
        #expect(effects.map { $0["rule"] as? String } == ["R6", "R14"])
        #expect((effects[0]["by"] as? [String: Any])?["user"] as? String == "anna")
        let blamed = try JSONSerialization.jsonObject(with: Data(fixture.blame("Note/1", "--json")[0].utf8))
        let values = try #require((blamed as? [String: Any])?["values"] as? [[String: Any]])
        #expect(values.map { ($0["by"] as? [String: Any])?["version"] as? Int } == [2, 3, 2])
        for line in try fixture.diff("0", "--json") {
            #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(line.utf8)) }
        }
    }

    @Test(arguments: [
        (["9"], "there is no version 9 in the log: it has versions 1 to 4"),
        (["0"], "there is no version 0 in the log: it has versions 1 to 4"),
        (["3", "--object", "Note"], "Note: an object is written Class/key, for example Note/7"),
        (["3", "--object", "Nota/1"], "there is no class Nota; allowed: Note"),
        (["3", "--object", "Note/x"], "Note/x: the keys of Note are of type Int"),
    ])
    func whatCannotBeAskedSaysWhatCan(_ arguments: [String], _ reason: String) throws {
        let error = #expect(throws: InputError.self) {
            try Fixture().run(ExplainCommand.self, arguments) { try $0.run(output: $1) }
        }
        #expect(error?.description == reason)
    }

    @Test func anObjectThatIsNotThereHasNoBlame() throws {
        let error = #expect(throws: InputError.self) { try Fixture().blame("Note/7") }
        #expect(error?.description == "there is no object Note/7, and the log knows none")
    }
}

import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import Foundation
import Testing

@testable import anabranch

/// The commands that look into a data directory.
@Suite struct InspectTests {
    /// A directory with a file of two versions: one of a client, one of the server.
    private final class Fixture {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        let path = "/\"notes\""

        init() throws {
            let store = try SQLiteStore(directory: directory)
            let file = try SyncedFile(path: VirtualPath(path), store: store)
            let client = try file.allocateIdents(for: [nil], at: 1)[0]
            var graph = ObjectGraph()
            let changeset = try graph.write(as: client.ident) { tx in
                try tx.addClass("Note", key: "_id", .int)
                try tx.addColumn("title", .string, to: "Note")
                try tx.create("Note", key: 1)["title"] = "first"
            }.changeset
            let cursor = UploadCursor(clientVersion: 5)
            // 2015-01-01 00:00:01.500
            let uploaded = UploadedChangeset(cursor: cursor, timestamp: 1500, changeset: changeset)
            try file.enqueue(Upload(progress: cursor, changesets: [uploaded]), from: client.ident)
            #expect(try file.integrate(at: 1).outcomes.allSatisfy { $0.refusal == nil })
            try file.write(at: 2500) { tx in try tx.create("Note", key: 1)["title"] = "second" }
            try store.close()
        }

        deinit { try? FileManager.default.removeItem(atPath: directory) }

        /// The oldest version goes from the log.
        func trim(_ keep: HistoryPolicy.Keep) throws {
            let store = try SQLiteStore(directory: directory)
            let file = try SyncedFile(path: VirtualPath(path), store: store)
            try file.expire(2)
            try file.trim(upTo: 1, keep: keep)
            try store.close()
        }

        func inspect(_ arguments: String...) throws -> [String] {
            try lines { try InspectCommand.parse(["--data", directory] + arguments).run(output: $0) }
        }

        func log(_ arguments: String...) throws -> [String] {
            try lines { try LogCommand.parse(["--data", directory, "--path", path] + arguments).run(output: $0) }
        }

        func show(_ arguments: String...) throws -> [String] {
            try lines { try ShowCommand.parse(["--data", directory, "--path", path] + arguments).run(output: $0) }
        }

        private func lines(_ run: ((String) -> Void) throws -> Void) throws -> [String] {
            var lines: [String] = []
            try run { lines.append($0) }
            return lines
        }
    }

    @Test func filesAreListed() throws {
        let lines = try Fixture().inspect()
        #expect(lines.count == 1)
        #expect(lines[0].hasPrefix(#"/"notes": version 2, "#) && lines[0].hasSuffix(" bytes, 1 client file"))
    }

    /// Files from Windows: each line ends with CR LF, which Swift takes for one character.
    @Test func linesMayEndWithCarriageReturns() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "lines-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data("secret word\r\n{\"a\": \"\u{2028}\"}\n\r\n".utf8).write(to: URL(filePath: path))
        #expect(try TextInput.lines(ofFile: path) == ["secret word", "{\"a\": \"\u{2028}\"}", "", ""])
        #expect(try PasswordInput.parse(["--password-file", path]).password() == "secret word")
    }

    @Test func aStateIsPrintedAtAnyVersion() throws {
        let fixture = try Fixture()
        #expect(try fixture.inspect("--path", fixture.path) == [#"{"Note":[[{"int":"1"},{"title":"second"}]]}"#])
        #expect(
            try fixture.inspect("--path", fixture.path, "--at", "1")
                == [#"{"Note":[[{"int":"1"},{"title":"first"}]]}"#])
        #expect(try fixture.inspect("--path", fixture.path, "--at", "0") == ["{}"])
        let pretty = try fixture.inspect("--path", fixture.path, "--pretty")
        #expect(pretty[0].split(separator: "\n").contains { $0.hasSuffix(#""title" : "second""#) })
    }

    @Test func objectsThatMatchAQueryArePrinted() throws {
        let fixture = try Fixture()
        func matches(_ query: String) throws -> [String] {
            try fixture.inspect("--path", fixture.path, "--class", "Note", "--query", query)
        }
        #expect(try matches("title CONTAINS 'con'") == [#"[{"int":"1"},{"title":"second"}]"#])
        #expect(try matches("title == 'first'") == [])
        let error = #expect(throws: InputError.self) { try matches("titel == 'first'") }
        #expect(error?.description.hasPrefix("--query: ") == true)
        let unknown = #expect(throws: InputError.self) {
            try fixture.inspect("--path", fixture.path, "--class", "Notes", "--query", "TRUEPREDICATE")
        }
        #expect(unknown?.description == "there is no class Notes; allowed: Note")
        #expect(throws: (any Error).self) { try fixture.inspect("--path", fixture.path, "--class", "Note") }
    }

    @Test func theHistoryReadsFromTheNewestVersionOn() throws {
        let fixture = try Fixture()
        let lines = try fixture.log()
        #expect(lines.count == 2)
        #expect(lines[0].hasPrefix("2  2015-01-01T00:00:02.500Z  server  "))
        #expect(lines[0].hasSuffix(" bytes  Update Note[1].title = String \"second\""))
        #expect(lines[1].hasPrefix("1  2015-01-01T00:00:01.500Z  client 2  "))
        #expect(lines[1].hasSuffix("  AddTable Note TopLevel, primary key _id Int and 3 more"))
        #expect(try fixture.log("--count", "1") == [lines[0]])
    }

    @Test func theHistoryGoesOnInTheArchive() throws {
        let fixture = try Fixture(), lines = try fixture.log(), version = try fixture.show("1")
        try fixture.trim(.archive)
        #expect(try fixture.log() == lines)
        #expect(try fixture.show("1") == version)
        #expect(try fixture.log("--count", "1") == [lines[0]])
        let other = try Fixture()
        try other.trim(.drop)
        #expect(try other.log() == [lines[0]])
        let error = #expect(throws: InputError.self) { try other.show("1") }
        #expect(error?.description.hasSuffix("the log begins after 1 and ends at version 2") == true)
    }

    @Test func aVersionIsShownWithAllItsInstructions() throws {
        let fixture = try Fixture()
        let lines = try fixture.show("1")
        #expect(
            lines.prefix(3).map { $0.prefix(30) } == [
                "version  1", "author   client 2, its version", "date     2015-01-01T00:00:01.5",
            ])
        #expect(
            lines.dropFirst(5).map { $0.split(separator: " ")[0] } == [
                "AddTable", "AddColumn", "CreateObject", "Update",
            ])
    }

    @Test func indentedTextHasAllThatTheLineHas() {
        let line = "{\"e\u{301}\":[],\"\u{e9}\":[1,{\"a:{\\\"\":\"[,\\\\\"}],\"x\":{}}"
        let text = """
            {
              "e\u{301}" : [],
              "\u{e9}" : [
                1,
                {
                  "a:{\\"" : "[,\\\\"
                }
              ],
              "x" : {}
            }
            """
        #expect(Array(String(indenting: Array(line.utf8)).utf8) == Array(text.utf8))
    }

    /// A line of a listing is one file, whatever that is called.
    @Test func aPathFromAListingIsTheFileItWasShownFor() throws {
        let fixture = try Fixture(),
            paths = ["a/\" \"", "a/\"%20\"", "a/\"%2520\"", "a/\"100%\""].map { VirtualPath($0) }
        let store = try SQLiteStore(directory: fixture.directory)
        for path in paths {
            try SyncedFile(path: path, store: store).write(at: 1) { try $0.addClass("T", key: "_id", .int) }
        }
        try store.close()
        let option = try StoreOption.parse(["--data", fixture.directory])
        for path in paths { #expect(try option.file(path.description).path == path) }
        #expect(try option.file("a/\" \"").path == paths[0])
        #expect(try option.file("a/\"100%\"").path == paths[3])
    }

    @Test func whatIsNotThereIsSaid() throws {
        let fixture = try Fixture()
        #expect(throws: InputError.self) { try fixture.show("3") }
        #expect(throws: InputError.self) { try fixture.inspect("--path", "/other") }
        #expect(throws: InputError.self) { try fixture.inspect("--path", fixture.path, "--at", "3") }
        #expect(throws: (any Error).self) { try InspectCommand.parse(["--data", ".", "--at", "3"]) }
    }

    @Test func aDirectoryInUseIsReadMeanwhile() throws {
        let fixture = try Fixture()
        let store = try SQLiteStore(directory: fixture.directory)
        #expect(try fixture.log().count == 2)
        #expect(try fixture.inspect("--path", fixture.path).count == 1)
        try store.close()
        #expect(try fixture.log().count == 2)
    }
}

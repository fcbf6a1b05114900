import AnabranchCore
import AnabranchHistory
import AnabranchRules
import AnabranchSQLite
import ArgumentParser
import Foundation
import Testing

@testable import anabranch

/// `export --documents` and `--csv`. What Python's readers make of random ones is in `Tests/Values`.
@Suite struct ClassExportTests {
    private struct Row {
        let name: String
        let type: String
        /// The value in the lines of an export.
        let line: String
        let document: String
        let cell: String

        init(_ name: String, _ type: String, _ line: String, _ document: String, _ cell: String? = nil) {
            (self.name, self.type, self.line, self.document) = (name, type, line, document)
            let isQuoted = document.contains { "\",".contains($0) }
            self.cell = cell ?? (isQuoted ? "\"\(document.replacing("\"", with: "\"\""))\"" : document)
        }
    }

    /// Values of every type, in the order of the names.
    private static let rows = [
        Row("a", #""type":"binary""#, #"{"bin":"00ff"}"#, #"{"$binary":{"base64":"AP8=","subType":"00"}}"#, "AP8="),
        Row("b", #""type":"bool""#, "true", "true"),
        Row("c", #""type":"decimal""#, #"{"dec":"1.10"}"#, #"{"$numberDecimal":"1.10"}"#, "1.10"),
        Row("d", #""type":"double""#, #"{"double":"401d99999999999a"}"#, "7.4"),
        Row(
            "e", #""type":"double""#, #"{"double":"fff0000000000000"}"#, #"{"$numberDouble":"-Infinity"}"#,
            "-Infinity"),
        Row("f", #""type":"float""#, #"{"float":"3dcccccd"}"#, "0.10000000149011612", "0.1"),
        Row("g", #""type":"int""#, #"{"int":"9223372036854775807"}"#, "9223372036854775807"),
        Row("h", #""type":"link","target":"Thing""#, #"{"link":["Thing",{"int":"9"}]}"#, "9"),
        Row(
            "i", #""type":"mixed""#, #"{"link":["Thing",{"int":"9"}]}"#, #"{"$ref":"Thing","$id":9}"#),
        Row("j", #""type":"mixed""#, #""say \"a, b\"""#, #""say \"a, b\"""#),
        Row(
            "k", #""type":"objectId""#, #"{"oid":"64b7f0aa0000000000000001"}"#, #"{"$oid":"64b7f0aa0000000000000001"}"#,
            "64b7f0aa0000000000000001"),
        Row(
            "l", #""type":"string""#, #""two\u000alines, \"quoted\"""#, #""two\u000alines, \"quoted\"""#,
            "\"two\nlines, \"\"quoted\"\"\""),
        Row("m", #""type":"string""#, #""""#, #""""#, #""""#),
        Row("n", #""type":"string""#, #"{"bytes":"ff"}"#, #"{"$binary":{"base64":"/w==","subType":"00"}}"#),
        Row("o", #""type":"string""#, "null", "null", ""),
        Row(
            "p", #""type":"timestamp""#, #"{"ts":["1759233600",123456789]}"#, #"{"$date":"2025-09-30T12:00:00.123Z"}"#,
            "2025-09-30T12:00:00.123456789Z"),
        Row(
            "q", #""type":"timestamp""#, #"{"ts":["-1",-500000000]}"#, #"{"$date":{"$numberLong":"-1500"}}"#,
            "1969-12-31T23:59:58.5Z"),
        Row(
            "r", #""type":"timestamp""#, #"{"ts":["9223372036854775807",0]}"#,
            #"{"$date":{"$numberLong":"9223372036854775807"}}"#),
        Row(
            "s", #""type":"uuid""#, #"{"uuid":"00112233-4455-6677-8899-aabbccddeeff"}"#,
            #"{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"04"}}"#, "00112233-4455-6677-8899-aabbccddeeff"
        ),
        Row("t", #""type":"link","target":"Part""#, #"{"size":{"int":"3"}}"#, #"{"size":3}"#),
        Row("u", #""type":"int","collection":"list""#, #"{"list":[{"int":"2"},null,{"int":"1"}]}"#, "[2,null,1]"),
        Row("v", #""type":"string","collection":"set""#, #"{"set":["x","y"]}"#, #"["x","y"]"#),
        Row(
            "w", #""type":"mixed","collection":"dictionary""#, #"{"dict":{"y":{"int":"1"},"z":{"list":[]}}}"#,
            #"{"y":1,"z":[]}"#),
    ]

    private static func lines() -> [String] {
        let properties = rows.map { #"{"name":"\#($0.name)","nullable":true,\#($0.type)}"# }
        let fields = rows.map { #""\#($0.name)":\#($0.line)"# }.joined(separator: ",")
        return [
            #"{"class":"A/b","kind":"top-level","properties":["#
                + #"{"name":"$x","nullable":true,"type":"int"},{"name":"text","nullable":false,"type":"string"}]}"#,
            #"{"class":"Part","kind":"embedded","properties":[{"name":"size","nullable":false,"type":"int"}]}"#,
            #"{"class":"Thing","key":{"name":"_id","nullable":false,"type":"int"},"kind":"top-level","properties":["#
                + properties.joined(separator: ",") + "]}",
            #"["A/b",{"gk":"2-1f"},{"text":"=1+1"}]"#,
            #"["Thing",{"int":"7"},{\#(fields)}]"#,
        ]
    }

    private final class Fixture {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()

        init(_ lines: [String]) throws {
            let store = try SQLiteStore(directory: directory)
            let file = try SyncedFile(path: VirtualPath("/\"all\""), store: store)
            let ident = try file.allocateIdents(for: ["ann"], at: 1)[0].ident
            var graph = ObjectGraph()
            let changeset = try graph.write(as: ident) { tx in
                let lines = try lines.map { try ExportLine(parsing: Array($0.utf8)) }
                try tx.add(lines.compactMap { if case .declaration(let declared) = $0 { declared } else { nil } })
                for case .object(let name, let key, let fields) in lines {
                    _ = try tx.importObject(name, key, fields)
                }
            }.changeset
            let cursor = UploadCursor(clientVersion: 2, serverVersion: 0)
            try file.enqueue(
                Upload(
                    progress: cursor,
                    changesets: [UploadedChangeset(cursor: cursor, timestamp: 1, changeset: changeset)]),
                from: ident)
            #expect(try file.integrate(at: 1).outcomes.allSatisfy { $0.refusal == nil })
            try store.close()
        }

        deinit { try? FileManager.default.removeItem(atPath: directory) }

        func export(_ arguments: String...) throws -> String {
            let command = try ExportCommand.parse(["--data", directory, "--path", "/\"all\""] + arguments)
            var text = Data()
            try command.run { text += $0 }
            return String(decoding: text, as: UTF8.self)
        }
    }

    @Test func valuesOfEveryTypeAreDocuments() throws {
        let fields = Self.rows.map { #","\#($0.name)":\#($0.document)"# }.joined()
        let fixture = try Fixture(Self.lines())
        #expect(try fixture.export("--documents", "--class", "Thing") == "{\"_id\":7\(fields)}\n")
        #expect(try fixture.export("--documents", "--class", "A/b") == #"{"_id":"2-1f","text":"=1+1"}"# + "\n")
    }

    @Test func valuesOfEveryTypeAreCells() throws {
        let names = Self.rows.map(\.name).joined(separator: ","), cells = Self.rows.map(\.cell).joined(separator: ",")
        #expect(try Fixture(Self.lines()).export("--csv", "--class", "Thing") == "_id,\(names)\n7,\(cells)\n")
    }

    /// The empty text is another key.
    @Test func theKeyNullIsAnEmptyCell() throws {
        let declaration =
            #"{"class":"Tag","key":{"name":"_id","nullable":true,"type":"string"},"kind":"top-level","properties":["#
            + #"{"name":"n","nullable":false,"type":"int"}]}"#
        let lines = [declaration, #"["Tag",null,{"n":{"int":"1"}}]"#, #"["Tag","",{"n":{"int":"2"}}]"#]
        let table = try Fixture(lines).export("--csv", "--class", "Tag")
        #expect(table == "_id,n\n,1\n\"\",2\n")
        let classes = [declaration].compactMap { line -> ExportedClass? in
            if case .declaration(let declared)? = try? ExportLine(parsing: Array(line.utf8)) { declared } else { nil }
        }
        let records = try Self.records(of: table)
        let read = try CSVTable(header: records[0], classes, className: "Tag")
        var reader = try DocumentReader(classes, className: "Tag"), again = [declaration]
        for record in records.dropFirst() {
            again.append(String(decoding: try reader.line(try read.document(record)), as: UTF8.self))
        }
        #expect(again == lines)
    }

    @Test func aLinkToTheKeyNullIsNoneToTheEmptyText() throws {
        let lines = [
            #"{"class":"Tag","key":{"name":"_id","nullable":true,"type":"string"},"kind":"top-level","properties":["#
                + #"{"name":"up","nullable":true,"type":"link","target":"Tag"}]}"#,
            #"["Tag",null,{"up":{"link":["Tag",""]}}]"#, #"["Tag","",{"up":{"link":["Tag",null]}}]"#,
        ]
        let fixture = try Fixture(lines)
        #expect(try fixture.export("--csv", "--class", "Tag") == "_id,up\n,\"\"\n\"\",\n")
        let complaint = try BuiltCommands.bash(
            "anabranch export --data \"$1\" --path '/\"all\"' --csv --class Tag", fixture.directory
        ).complaint
        #expect(complaint.hasPrefix("Tag.up: one leads to an object whose key is null"))
    }

    // MARK: Tables are read again

    private static let classes = try? lines().map { try ExportLine(parsing: Array($0.utf8)) }.compactMap { line in
        if case .declaration(let declared) = line { declared } else { nil }
    }

    /// The line of an export that a table of two records stands for.
    private static func line(of table: String) throws -> String {
        let classes = try #require(Self.classes), records = try records(of: table)
        var reader = try DocumentReader(classes, className: "Thing")
        let table = try CSVTable(header: records[0], classes, className: "Thing")
        return String(decoding: try reader.line(try table.document(records[1])), as: UTF8.self)
    }

    private static func records(of text: String) throws -> [[UInt8]] {
        let url = FileManager.default.temporaryDirectory.appending(path: "table-\(UUID().uuidString).csv")
        defer { try? FileManager.default.removeItem(at: url) }
        try Data(text.utf8).write(to: url)
        var source = try ImportSource(url.path), records: [[UInt8]] = []
        source.isTable = true
        while let record = try source.next() { records.append(record) }
        return records
    }

    @Test func cellsOfEveryTypeAreValuesAgain() throws {
        // A text that is not UTF-8 has become JSON, and is that text; a time that no date names has lost its end.
        let rows = Self.rows.filter { !["n", "r"].contains($0.name) }
        let names = rows.map(\.name).joined(separator: ","), cells = rows.map(\.cell).joined(separator: ",")
        let fields = rows.map { #""\#($0.name)":\#($0.line)"# }.joined(separator: ",")
        for end in ["\n", "\r\n", ""] {
            let line = try Self.line(of: "_id,\(names)\(end.isEmpty ? "\n" : end)7,\(cells)\(end)")
            #expect(line == #"["Thing",{"int":"7"},{\#(fields)}]"#)
        }
    }

    @Test(arguments: [
        ("_id,l\n1,\"a\"b\n", "quote: in cell 2"), ("_id,l\n1,a\"b\"\n", "quote: in cell 2"),
        ("_id,l\n1,\"a\n2,b\n", "quote: the quotation marks of cell 2 are not closed"),
        ("_id,l\n1\n", "columns: it has 1 cell, and the first line names 2 columns"),
        ("_id,l\n1,a,b\n", "columns: it has 3 cells"), ("_id,l,l\n1,a,b\n", "columns: two columns are called l"),
        ("_id,\n1,a\n", "columns: column 2 has no name"),
        ("l,g\na,1\n", "columns: no column is the primary key, _id: there are l, g"),
        ("_id,g\n1,many\n", "field g: value: 'many' is not of type Int: digits"),
        ("_id,g\n1,1.5\n", "field g: 1.5 is not of type Int"), ("_id,g\n1,9223372036854775808\n", "field g:"),
        ("_id,b\n1,yes\n", "field b: value: 'yes' is not of type Bool: true or false"),
        ("_id,p\n1,2025-09-30 12:00:00\n", "field p: value:"),
        ("_id,d\n1,\"1,5\"\n", "field d: value: '1,5' is not of type Double"),
        ("_id,f\n1,0.100001\n2,0.10000000000001\n", "ok"), ("_id,f\n1,0.10000000000001\n", "is not of type Float"),
        ("_id,p\n1,30.9.2025\n", "field p: value: '30.9.2025' is not of type Timestamp: as in"),
        ("_id,p\n1,2025-09-30T12:00:00.1234567891Z\n", "field p: value:"),
        ("_id,k\n1,64b7\n", "field k: value: '64b7' is not of type ObjectId: 24"),
        ("_id,s\n1,0011\n", "field s: value: '0011' is not of type UUID"),
        ("_id,a\n1,%\n", "field a: value: '%' is not of type Binary"),
        ("_id,h\n1,nine\n", "field h: value: 'nine' is not of type Int"), ("_id,u\n1,[1\n", "field u: value: not JSON"),
        ("_id,w\n1,5\n", "field w:"), ("_id,g\n,1\n", "field _id: null"),
    ])
    func aMistakeInATableIsNamed(table: String, words: String) {
        do {
            _ = try Self.line(of: table)
            #expect(words == "ok")
        } catch {
            #expect("\(error)".contains(words), "\(error)")
        }
    }

    /// As pandas, csvkit, spreadsheets, `COPY` of PostgreSQL and the shell of SQLite spell them.
    @Test(arguments: [
        ("b", "True", "true"), ("b", "FALSE", "false"), ("b", "t", "true"), ("b", "0", "false"),
        ("g", "\"\"", "null"), ("g", "42.0", #"{"int":"42"}"#), ("a", "\"\"", #"{"bin":""}"#),
        ("a", "", "null"), ("p", "2025-09-30 12:00:00+00", #"{"ts":["1759233600",0]}"#),
        ("p", "2025-09-30 14:00:00.5+02:00", #"{"ts":["1759233600",500000000]}"#), ("m", "\"\"", #""""#),
    ])
    func otherProgramsSpellValuesInTheirWay(name: String, cell: String, value: String) throws {
        #expect(try Self.line(of: "_id,\(name)\n7,\(cell)\n") == #"["Thing",{"int":"7"},{"\#(name)":\#(value)}]"#)
    }

    /// However long a record is, no more than a piece of it is kept; lines in quotation marks count for its number.
    @Test func aRecordThatIsTooLongIsNotKept() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "table-\(UUID().uuidString).csv")
        defer { try? FileManager.default.removeItem(at: url) }
        let piece = 1 << 20, long = Data(repeating: UInt8(ascii: "\n"), count: 5 * piece)
        try (Data("_id,l\n\n1,\"".utf8) + long + Data("\"\n2,b".utf8)).write(to: url)
        var source = try ImportSource(url.path)
        source.isTable = true
        source.lineBytesMax = piece
        #expect(try source.next() == Array("_id,l".utf8) && source.lineNumber == 1)
        #expect(try #require(try source.next()).count <= 2 * piece && source.lineNumber == 3)
        #expect { try source.requireWhole() } throws: { "\($0)".hasPrefix("it has \(5 * piece + 4) bytes") }
        #expect(try source.next() == Array("2,b".utf8) && source.lineNumber == 4 + 5 * piece)
        #expect(try source.next() == nil)
    }

    @Test func eachClassIsAFileOfANewFolder() throws {
        let fixture = try Fixture(Self.lines()), folder = fixture.directory + "/../tables-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        #expect(try fixture.export("--csv", "--output", folder).isEmpty)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
        #expect(names == ["A%2fb.csv", "Thing.csv"])
        #expect(try String(contentsOfFile: folder + "/A%2fb.csv", encoding: .utf8) == "_id,$x,text\n2-1f,,=1+1\n")
        #expect(throws: InputError.self) { try fixture.export("--csv", "--output", folder) }
    }

    @Test func whatIsLostIsNamed() throws {
        let fixture = try Fixture(Self.lines())
        func complaint(_ className: String) throws -> [Substring] {
            try BuiltCommands.bash(
                "anabranch export --data \"$1\" --path '/\"all\"' --documents --class \"$2\"", fixture.directory,
                className
            ).complaint.split(separator: "\n")
        }
        #expect(
            try complaint("A/b") == [
                "A/b.$x: one has a name that no document can have, and is left out",
                "/\"all\": 1 object at version 1",
            ])
        #expect(
            try complaint("Thing") == [
                "Thing.n: one is not UTF-8, and is written as binary",
                "Thing.p: one was cut to milliseconds", "Thing.r: one was cut to milliseconds",
                "/\"all\": 1 object at version 1",
            ])
    }

    @Test func aClassHasToBeNamedAndToBeThere() throws {
        let fixture = try Fixture(Self.lines())
        #expect { try fixture.export("--csv") } throws: { "\($0)".contains("there are A/b, Thing") }
        #expect { try fixture.export("--csv", "--class", "Think") } throws: { "\($0)".contains("did you mean 'Thing'") }
        #expect(throws: (any Error).self) { try fixture.export("--class", "Thing") }
        #expect(throws: (any Error).self) { try fixture.export("--csv", "--documents") }
        #expect(throws: (any Error).self) { try fixture.export("--csv", "--anonymize") }
    }
}

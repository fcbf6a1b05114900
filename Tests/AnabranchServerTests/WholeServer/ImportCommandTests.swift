import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchTesting
import Foundation
import Testing

/// `anabranch import` and `anabranch export` against a server in a process of its own.
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
struct ImportCommandTests {
    private static func withFolder(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("import-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await body(folder)
    }

    private static func run(_ arguments: [String], _ folder: String) async throws -> AdminCommandTests.Output {
        try await AdminCommandTests.run(arguments + ["--data", folder + "/data"])
    }

    private static func write(_ lines: [String], to path: String) throws {
        try Data(lines.map { $0 + "\n" }.joined().utf8).write(to: URL(fileURLWithPath: path))
    }

    @Test func anExportOfOneServerIsThatOfTheNext() async throws {
        try await Self.withFolder { folder in
            var lines: [String] = []
            try QueryWorld.state(seed: 7).forEachExportLine { lines.append(String(decoding: $0, as: UTF8.self)) }
            let file = folder + "/world.jsonl"
            try Self.write(lines, to: file)
            let server = try await ServerProcess(data: folder + "/data")
            let first = try await Self.run(["import", file, "--path", "a/\"1\""], folder)
            #expect(first.status == 0 && first.text == "8 objects written, 0 unchanged, 0 lines refused\n")
            let again = try await Self.run(["import", file, "--path", "a/\"1\""], folder)
            #expect(again.text == "0 objects written, 8 unchanged, 0 lines refused\n")
            // While the server runs, which does not wait.
            let export = try await Self.run(["export", "--path", "a/\"1\""], folder)
            #expect(export.status == 0 && export.text == lines.map { $0 + "\n" }.joined())
            #expect(export.complaint.hasPrefix("a/\"1\": 8 objects at version "))
            let piped = try await AdminCommandTests.run(
                ["import", "-", "--path", "a/\"2\"", "--data", folder + "/data"], input: export.text)
            #expect(piped.text == first.text)
            await server.terminate()
            let stopped = try await Self.run(["export", "--path", "a/\"2\""], folder)
            #expect(stopped.text == export.text)
            let none = try await Self.run(["import", file, "--path", "a/\"1\""], folder)
            #expect(none.status == 1 && none.complaint.contains("no server is running"))
        }
    }

    @Test func aFileOfMongoDBFillsThePartitionsOfAnApp() async throws {
        try await Self.withFolder { folder in
            let file = folder + "/Task.json"
            try Self.write(
                (0..<20).map { #"{"_id":\#($0),"_partition":"user=\#($0 % 3)","title":"t\#($0)","__v":{"a":1}}"# }
                    + ["{", #"{"_id":"x","_partition":"user=1"}"#, #"{"_id":99,"_partition":4.5}"#], to: file)
            let schema = folder + "/schema.json"
            try Self.write(
                [
                    #"{"title":"Task","required":["_id"],"properties":{"_id":{"bsonType":"long"},"#,
                    #""title":{"bsonType":"string"}}}"#,
                ], to: schema)
            let server = try await ServerProcess(data: folder + "/data")
            let arguments = ["import", file, "--app", "my-app", "--partition-key", "_partition", "--schema", schema]
            let output = try await Self.run(arguments, folder)
            #expect(output.status == 1)
            #expect(output.text == "20 objects written, 0 unchanged, 3 lines refused\n")
            #expect(
                output.complaint == """
                    \(file), line 21: not JSON at column 2: a string is missing
                    \(file), line 22: field _id: "x" is not of type Int
                    \(file), line 23: field _partition: 4.5 is not a partition
                    my-app/"user=0": 7 lines
                    my-app/"user=1": 7 lines
                    my-app/"user=2": 6 lines
                    \(file): the schema has no field __v, which was left out of 20 documents

                    """)
            let files = try await Self.run(["inspect"], folder).text
            for user in 0..<3 { #expect(files.contains("my-app/\"user=\(user)\": version ")) }
            // In the partition its classes are known.
            let more = folder + "/more.json"
            try Self.write([#"{"_id":3,"title":"new"}"#, #"{"_id":4,"title":4}"#, #"{"_id":5}"#], to: more)
            let strict = try await Self.run(
                ["import", more, "--path", "my-app/\"user=0\"", "--strict", "--json"], folder)
            #expect(strict.status == 1)
            #expect(strict.text.contains("\"written\":1") && strict.text.contains("\"refused\":1"))
            #expect(strict.complaint == "\(more), line 2: field title: 4 is not of type String\n")
            await server.terminate()
        }
    }

    @Test func manyMistakesAreNamedUpToALimit() async throws {
        try await Self.withFolder { folder in
            let file = folder + "/Task.json", schema = folder + "/schema.json"
            let good = (0..<3_000).map { #"{"_id":\#($0),"title":\#($0 % 3 == 0 ? "1" : "\"t\"")}"# }
            try Self.write(good + Array(repeating: "x", count: 5_000), to: file)
            try Self.write(
                [#"{"title":"Task","properties":{"_id":{"bsonType":"long"},"title":{"bsonType":"string"}}}"#],
                to: schema)
            let output = try await AdminCommandTests.run(
                ["import", file, "--class", "Task", "--schema", schema, "--dry-run"])
            #expect(output.status == 1)
            let complaints = output.complaint.split(separator: "\n")
            #expect(complaints.count == 1_002)
            #expect(complaints.dropLast().last == "\(file): 5000 further lines refused")
            #expect(complaints.last == "2000 lines can be imported, 6000 cannot")
        }
    }

    /// With a typing error in the name of the field nothing goes anywhere.
    @Test func aDocumentWithoutThePartitionFieldIsRefused() async throws {
        try await Self.withFolder { folder in
            let file = folder + "/Task.json"
            try Self.write([#"{"_id":1,"p":"a"}"#, #"{"_id":2,"p":null}"#, #"{"_id":3}"#], to: file)
            let arguments = ["import", file, "--app", "my-app", "--class", "Task", "--infer", "--dry-run"]
            let wrong = try await AdminCommandTests.run(arguments + ["--partition-key", "nopartition"])
            #expect(wrong.status == 1 && wrong.complaint.contains("0 lines can be imported, 3 cannot"))
            #expect(wrong.complaint.contains("line 1: field nopartition: it is missing; --allow-missing sends"))
            let misspelt = try await AdminCommandTests.run(arguments + ["--partition-key", "pp", "--allow-missing"])
            #expect(misspelt.status == 1 && misspelt.text.isEmpty)
            #expect(misspelt.complaint.contains("there is no field 'pp'; did you mean 'p'? allowed: _id, p"))
            let right = try await AdminCommandTests.run(arguments + ["--partition-key", "p"])
            #expect(right.status == 1 && right.complaint.contains("2 lines can be imported, 1 cannot"))
            let allowed = try await AdminCommandTests.run(arguments + ["--partition-key", "p", "--allow-missing"])
            #expect(allowed.status == 0 && allowed.complaint.contains("my-app/\"a\": 1 line\nmy-app/null: 2 lines\n"))
        }
    }

    /// The files of mongodump, with and without gzip, and an export that is compressed.
    @Test(arguments: ["types.bson", "types.bson.gz", "types.jsonl"])
    func dumpsAreRead(_ name: String) async throws {
        try await Self.withFolder { folder in
            let file = PythonServer.fixtures.appending(path: "documents/\(name)").path
            let server = try await ServerProcess(data: folder + "/data")
            let others = folder + "/Other.json"
            try Self.write([#"{"_id":{"$oid":"64b7f0aa0000000000000001"}}"#], to: others)
            _ = try await Self.run(["import", others, "--path", "/\"a\"", "--class", "Other", "--infer"], folder)
            let output = try await Self.run(["import", file, "--path", "/\"a\"", "--class", "T", "--infer"], folder)
            #expect(output.status == 0, "\(output.complaint)")
            #expect(output.text.hasPrefix("3 objects written"))
            #expect(output.complaint.contains("no field can hold stamp: $timestamp, which was left out of 1 document"))
            let export = try await Self.run(["export", "--path", "/\"a\""], folder).text
            for text in [
                #""date":{"ts":["-62135596800",0]}"#, #""decimal":{"dec":"1.50"}"#, #"{"int":"9223372036854775807"}"#,
                #""ref":{"link":["Other",{"oid":"64b7f0aa0000000000000001"}]}"#, #""text":"ä😀\u000a""#,
            ] { #expect(export.contains(text), "\(text) is not in \(export)") }
            await server.terminate()
        }
    }

    /// However a document, an option or a client spells a partition, it is one file.
    @Test func partitionsAreValues() async throws {
        try await Self.withFolder { folder in
            let file = folder + "/Task.json", line = folder + "/line.json"
            let partitions = [
                "4", #"{"$numberInt":"4"}"#, #"{"$numberLong":"4"}"#, "4.0", #"{"$numberDouble":"4.0"}"#,
                #"{"$oid":"64B7F0AA0000000000000001"}"#, #"{"$uuid":"00010203-0405-0607-0809-0a0b0c0d0e0f"}"#,
                #"{"$binary":{"subType":"4","base64":"AAECAwQFBgcICQoLDA0ODw=="}}"#, #""two\nlines""#,
                #""two\u000alines""#,
            ]
            try Self.write(partitions.enumerated().map { #"{"_id":\#($0),"p":\#($1)}"# }, to: file)
            let server = try await ServerProcess(data: folder + "/data")
            let all = try await Self.run(
                ["import", file, "--app", "a", "--partition-key", "p", "--class", "Task", "--infer"], folder)
            #expect(all.text == "10 objects written, 0 unchanged, 0 lines refused\n", "\(all.complaint)")
            let paths = [
                #"a/"two\nlines""#, #"a/{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}"#,
                #"a/{"$numberLong":"4"}"#, #"a/{"$oid":"64b7f0aa0000000000000001"}"#,
            ]
            let files = try await Self.run(["inspect"], folder).text
            #expect(
                files.split(separator: "\n").compactMap { $0.split(separator: ": version").first.map(String.init) }
                    == paths)
            try Self.write([#"{"_id":77}"#], to: line)
            let more = try await Self.run(["import", line, "--path", "a/4"], folder)
            #expect(more.text == "1 object written, 0 unchanged, 0 lines refused\n", "\(more.complaint)")
            for path in ["a/4", #"a/{ "$numberInt" : "4" }"#, #"a/{"$numberLong":"4"}"#] {
                let export = try await Self.run(["export", "--path", path], folder).text
                #expect(export.split(separator: "\n").count == 8, "\(path)")
                let shown = try await Self.run(["admin", "file", path, "--json"], folder)
                #expect(shown.status == 0 && shown.text.contains("numberLong"), "\(path): \(shown.complaint)")
            }
            await server.terminate()
        }
    }

    /// A table is written as a whole or not at all, and what `export --csv` writes is the same again.
    @Test func aTableIsImportedAsAWhole() async throws {
        try await Self.withFolder { folder in
            let file = folder + "/Task.csv", lines = folder + "/tasks.jsonl", count = 2_500
            try Self.write(
                (0..<count).map {
                    #"{"_id":\#($0),"title":"two\nlines, \"\#($0)\"","size":\#($0).5,"done":\#($0 % 2 == 0)}"#
                }, to: lines)
            let server = try await ServerProcess(data: folder + "/data")
            let first = try await Self.run(
                ["import", lines, "--path", "a/\"1\"", "--class", "Task", "--infer"], folder)
            #expect(first.status == 0, "\(first.complaint)")
            let table = try await Self.run(["export", "--path", "a/\"1\"", "--csv", "--class", "Task"], folder).text
            let export = try await Self.run(["export", "--path", "a/\"1\""], folder).text
            let schema = folder + "/schema.jsonl"
            try Self.write(export.split(separator: "\n").prefix(2).map(String.init), to: schema)
            // The last record is wrong, and nothing of the others is written.
            try Data((table + "x,true,1.5,a\n9999,true,1.5\n").utf8).write(to: URL(fileURLWithPath: file))
            let place = ["--path", "a/\"2\"", "--schema", schema]
            let refused = try await Self.run(["import", file] + place, folder)
            #expect(refused.status == 1 && refused.text.isEmpty)
            #expect(
                refused.complaint == """
                    \(file), line \(2 * count + 2): field _id: value: 'x' is not of type Int: digits, as in 42
                    \(file), line \(2 * count + 3): columns: it has 3 cells, and the first line names 4 columns
                    Error: \(file): nothing was written, since 2 records cannot be

                    """)
            #expect(try await !Self.run(["inspect"], folder).text.contains("a/\"2\""))
            try Data(table.utf8).write(to: URL(fileURLWithPath: file))
            let whole = try await Self.run(["import", file] + place, folder)
            #expect(whole.text == "\(count) objects written, 0 unchanged, 0 lines refused\n", "\(whole.complaint)")
            #expect(try await Self.run(["export", "--path", "a/\"2\""], folder).text == export)
            await server.terminate()
        }
    }

    @Test func whatIsNoDocumentIsNamed() async throws {
        try await Self.withFolder { folder in
            let file = folder + "/file"
            for (bytes, words) in [
                (Array("{\"_id\":1}\n{\"_id\":\n".utf8), "line 2: not JSON at column 8: a value is missing"),
                (Array("_id,name\n1,a\n".utf8), "line 1: not JSON at column 1: a value is missing"),
                ([0x6d, 0xe2, 0x99, 0x81, 0], "is an archive of mongodump"), ([0x1f, 0x8b, 8, 0], "gzip"),
                ([0x28, 0xb5, 0x2f, 0xfd], "is compressed with zstd"),
                ([0x20, 0, 0, 0, 1], "document 1: the file ends within it"),
                ([5, 0, 0, 0, 0, 4, 0, 0, 0, 0], "document 2: its length is 4"),
                ([0xff, 0xfe, 0x7b, 0, 0x22, 0], "is UTF-16"), ([0xfe, 0xff, 0, 0x5b, 0, 0x7b], "is UTF-16"),
                (Array("{\"_id\":1}\n \t\r\n\0\0\n".utf8), "line 3: not JSON at column 1"),
            ] as [([UInt8], String)] {
                try Data(bytes).write(to: URL(fileURLWithPath: file))
                let output = try await AdminCommandTests.run(
                    ["import", file, "--class", "T", "--infer", "--dry-run"])
                #expect(output.status != 0 && output.complaint.contains(words), "\(words): \(output.complaint)")
            }
        }
    }

    @Test func aByteOrderMarkIsPassedOver() async throws {
        try await Self.withFolder { folder in
            let file = folder + "/file"
            try Data([0xef, 0xbb, 0xbf] + Array("{\"_id\":1}\r\n{\"_id\":2}".utf8)).write(
                to: URL(fileURLWithPath: file))
            let output = try await AdminCommandTests.run(["import", file, "--class", "T", "--infer", "--dry-run"])
            #expect(output.status == 0 && output.complaint.hasPrefix("\(file): 2 documents of class T:\n  _id: Int 2"))
        }
    }

    @Test func aSchemaIsFoundAndCanBeChanged() async throws {
        try await Self.withFolder { folder in
            let file = folder + "/Task.json", schema = folder + "/schema.jsonl"
            try Self.write([#"{"_id":1,"n":1}"#, #"{"_id":2,"n":2.5}"#], to: file)
            let dry = try await AdminCommandTests.run(["import", file, "--class", "Task", "--infer", "--dry-run"])
            #expect(dry.status == 0 && dry.complaint.hasPrefix("\(file): 2 documents of class Task:\n  _id: Int 2\n"))
            try Self.write([dry.text.replacing("double", with: "decimal")], to: schema)
            let server = try await ServerProcess(data: folder + "/data")
            let output = try await Self.run(["import", file, "--path", "/\"a\"", "--schema", schema], folder)
            #expect(output.text == "2 objects written, 0 unchanged, 0 lines refused\n", "\(output.complaint)")
            #expect(try await Self.run(["export", "--path", "/\"a\""], folder).text.contains(#"{"dec":"2.5"}"#))
            await server.terminate()
        }
    }

    @Test func afterAKilledServerAnImportGoesOn() async throws {
        try await Self.withFolder { folder in
            let file = folder + "/Task.json", schema = folder + "/schema.jsonl", count = 6_000
            let lines = (0..<count).map { #"{"_id":\#($0),"title":"title \#($0)"}"# }
            try Self.write(lines, to: file)
            let dry = try await AdminCommandTests.run(["import", file, "--class", "Task", "--infer", "--dry-run"])
            try Self.write([dry.text], to: schema)
            let place = ["--path", "/\"a\"", "--schema", schema, "--data", folder + "/data"]
            var server = try await ServerProcess(data: folder + "/data")
            let process = Process(), typed = Pipe(), complaints = Pipe()
            process.executableURL = ServerProcess.executable
            process.arguments = ["import", "-"] + place
            (process.standardInput, process.standardError) = (typed, complaints)
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            let first = Data(lines[..<5_000].map { $0 + "\n" }.joined().utf8)
            try typed.fileHandleForWriting.write(contentsOf: first)
            // The classes are the first version.
            while try await !Self.run(["inspect"], folder).text.contains("/\"a\": version 6") {}
            await server.kill()
            // The pipe takes them, whether or not they are read.
            try typed.fileHandleForWriting.write(contentsOf: Data(lines[5_000...].map { $0 + "\n" }.joined().utf8))
            try typed.fileHandleForWriting.close()
            let complaint = String(decoding: complaints.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            #expect(process.terminationStatus == 1)
            #expect(complaint.contains("All lines of - before line 5001 are done; go on with\n"), "\(complaint)")
            #expect(complaint.hasSuffix("--from-line 5001\n"))
            server = try await ServerProcess(data: folder + "/data")
            let rest = try await AdminCommandTests.run(["import", file, "--from-line", "5001"] + place)
            #expect(rest.text == "1000 objects written, 0 unchanged, 0 lines refused\n", "\(rest.complaint)")
            let export = try await Self.run(["export", "--path", "/\"a\""], folder)
            #expect(export.text.split(separator: "\n").count == count + 2)
            let whole = try await AdminCommandTests.run(["import", file] + place)
            #expect(whole.text == "0 objects written, \(count) unchanged, 0 lines refused\n")
            await server.terminate()
        }
    }
}

import Foundation
import Testing

/// `anabranch realm-file`, with files that the reference wrote.
@Suite final class RealmFileTests {
    private static let vectors = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Vectors/RealmFiles").path
    private let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())")

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for name in ["00-example", "27-names", "35-encrypted", "41-synced-with-ident", "44-synced-merged-and-pending"] {
            let answer = try BuiltCommands.bash(
                "gzip -dc \"$1/$2.realm.gz\" >\"$3/$2.realm\"", Self.vectors, name, folder.path())
            try #require(answer.status == 0)
        }
        try Data("0123456789abcdefghijklmnopqrstuvABCDEFGHIJKLMNOPQRSTUVWXYZ012345".utf8).write(to: file("key"))
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private func file(_ name: String) -> URL { folder.appending(path: name) }

    private func run(_ arguments: String) throws -> BuiltCommands.Answer {
        try BuiltCommands.bash("cd \"$1\" && anabranch realm-file \(arguments)", folder.path())
    }

    /// Changes a copy of the example.
    private func change(_ name: String, _ body: (inout Data) -> Void) throws {
        var bytes = try Data(contentsOf: file("00-example.realm"))
        body(&bytes)
        try bytes.write(to: file(name))
    }

    @Test func anExportHasTheLinesOfAnExport() throws {
        let answer = try run("export 00-example.realm")
        #expect(answer.status == 0)
        #expect(answer.output.hasPrefix("{\"anabranch_export\":1}\n{\"class\":\"A\","))
        #expect(answer.output.hasSuffix("[\"A\",{\"int\":\"5\"},{\"d\":{\"dec\":\"1.5\"},\"s\":\"hello\"}]\n"))
        #expect(answer.complaint == "00-example.realm: 1 object\n")
    }

    @Test func aPipeIsRead() throws {
        let path = "\(Self.vectors)/00-example.realm.gz"
        let answer = try BuiltCommands.bash("anabranch realm-file export <(gzip -dc \"$1\")", path)
        #expect(answer.status == 0, "\(answer.complaint)")
        #expect(answer.output.split(separator: "\n").count == 3)
        try Data().write(to: file("empty.realm"))
        #expect(try run("info empty.realm").complaint.contains("it is not a Realm file"))
    }

    @Test func anExportCanBeImported() throws {
        let answer = try run(
            "export 44-synced-merged-and-pending.realm 2>/dev/null | anabranch import - --dry-run --path '/\"notes\"'")
        #expect(answer.status == 0, "\(answer.complaint)")
        let piped = try BuiltCommands.bash(
            "anabranch import - --dry-run --path p <\"$1\"", file("27-names.realm").path())
        #expect(piped.status == 1 && piped.complaint.contains("-: is a Realm file: give its path"))
    }

    @Test func filesThatNeverConnectedGetAnIdentOfTheirOwn() throws {
        let lines = try run("export 27-names.realm --ident 1000000002").output
        #expect(lines.contains(#"["text",{"gk":"3b9aca02-1"},"#))
        #expect(!lines.contains(#"{"gk":"0-"#))
        let connected = try run("export 41-synced-with-ident.realm --ident 1000000002").output
        #expect(connected.contains(#"{"gk":"4d-"#) && !connected.contains("3b9aca02"))
        #expect(try run("export 27-names.realm --ident 1073741824").status == 64)
    }

    @Test func aKeyOpensAnEncryptedFile() throws {
        #expect(try run("info 35-encrypted.realm --key-file key").output.contains("class    Person  30 objects"))
        let digits = try Data(contentsOf: file("key")).map { String(format: "%02x", $0) }.joined() + "\n"
        try Data(digits.utf8).write(to: file("digits"))
        #expect(try run("info 35-encrypted.realm --key-file digits").status == 0)
    }

    @Test func whatCannotBeReadIsASentence() throws {
        try change("cut.realm") { $0.removeLast(8) }
        try change("old.realm") { $0[21] = 9 }
        try change("odd.realm") { $0[21] = 12 }
        try change("swapped.realm") { $0.replaceSubrange(8..<16, with: $0[8..<16].reversed()) }
        try change("server.realm") { $0[0x1D0 + 8 + 4 * 7] = 9 }
        try change("text.realm") { $0 = Data("text".utf8) }
        try Data(repeating: 7, count: 64).write(to: file("wrong"))
        try Data(repeating: 7, count: 63).write(to: file("short"))
        try Data(contentsOf: file("35-encrypted.realm")).dropLast().write(to: file("part.realm"))
        let sentences = [
            "35-encrypted.realm": "needs its key",
            "35-encrypted.realm --key-file wrong": "the key is not that of the file",
            "35-encrypted.realm --key-file short": "128 hexadecimal digits, and here are 63 bytes",
            "part.realm": "or a part of one", "part.realm --key-file key": "bytes are too few for an encrypted",
            "odd.realm": "format 12 is none that a release of Realm writes",
            "00-example.realm --key-file key": "the file is not encrypted", "cut.realm": "the file is cut off",
            "old.realm": "format 9 is older than 10", "swapped.realm": "begin with their highest byte",
            "text.realm": "it is not a Realm file", "notes.realm.lock": "it is the lock file beside a Realm file",
            "missing.realm": "No such file or directory", ".": "is a folder", "server.realm": "a Realm Object Server",
        ]
        for (arguments, sentence) in sentences {
            let answer = try run("export \(arguments) --output out.jsonl")
            #expect(answer.status == 1)
            #expect(answer.output.isEmpty)
            #expect(answer.complaint.hasPrefix("Error: ") && answer.complaint.contains(sentence), "\(answer.complaint)")
            #expect(answer.complaint.split(separator: "\n").count == 1)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path()).filter { $0.contains("out") } == [])
        #expect(try run("pending server.realm").complaint.contains("it is a file of a Realm Object Server"))
        let served = try run("export server.realm --server-file")
        #expect(
            served.status == 0 && served.complaint.contains("not seen in any file that this reader was compared with"))
    }

    @Test func whatIsDamagedIsLeftOutIfAsked() throws {
        let path = "\(Self.vectors)/damaged/06-enumerated-index-outside.realm"
        let refused = try BuiltCommands.bash("anabranch realm-file export \"$1\"", path)
        #expect(refused.status == 1)
        #expect(refused.complaint.contains("class A, property e, byte 400: string 2 of 2 that the column has"))
        #expect(refused.complaint.contains("With --salvage the rest is read."))
        let salvaged = try BuiltCommands.bash(
            """
            cd "$2" && anabranch realm-file export "$1" --salvage -o out.jsonl; code=$?; cat out.jsonl; exit $code
            """, path, folder.path())
        #expect(salvaged.status == 1)
        let expected = try String(
            contentsOfFile: path.replacing(".realm", with: ".jsonl"), encoding: .utf8)
        #expect(salvaged.output == expected)
        #expect(salvaged.complaint.contains("left out: class A, property e"))
    }

    @Test func theLimitOfTheOutputIsAnErrorOfItsOwn() throws {
        let answer = try run("export 41-synced-with-ident.realm --output-limit 1500 --output out.jsonl")
        #expect(answer.status == 1)
        #expect(answer.complaint.contains("With --output-limit they may be longer."))
        #expect(!FileManager.default.fileExists(atPath: file("out.jsonl").path()))
    }

    /// It can be the only copy of somebody's data.
    @Test func theFileThatIsReadIsNotWritten() throws {
        for name in ["00-example.realm", "copy.partial"] {
            if name != "00-example.realm" { try change(name) { _ in } }
            let before = try Data(contentsOf: file(name)), output = name.replacing(".partial", with: "")
            for path in [output, "./\(output)"] {
                let answer = try run("export \(name) --output \(path)")
                #expect(answer.status == 1 && answer.complaint.contains("it is what is read"), "\(answer.complaint)")
            }
            #expect(try Data(contentsOf: file(name)) == before)
        }
    }

    @Test func whatWaitsForUploadIsPrinted() throws {
        let answer = try run("pending 44-synced-merged-and-pending.realm")
        #expect(answer.status == 0)
        #expect(answer.output.contains("version 6  2015-01-01T00:16:40.035Z  upon server version 2\n"))
        #expect(answer.output.contains("  ArrayInsert Person[1].anys[1] = String \"ours\" (prior size 4)\n"))
        #expect(answer.output.contains("  since then, merged with what was downloaded:\n"))
        #expect(answer.complaint.contains("2 changes never uploaded, the oldest of 2015-01-01"))
        let json = try run("pending 44-synced-merged-and-pending.realm --json")
        let lines = json.output.split(separator: "\n").map { Data($0.utf8) }
        #expect(lines.count == 2)
        for line in lines {
            let change = try #require(try JSONSerialization.jsonObject(with: line) as? [String: Any])
            #expect(change["changeset"] is String && change["decoded"] is [String: Any])
        }
        #expect(try run("pending 00-example.realm").complaint.contains("it is a local file, which uploads nothing"))
    }

    @Test func whatIsNoChangesetIsNamed() throws {
        let name = "44-synced-merged-and-pending.realm"
        let line = try run("pending \(name) --json").output.prefix { $0 != "\n" }
        let change = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        let digits = Array(try #require(change["changeset"] as? String))
        let changeset = Data(
            stride(from: 0, to: digits.count, by: 2).compactMap { UInt8(String(digits[$0...$0 + 1]), radix: 16) })
        var bytes = try Data(contentsOf: file(name))
        let place = try #require(bytes.range(of: changeset))
        bytes[place.lowerBound] = 0x7F
        try bytes.write(to: file("other.realm"))
        for option in ["", " --json"] {
            let answer = try run("pending other.realm\(option)")
            #expect(answer.status == 1)
            #expect(answer.output.split(separator: "\n").count > 1)
            #expect(answer.complaint.contains("1 of them cannot be read"), "\(answer.complaint)")
        }
    }

    @Test func aDamagedHistoryIsNamedWithItsFile() throws {
        let name = "44-synced-merged-and-pending.realm"
        var bytes = try Data(contentsOf: file(name))
        // One element more than a history has.
        bytes[Self.historyOf44 + 7] += 1
        try bytes.write(to: file("history.realm"))
        #expect(try run("info history.realm").status == 1)
        for option in ["", " --json"] {
            let answer = try run("info history.realm --salvage\(option)")
            #expect(answer.status == 1 && answer.output.contains("Person"))
            #expect(answer.complaint.hasPrefix("history.realm: left out: byte \(Self.historyOf44): a history of 22 "))
        }
    }

    /// Where the history of that file begins.
    private static let historyOf44 = 12_920

    @Test func infoSaysWhatAFileIs() throws {
        let path = "mongodb-realm/notes-abcde/5f1e/notes.realm"
        let words = try BuiltCommands.bash(
            """
            cd "$1" && mkdir -p "${2%/*}" && cp 41-synced-with-ident.realm "$2" && anabranch realm-file info "$2"
            """, folder.path(), path)
        #expect(words.output.contains("path     of the app notes-abcde and the user 5f1e\n"))
        #expect(words.output.contains("client file ident 77\n"))
        #expect(words.output.contains("pending  3 changes never uploaded, the oldest of 2015-01-01"))
        let answer = try run("info 41-synced-with-ident.realm --json")
        let json = try #require(try JSONSerialization.jsonObject(with: Data(answer.output.utf8)) as? [String: Any])
        #expect(json["format"] as? Int == 24)
        #expect((json["not_seen"] as? [String])?.isEmpty == true)
        let sync = try #require(json["sync"] as? [String: Any])
        #expect(sync["client_file_ident"] as? Int == 77)
        #expect((sync["pending"] as? [Any])?.count == 3)
    }
}

import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

/// `anabranch merge-files`, and who says that it is needed.
@Suite(.enabled(if: BuiltCommands.succeeds("anabranch --version"), "needs the built command"))
struct MergeFilesTests {
    private static let kept = #"a/{"$numberLong":"42"}"#

    /// A directory as an older version has left it.
    private static func withDirectory(_ body: (String) throws -> Void) throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = try SQLiteStore(directory: directory)
        for (number, path) in ["a/42", kept, "a/43"].enumerated() {
            let file = try SyncedFile(path: VirtualPath(path), store: store)
            _ = try file.allocateIdents(for: [nil], at: 1)
            try file.write(at: ChangesetTime(UInt64(number))) { transaction in
                try transaction.addClass("T", key: "_id", .int)
                try transaction.create("T", key: .int(Int64(number)))
            }
        }
        try store.close()
        try body(directory)
    }

    private static func run(_ line: String, _ directory: String, _ word: String = "") throws -> BuiltCommands.Answer {
        try BuiltCommands.bash(line, directory, word)
    }

    @Test func filesOfOnePartitionAreNamedAndJoinedOnce() throws {
        try Self.withDirectory { directory in
            let verified = try Self.run("anabranch verify --data $1", directory)
            #expect(verified.status == 0)
            #expect(
                verified.output.contains(
                    "\(Self.kept) and a/42 are one partition: `anabranch merge-files --data \(directory)` joins them\n")
            )
            let json = try Self.run("anabranch verify --data $1 --json", directory).output
            #expect(json.contains(#""files_of_one_partition":[["a/{\"$numberLong\":\"42\"}","a/42"]]"#))
            let what = "a/42 with 1 object; 1 client file of it will reset\n"
            let dry = try Self.run("anabranch merge-files --data $1 --dry-run", directory)
            #expect(dry.status == 0 && dry.output == "\(Self.kept): would join \(what)")
            #expect(try Self.run("anabranch inspect --data $1", directory).output.contains("a/42: version"))
            let joined = try Self.run("anabranch merge-files --data $1", directory)
            #expect(joined.status == 0 && joined.output == "\(Self.kept): joined \(what)", "\(joined.complaint)")
            let again = try Self.run("anabranch merge-files --data $1", directory)
            #expect(again.status == 0 && again.output == "no partition has several files\n")
            #expect(try Self.run("anabranch verify --data $1", directory).output.contains("2 files"))
            let lines = try Self.run("anabranch export --data $1 --path a/42", directory).output.split(separator: "\n")
            #expect(lines.dropFirst(2) == [#"["T",{"int":"0"},{}]"#, #"["T",{"int":"1"},{}]"#])
        }
    }

    @Test func onlyOneThatIsNamedIsJoined() throws {
        try Self.withDirectory { directory in
            let none = try Self.run("anabranch merge-files --data $1 $2", directory, "a/43")
            #expect(none.status == 1 && none.complaint == "Error: a/43: the partition has no second file\n")
            let one = try Self.run("anabranch merge-files --data $1 \"$2\"", directory, #"a/{"$numberInt": "42"}"#)
            #expect(one.status == 0 && one.output.hasPrefix("\(Self.kept): joined a/42"), "\(one.complaint)")
        }
    }

    @Test func whileAServerUsesTheStoreNothingIsJoined() throws {
        try Self.withDirectory { directory in
            let store = try SQLiteStore(directory: directory)
            let refused = try Self.run("anabranch merge-files --data $1", directory)
            #expect(refused.status == 1 && refused.complaint.contains("stop the server"), "\(refused.complaint)")
            #expect(try Self.run("anabranch merge-files --data $1 --dry-run", directory).status == 0)
            try store.close()
        }
    }
}

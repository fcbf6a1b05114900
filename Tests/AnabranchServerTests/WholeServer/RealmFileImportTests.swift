import AnabranchTesting
import Foundation
import Testing

/// `anabranch import` of Realm files that the reference wrote, into a server in a process of its own.
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
struct RealmFileImportTests {
    @Test func aServerHoldsWhatTheFileHolds() async throws {
        try await RealmFileDesk.with { desk in
            let server = try await ServerProcess(data: desk.folder + "/data")
            for name in [
                "03-one-of-each", "04-values-of-each", "11-decimals", "14-links", "15-embedded",
                "19-dictionaries", "20-nested", "21-many", "33-copy", "35-encrypted", "40-synced-never-connected",
                "44-synced-merged-and-pending", "45-synced-dangling-links", "47-synced-encrypted",
                "48-synced-flexible", "50-format-22-types", "50-format-23-links",
            ] {
                let path = "/\"\(name)\"", file = try desk.file(name)
                var arguments = ["import", file, "--path", path, "--data", desk.folder + "/data"]
                if name.contains("encrypted") { arguments += ["--key-file", desk.folder + "/key"] }
                let first = try await AdminCommandTests.run(arguments)
                #expect(first.status == 0 && first.text.contains(" 0 lines refused"), "\(name): \(first.complaint)")
                let lines = String(
                    decoding: try GzipFile.contents(of: "\(RealmFileDesk.vectors)/\(name).jsonl.gz"), as: UTF8.self)
                let held = try await desk.export(path)
                #expect(RealmFileDesk.withoutIdents(held) == RealmFileDesk.withoutIdents(lines), "\(name)")
                let again = try await AdminCommandTests.run(arguments)
                #expect(again.text.hasPrefix("0 objects written"), "\(name): \(again.text)")
            }
            await server.terminate()
        }
    }

    @Test func filesThatNeverConnectedHaveKeysOfTheirOwn() async throws {
        try await RealmFileDesk.with { desk in
            let server = try await ServerProcess(data: desk.folder + "/data")
            let file = try desk.file("40-synced-never-connected")
            for device in ["ann", "bob", "ann"] {
                let output = try await desk.run("import", file, "--path", "/\"a\"", "--from-device", device)
                #expect(output.status == 0 && !output.complaint.contains("lost"), "\(output.complaint)")
            }
            let nameless = try await desk.run("import", file, "--path", "/\"a\"")
            #expect(nameless.complaint.contains("have keys that begin with "), "\(nameless.complaint)")
            let keys = try await desk.export("/\"a\"").split(separator: "\n").filter { $0.hasPrefix("[\"Free\",") }
                .map { $0.prefix { $0 != "-" } }
            #expect(keys.count == 9 && Set(keys).count == 3, "\(keys)")
            await server.terminate()
        }
    }

    @Test func whatIsLeftOutIsCounted() async throws {
        try await RealmFileDesk.with { desk in
            let server = try await ServerProcess(data: desk.folder + "/data")
            let path = "/\"a\""
            let asymmetric = try await desk.run("import", try desk.file("28-asymmetric"), "--path", path, "--json")
            #expect(asymmetric.status == 0 && asymmetric.text.contains("\"left_out\":0"), "\(asymmetric.text)")
            let damaged = "\(RealmFileDesk.vectors)/damaged/10-link-in-list.realm"
            let refused = try await desk.run("import", damaged, "--path", "/\"b\"")
            #expect(refused.status == 1 && refused.complaint.contains("With --salvage the rest is read."))
            let salvaged = try await desk.run("import", damaged, "--path", "/\"b\"", "--salvage")
            #expect(salvaged.status == 1 && salvaged.complaint.contains(": left out: "), "\(salvaged.complaint)")
            #expect(!salvaged.text.hasPrefix("0 objects written"), "\(salvaged.text)")
            await server.terminate()
        }
    }

    /// The sentences are those of `realm-file`, and nothing is written.
    @Test func whatCannotBeReadIsRefusedWhole() async throws {
        try await RealmFileDesk.with { desk in
            let server = try await ServerProcess(data: desk.folder + "/data")
            let encrypted = try desk.file("35-encrypted"), example = try desk.file("00-example")
            var bytes = try Data(contentsOf: URL(fileURLWithPath: example))
            bytes.removeLast(8)
            let cut = desk.folder + "/cut.realm", text = desk.folder + "/text.realm", lock = example + ".lock"
            try bytes.write(to: URL(fileURLWithPath: cut))
            try Data("no Realm file".utf8).write(to: URL(fileURLWithPath: text))
            try Data([1]).write(to: URL(fileURLWithPath: lock))
            for (file, rest) in [
                (encrypted, []), (example, ["--key-file", desk.folder + "/key"]), (cut, []), (text, []), (lock, []),
                (desk.folder + "/missing.realm", []),
            ] as [(String, [String])] {
                let told = try await AdminCommandTests.run(["realm-file", "export", file] + rest)
                let output = try await AdminCommandTests.run(
                    ["import", file, "--path", "/\"a\"", "--data", desk.folder + "/data"] + rest)
                #expect(output.status == 1 && output.complaint == told.complaint, "\(file): \(output.complaint)")
            }
            #expect(try await desk.run("admin", "files", "--json").text.contains("\"files\":[]"))
            let lines = desk.folder + "/lines.jsonl"
            try Data("{\"anabranch_export\":1}\n".utf8).write(to: URL(fileURLWithPath: lines))
            let other = try await desk.run("import", lines, "--path", "/\"a\"", "--salvage")
            #expect(other.status == 1 && other.complaint.contains("is not a Realm file, which options"))
            await server.terminate()
        }
    }

    /// Answered lines stay, and the next run writes the rest.
    @Test(arguments: [false, true]) func whatWasKilledIsCompletedByTheNextRun(endsServer: Bool) async throws {
        try await RealmFileDesk.with { desk in
            var server = try await ServerProcess(data: desk.folder + "/data")
            let name = "22-many-deep", arguments = ["import", try desk.file(name), "--path", "/\"a\""]
            let killed = endsServer ? server.processIdentifier : nil
            let (complaints, wasKilled) = try await Self.run(
                arguments + ["--progress", "--data", desk.folder + "/data"], killing: killed)
            #expect(wasKilled != endsServer && complaints.contains("go on with") == endsServer, "\(complaints)")
            await server.kill()
            server = try await ServerProcess(data: desk.folder + "/data")
            let lines = String(
                decoding: try GzipFile.contents(of: "\(RealmFileDesk.vectors)/\(name).jsonl.gz"), as: UTF8.self)
            let half = try await desk.export("/\"a\"").count
            #expect(half > 0 && half < lines.count)
            let rest = try await desk.run(arguments)
            #expect(rest.status == 0 && !rest.text.hasPrefix("0 ") && !rest.text.contains(" 0 unchanged"))
            let held = try await desk.export("/\"a\"")
            #expect(RealmFileDesk.withoutIdents(held) == RealmFileDesk.withoutIdents(lines))
            await server.terminate()
        }
    }

    /// Runs the command, and kills a process when the command tells that a piece is written.
    ///
    /// - Parameter killed: the process; nil for the command itself.
    /// - Returns: what stands on standard error, and whether the command was killed.
    private static func run(
        _ arguments: [String], killing killed: Int32?
    ) async throws -> (complaints: String, wasKilled: Bool) {
        let process = Process(), output = Pipe(), executable: URL = try #require(ServerProcess.executable)
        (process.executableURL, process.arguments) = (executable, arguments)
        (process.standardOutput, process.standardError) = (FileHandle.nullDevice, output)
        try process.run()
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var text: [UInt8] = [], isKilled = false
                while let bytes = try? output.fileHandleForReading.read(upToCount: 1), !bytes.isEmpty {
                    text += bytes
                    guard !isKilled, text.last == UInt8(ascii: "%") else { continue }
                    kill(killed ?? process.processIdentifier, SIGKILL)
                    isKilled = true
                }
                process.waitUntilExit()
                let wasKilled = process.terminationReason == .uncaughtSignal
                continuation.resume(returning: (String(decoding: text, as: UTF8.self), wasKilled))
            }
        }
    }
}

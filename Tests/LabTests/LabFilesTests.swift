import AnabranchTesting
import Foundation
import Testing

/// The files of the lab's commands, and their reports of them.
@Suite final class LabFilesTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())")

    init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private func path(_ name: String) -> String { folder.appending(path: name).path() }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: folder.path()) }
    }

    @Test func casesThatWereInterruptedAreNotThere() async throws {
        // A pipe in place of the file that is being written: the command waits for its reader until it was interrupted.
        #expect(mkfifo(path("all.jsonl.partial"), 0o600) == 0)
        let process = try LabProcess(["bench", "cases", path("all.jsonl")])
        let reader = try #require(FileHandle(forReadingAtPath: path("all.jsonl.partial")))
        process.send(SIGINT)
        _ = try reader.readToEnd()
        let answer = try await process.end()
        #expect(answer.status == 130)
        #expect(answer.complaint.hasPrefix("stopped after ") && answer.complaint.hasSuffix("is not written\n"))
        #expect(try names == [])
    }

    /// A case that can be merged, and one that cannot be decoded.
    private func writeCases() throws {
        let change = #"{"version":2,"base":1,"timestamp":1,"origin":2,"hex":""}"#
        let damaged = change.replacing(#""hex":"""#, with: #""hex":"ff""#)
        let lines = [change, damaged].map { #"{"name":"a","local":[\#($0)],"incoming":[]}"# + "\n" }
        try Data(lines.joined().utf8).write(to: folder.appending(path: "cases.jsonl"))
    }

    @Test func aSummaryNamesCasesThatAreErrors() async throws {
        try writeCases()
        let arguments = ["merge", "--in", path("cases.jsonl"), "--out", path("results.jsonl")]
        let answer = try await LabProcess.run(arguments)
        #expect(answer.status == 0)
        #expect(answer.complaint == "2 cases: 1 merged, 1 failed\n")
        #expect(try names.sorted() == ["cases.jsonl", "results.jsonl"])
        let json = try await LabProcess.run(arguments + ["--strict", "--json"])
        #expect(json.status == 1)
        #expect(json.complaint == #"{"cases":2,"failed":1,"merged":1}"# + "\n")
    }

    @Test func aCaseIsTimedWithItsSpread() async throws {
        _ = try await LabProcess.run(["bench", "cases", path("cases.jsonl"), "--only", "list-insert-1000"])
        let answer = try await LabProcess.run(["bench", "merge", path("cases.jsonl"), "--repeats", "2"])
        struct Figures: Decodable { var total_ms: Double, total_min_ms: Double, total_max_ms: Double }
        let figures = try JSONDecoder().decode(Figures.self, from: Data(answer.output.utf8))
        #expect(figures.total_min_ms <= figures.total_ms && figures.total_ms <= figures.total_max_ms)
    }

    @Test func aReplaySaysWhetherTheTextEndsAsRecorded() async throws {
        let trace = #"""
            {"numAgents": 1, "endContent": "END", "txns": [
              {"agent": 0, "time": "2023-11-22T03:57:32+00:00", "parents": [], "patches": [[0, 0, "hello"]]}]}
            """#
        for (end, isRight) in [("hello", true), ("hullo", false)] {
            try write(gzip: trace.replacing("END", with: end), to: "short.json.gz")
            let answer = try await LabProcess.run(["replay", "trace", path("short.json.gz")])
            #expect(answer.status == (isRight ? 0 : 1))
            #expect(answer.output.hasPrefix("short, followed, indexed: 1 transactions in "))
            #expect(answer.output.contains("text ends as recorded: \(isRight ? "yes" : "NO")\n"))
            let json = try await LabProcess.run(["replay", "trace", path("short.json.gz"), "--json"])
            #expect(json.output.contains(#""text_ends_as_recorded":\#(isRight)"#))
        }
    }

    @Test func aRecordingThatDoesNotFitOneServerIsReplayedOffLine() async throws {
        let trace = #"""
            {"numAgents": 4, "endContent": "", "txns": [
              {"agent": 0, "time": "2023-11-22T03:57:32+00:00", "parents": [], "patches": [[0, 0, "a"]]},
              {"agent": 1, "time": "2023-11-22T03:57:32+00:00", "parents": [], "patches": [[0, 0, "b"]]},
              {"agent": 2, "time": "2023-11-22T03:57:32+00:00", "parents": [0], "patches": [[1, 0, "c"]]},
              {"agent": 3, "time": "2023-11-22T03:57:32+00:00", "parents": [1], "patches": [[1, 0, "d"]]}]}
            """#
        try write(gzip: trace, to: "apart.json.gz")
        let answer = try await LabProcess.run(["replay", "trace", path("apart.json.gz")])
        #expect(answer.status == 0)
        #expect(answer.complaint.hasPrefix("apart: cannot be followed, and so is only replayed offline: "))
        #expect(answer.complaint.split(separator: "\n").count == 1)
        #expect(answer.output.hasPrefix("apart, offline, indexed: 4 transactions in "))
        #expect(answer.output.split(separator: "\n").count == 1)
    }

    private func write(gzip text: String, to name: String) throws {
        let process = Process(), input = Pipe()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "gzip > \"$0\"", path(name)]
        process.standardInput = input
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
    }
}

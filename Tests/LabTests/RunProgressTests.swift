import AnabranchTesting
import Foundation
import Testing

@testable import anabranch_lab

/// The progress that a person sees of a long run, and the summary of one that is stopped.
@Suite(.timeLimit(.minutes(30))) struct RunProgressTests {
    @Test(
        arguments: [
            (nil, "5 of 20 cases, 10 s"), (0.25, "5 of 20 cases, 10 s, about 30 s left"), (0, "5 of 20 cases, 10 s"),
            (1, "5 of 20 cases, 10 s"),
        ] as [(Double?, String)])
    func theTimeLeftIsThatOfTheShareThatIsLeft(share: Double?, line: String) {
        #expect(RunProgress.line("5 of 20 cases", share: share, after: .seconds(10)) == line)
    }

    private struct Numbers: RunTally {
        var done: [Int] = []
        var hasFailed: Bool { false }

        mutating func add(_ other: Numbers) { done += other.done }
    }

    /// So that the next seed is the first one that was not tried.
    @Test(arguments: 1...4) func aStoppedRunHasDoneAllPiecesUpToSomeNumber(jobs: Int) async throws {
        var asked = 0
        let tally = try await Numbers.sum(
            of: 1000, jobs: jobs,
            isStopped: {
                asked += 1
                return asked > 10
            }
        ) { Numbers(done: [$0]) }
        #expect(tally.done.sorted() == Array(0..<tally.done.count))
        #expect(tally.done.count == 10 + jobs)
    }

    @Test func anInterruptedRunSaysHowToGoOn() async throws {
        let process = try LabProcess(["fuzz", "merge", "--cases", "1000000000", "--seed", "7", "--json"])
        // The first line says that the run has begun.
        try process.waitForComplaint("1000000000 cases from seed 7 on")
        process.send(SIGINT)
        let answer = try await process.end()
        #expect(answer.status == 130)
        struct Report: Decodable { var cases: Int, differences: [UInt64] }
        let cases = try JSONDecoder().decode(Report.self, from: Data(answer.output.utf8)).cases
        #expect(
            answer.complaint.hasSuffix(
                "stopped after \(cases) of 1000000000 cases; go on with --seed \(7 + cases) "
                    + "--cases \(1_000_000_000 - cases)\n"), "\(answer.complaint)")
    }

    @Test(arguments: [["bench", "merge"], ["merge", "--out", "-", "--in"], ["check", "vectors"]])
    func anEmptyInputIsAMistake(command: [String]) async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("empty-\(UUID().uuidString).jsonl")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data("\n".utf8).write(to: file)
        let outcome = try await LabProcess.run(command + [file.path])
        #expect(outcome.status == 1)
        #expect(outcome.complaint.contains("\(file.path): is empty"), "\(outcome.complaint)")
    }

    @Test func aBeginningThatNoCaseHasLeavesTheFileAsItIs() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("cases-\(UUID().uuidString).jsonl")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data("precious\n".utf8).write(to: file)
        let outcome = try await LabProcess.run(["bench", "cases", file.path, "--only", "nosuch"])
        #expect(outcome.status == 1)
        #expect(outcome.complaint.hasPrefix("Error: --only nosuch: no case begins so; there are list-insert-1000, "))
        #expect(try String(contentsOf: file, encoding: .utf8) == "precious\n")
    }
}

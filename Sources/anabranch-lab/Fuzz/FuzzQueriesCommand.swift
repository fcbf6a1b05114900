import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct FuzzQueriesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queries",
        abstract: "Read random queries, whole and damaged ones.",
        discussion: """
            No text may end the process or be read although it is larger or deeper than is allowed. What is written \
            from a query must read as the same query; a query that fits the class must be answered, and its canonical \
            text must be a query again. Case number i has the seed S + i and is repeated by it alone. The exit status \
            is 1 if something fails.

            EXAMPLES
              anabranch-lab fuzz queries --seed 1 --count 1000000
              anabranch-lab fuzz queries --seed 4711 --count 1
              anabranch-lab fuzz queries --count 100000 --json | jq .failures
            """)

    @Option(help: "The seed of the first case.")
    var seed: UInt64 = 1

    @Option(help: "How many cases.")
    var count = 100_000

    @Option(help: "How many cases are run at a time.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    @Flag(help: "Print what was found as one JSON object.")
    var json = false

    private static let casesPerPiece = 1_000

    func validate() throws {
        guard count > 0 else { throw ValidationError("--count must be 1 or more.") }
        guard jobs > 0 else { throw ValidationError("--jobs must be 1 or more.") }
    }

    func run() async throws {
        let start = ContinuousClock.now, interruption = Interruption(), fuzz = try QueryFuzz()
        RunProgress.say("\(count) cases from seed \(seed) on, \(jobs) at a time; Ctrl-C ends with a summary")
        let pieces = (count - 1) / Self.casesPerPiece + 1
        let tally = try await QueryTally.sum(
            of: pieces, jobs: jobs, interval: RunProgress.interval, isStopped: { interruption.isAsked },
            onProgress: report
        ) { [seed, count] piece in
            let first = piece * Self.casesPerPiece
            var tally = QueryTally()
            for number in first..<min(first + Self.casesPerPiece, count) {
                let caseSeed = seed &+ UInt64(number)
                if let problem = try fuzz.problem(seed: caseSeed) {
                    tally.failures.append((caseSeed, problem))
                } else {
                    tally.passed += 1
                }
            }
            return tally
        }
        RunProgress.end()
        try printReport(tally, of: fuzz, after: ContinuousClock.now - start)
        if !tally.failures.isEmpty { throw ExitCode.failure }
        guard tally.passed < count else { return }
        RunProgress.say(
            "stopped after \(tally.passed) of \(count) cases; go on with --seed \(seed &+ UInt64(tally.passed)) "
                + "--count \(count - tally.passed)")
        throw ExitCode(Interruption.status)
    }

    private func printReport(_ tally: QueryTally, of fuzz: QueryFuzz, after elapsed: Duration) throws {
        let failures = tally.failures.sorted { $0.seed < $1.seed }
        if json {
            struct Report: Encodable {
                var passed: Int, failures: [UInt64], seconds: Double
            }
            let report = Report(passed: tally.passed, failures: failures.map(\.seed), seconds: elapsed.inSeconds)
            return print(try report.jsonLine())
        }
        for (seed, problem) in failures.prefix(10) {
            print(
                """
                FAILED: \(String(decoding: fuzz.text(seed: seed).prefix(2_000), as: UTF8.self))
                \(problem)
                repeat: anabranch-lab fuzz queries --seed \(seed) --count 1

                """)
        }
        print("\(tally.passed) passed, \(failures.count) failed")
    }

    private func report(_ tally: QueryTally, after elapsed: Duration) {
        let share = Double(tally.passed) / Double(count)
        RunProgress.report("\(tally.passed) of \(count) cases", share: share, after: elapsed)
    }
}

private struct QueryTally: RunTally {
    var passed = 0
    var failures: [(seed: UInt64, problem: String)] = []

    var hasFailed: Bool { failures.count >= 10 }

    mutating func add(_ other: QueryTally) {
        passed += other.passed
        failures += other.failures
    }
}

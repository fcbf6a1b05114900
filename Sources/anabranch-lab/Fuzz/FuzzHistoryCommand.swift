import AnabranchHistory
import AnabranchSimulation
import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct FuzzHistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "Prove that no client notices what a server forgets.",
        discussion: """
            At random: clients of one file, whose server seals its log, makes bootstrap generations and trims at \
            random moments, in some runs after each step. Every second pair of runs keeps what goes in an archive. \
            Run number i has the seed S + i.

            A run with an even seed has a twin, which keeps its log for ever and gets the same uploads. Clients that \
            go on get the same from both, byte for byte; both have one log, above where the other begins, which an \
            archive has below; and one state; clients that join later read it through generations.

            In a run with an odd seed clients that join later write as well, offline and in the middle of a \
            generation. All have the server's state in the end.

            EXAMPLES
              anabranch-lab fuzz history --seed 1 --count 2000
            """)

    @Option(help: "The seed of the first run.")
    var seed: UInt64 = 1

    @Option(help: "How many runs.")
    var count = 200

    @Option(help: "How many steps a run has.")
    var steps = 60

    @Option(help: "How many runs go on at a time.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    func validate() throws {
        guard count > 0 else { throw ValidationError("--count must be 1 or more.") }
        guard steps > 0 else { throw ValidationError("--steps must be 1 or more.") }
        guard jobs > 0 else { throw ValidationError("--jobs must be 1 or more.") }
    }

    func run() async throws {
        let interruption = Interruption()
        let tally = try await HistoryTally.sum(
            of: count, jobs: jobs, interval: RunProgress.interval, isStopped: { interruption.isAsked },
            onProgress: { [count] tally, elapsed in
                let done = tally.runs + tally.failures.count
                RunProgress.report("\(done) of \(count) runs", share: Double(done) / Double(count), after: elapsed)
            },
            piece: { [seed, steps] number in Self.piece(seed &+ UInt64(number), steps) })
        RunProgress.end()
        print(
            """
            \(tally.sealed) entries sealed, \(tally.generations) generations made, \(tally.dropped) dropped, \
            \(tally.trimmed) entries trimmed, \(tally.archived) archived, \(tally.generationDownloads) downloads out \
            of generations, \(tally.merges) uploads merged, \(tally.expired) client files expired, \
            \(tally.resets) clients began anew
            """)
        for failure in tally.failures.sorted(by: { $0.seed < $1.seed }) {
            print("FAILED: \(failure.reason)")
            print("repeat: anabranch-lab fuzz history --seed \(failure.seed) --count 1 --steps \(steps)")
        }
        print("\(tally.runs) passed, \(tally.failures.count) failed")
        if tally.hasFailed { throw ExitCode.failure }
        guard tally.runs < count else { return }
        RunProgress.say(
            "stopped after \(tally.runs) of \(count) runs; go on with --seed \(seed &+ UInt64(tally.runs)) "
                + "--count \(count - tally.runs)")
        throw ExitCode(Interruption.status)
    }

    private static func piece(_ seed: UInt64, _ steps: Int) -> HistoryTally {
        do {
            let run = try HistoryRun(seed: seed, store: InMemoryStore())
            try run.run(steps: steps)
            return run.tally
        } catch {
            var tally = HistoryTally()
            tally.failures = [(seed, "\(error)")]
            return tally
        }
    }
}

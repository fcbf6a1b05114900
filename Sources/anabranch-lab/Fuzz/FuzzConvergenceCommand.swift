import AnabranchCore
import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct FuzzConvergenceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "convergence",
        abstract: "Prove that replicas which write offline end in one state.",
        discussion: """
            At random: in each round some replicas make random modifications of every kind, go offline and come back, \
            with equal, exact, skewed or arbitrary clocks, around a server in memory. At the end all replicas, and a \
            newcomer that knows the server's log alone, must have one state. Round number i has the seed S + i and is \
            repeated by it alone. The first failure ends the run with exit status 1; it is shrunk and told step by \
            step, with the command that repeats it.

            Where the reference itself does not converge this engine does as the reference does. Those cases are \
            listed by --exclusions; transactions that would fall under one of them do not happen, and are counted.

            With --exhaustive: every pair of single instructions that are valid in about 200 small states, in both \
            orders of their tags. A table says how often each pair of kinds met and each merge rule had an effect; a \
            zero fails.

            EXAMPLES
              anabranch-lab fuzz convergence --rounds 20000 --seed 1
              anabranch-lab fuzz convergence --rounds 1000 --seed 1 --replicas 8 \\
                  --modifications 2000
              anabranch-lab fuzz convergence --exhaustive
              anabranch-lab fuzz convergence --exclusions
            """)

    @Option(help: "How many rounds.")
    var rounds = 1000

    @Option(help: "The seed of the first round.")
    var seed: UInt64 = 1

    @Option(help: "How many replicas, from 2 to 8.")
    var replicas = 4

    @Option(help: "How many modifications are made in a round, by all replicas together.")
    var modifications = 256

    @Option(help: "How many rounds are run at a time.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    @Flag(help: "Try all pairs of instructions in small states instead of random rounds.")
    var exhaustive = false

    @Flag(help: "List the known cases in which the reference does not converge.")
    var exclusions = false

    @Flag(help: "Print what was found as one JSON object.")
    var json = false

    func validate() throws {
        guard rounds > 0 else { throw ValidationError("--rounds must be 1 or more.") }
        guard (2...8).contains(replicas) else { throw ValidationError("--replicas must be from 2 to 8.") }
        guard modifications > 0 else { throw ValidationError("--modifications must be 1 or more.") }
        guard jobs > 0 else { throw ValidationError("--jobs must be 1 or more.") }
    }

    func run() async throws {
        if exclusions {
            for divergence in KnownDivergence.allCases { print("\(divergence.rawValue): \(divergence.summary)") }
        } else if exhaustive {
            try await checkStates()
        } else {
            try await runRounds()
        }
    }

    private func checkStates() async throws {
        let all = ExhaustiveStates.stateCount, interruption = Interruption()
        let report = try await ExhaustiveStates.check(
            jobs: jobs, interval: RunProgress.interval, isStopped: { interruption.isAsked }
        ) { report, elapsed in
            let share = Double(report.states) / Double(all)
            RunProgress.report("\(report.states) of \(all) states", share: share, after: elapsed)
        }
        RunProgress.end()
        if report.states < all {
            RunProgress.say("stopped after \(report.states) of \(all) states, \(report.failures) failures")
            throw ExitCode(Interruption.status)
        }
        if json {
            struct Found: Encodable {
                var states: Int, pairs: Int, failures: Int, isClean: Bool
            }
            let found = Found(
                states: report.states, pairs: report.pairs, failures: report.failures, isClean: report.isClean)
            print(try found.jsonLine())
        } else {
            print(report)
        }
        if !report.isClean { throw ExitCode.failure }
    }

    // MARK: Random rounds

    private func runRounds() async throws {
        let start = ContinuousClock.now, interruption = Interruption()
        RunProgress.say("\(rounds) rounds from seed \(seed) on, \(jobs) at a time; Ctrl-C ends with a summary")
        let tally = try await RoundTally.sum(
            of: rounds, jobs: jobs, interval: RunProgress.interval, isStopped: { interruption.isAsked },
            onProgress: report
        ) {
            [seed, replicas, modifications] number in
            let plan = RoundPlan(
                seed: seed &+ UInt64(number), replicas: replicas, modifications: modifications)
            let round = try ConvergenceRound(plan)
            let failure = round.run()
            var tally = round.tally
            if failure != nil { tally.failures = [plan.seed] }
            return tally
        }
        RunProgress.end()
        try printReport(tally, after: ContinuousClock.now - start)
        if let failed = tally.failures.min() {
            if !json { try describe(failed) }
            throw ExitCode.failure
        }
        guard tally.rounds < rounds else { return }
        RunProgress.say(
            "stopped after \(tally.rounds) of \(rounds) rounds; go on with --seed \(seed &+ UInt64(tally.rounds)) "
                + "--rounds \(rounds - tally.rounds)")
        throw ExitCode(Interruption.status)
    }

    private func report(_ tally: RoundTally, after elapsed: Duration) {
        let modifications = String(format: "%.2f million modifications", Double(tally.modifications) / 1e6)
        let share = Double(tally.rounds) / Double(rounds)
        RunProgress.report("\(tally.rounds) of \(rounds) rounds, \(modifications)", share: share, after: elapsed)
    }

    private func printReport(_ tally: RoundTally, after elapsed: Duration) throws {
        if json {
            struct Report: Encodable {
                var rounds: Int, replicas: Int, modifications: Int, changesets: Int, refused: Int
                var failures: [UInt64], avoided: [String: Int], seconds: Double
            }
            let avoided = Dictionary(uniqueKeysWithValues: tally.avoided.map { ($0.key.rawValue, $0.value) })
            let report = Report(
                rounds: tally.rounds, replicas: replicas, modifications: tally.modifications,
                changesets: tally.changesets, refused: tally.refused, failures: tally.failures.sorted(),
                avoided: avoided, seconds: elapsed.inSeconds)
            return print(try report.jsonLine())
        }
        for kind in InstructionKind.allCases {
            print(String(format: "%12ld ", tally.kinds[Int(kind.rawValue)]) + "\(kind)")
        }
        for divergence in KnownDivergence.allCases {
            let avoided = tally.avoided[divergence] ?? 0
            print(String(format: "%12ld ", avoided) + "transactions avoided: \(divergence.rawValue)")
        }
        let seconds = max(elapsed.inSeconds, 1e-9)
        print(
            """
            \(tally.rounds) rounds, \(replicas) replicas, \(tally.modifications) modifications in \(tally.changesets) \
            changesets, \(tally.refused) refused, \(tally.failures.count) divergences, \
            \(String(format: "%.1f s, %.0f modifications/s", seconds, Double(tally.modifications) / seconds))
            """)
    }

    private func describe(_ seed: UInt64) throws {
        let plan = RoundPlan(seed: seed, replicas: replicas, modifications: modifications)
        let smallest = plan.shrunk { ((try? ConvergenceRound($0))?.run() ?? nil) != nil }
        let round = try ConvergenceRound(smallest, printsTrace: true)
        let failure = round.run() ?? "it does not fail again"
        print("FAILED: the round with seed \(seed); shrunk to:")
        for line in round.trace { print("  \(line)") }
        print(failure)
        print(
            """
            repeat: anabranch-lab fuzz convergence --rounds 1 --seed \(seed) --replicas \(replicas) \
            --modifications \(modifications)
            """)
    }
}

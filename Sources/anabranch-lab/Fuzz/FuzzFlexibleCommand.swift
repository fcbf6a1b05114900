import AnabranchHistory
import AnabranchSimulation
import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct FuzzFlexibleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flexible",
        abstract: "Prove that clients of flexible sync have what they are to see.",
        discussion: """
            At random: four clients of one file, of releases from 12.0 to 14.14, with queries over every type of \
            property and with roles that forbid some of it. They write what they may and what they may not, change \
            their queries on and offline, lose connections and messages; their processes and the server end and \
            begin again, commits fail, the rules change, and the server writes itself and forgets what nobody needs \
            any more, also client files that were away for too long. Every message goes in its bytes. No client meets \
            anything that a real one would not survive, and whenever there is nothing more to be said to one it has \
            exactly the objects that its queries and its role let it see, as the server has them. After that another \
            world, without erasures: a client that sees everything has what it would have in partition-based sync. \
            Round number i has the seed S + i.

            EXAMPLES
              anabranch-lab fuzz flexible --seed 1 --count 20000
            """)

    @Option(help: "The seed of the first round.")
    var seed: UInt64 = 1

    @Option(help: "How many rounds.")
    var count = 1_000

    @Option(help: "How many steps a round has.")
    var steps = 100

    @Option(help: "How many rounds go on at a time.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    func validate() throws {
        guard count > 0 else { throw ValidationError("--count must be 1 or more.") }
        guard steps > 0 else { throw ValidationError("--steps must be 1 or more.") }
        guard jobs > 0 else { throw ValidationError("--jobs must be 1 or more.") }
    }

    func run() async throws {
        let interruption = Interruption()
        let tally = try await FlexibleTally.sum(
            of: count, jobs: jobs, interval: RunProgress.interval, isStopped: { interruption.isAsked },
            onProgress: { [count] tally, elapsed in
                let done = tally.rounds + tally.failures.count
                RunProgress.report("\(done) of \(count) rounds", share: Double(done) / Double(count), after: elapsed)
            },
            piece: { [seed, steps] number in Self.piece(seed &+ UInt64(number), steps) })
        RunProgress.end()
        print(
            """
            \(tally.uploads) uploads, \(tally.cutUploads) cut by the end of the server, \
            \(tally.refusedObjects) objects refused, \(tally.compensations) compensations \
            told, \(tally.queries) queries, \(tally.refusedQueries) refused, \(tally.bootstraps) bootstraps \
            with \(tally.parts) parts before the last, \(tally.interruptedBootstraps) interrupted, \
            \(tally.news) changes told unasked, \(tally.droppedNews) of them dropped, \(tally.failedCommits) commits \
            failed, \(tally.disconnections) connections lost, \(tally.restarts) restarts, \
            \(tally.ruleChanges) changes of rules, \(tally.trimmed) entries trimmed, \
            \(tally.expired) expired, \(tally.resets) began anew, \(tally.ingested) asymmetric objects taken in
            """)
        for failure in tally.failures.sorted(by: { $0.seed < $1.seed }) {
            print("FAILED: \(failure.reason)")
            print("repeat: anabranch-lab fuzz flexible --seed \(failure.seed) --count 1 --steps \(steps)")
        }
        print("\(tally.rounds) passed, \(tally.failures.count) failed")
        if tally.hasFailed { throw ExitCode.failure }
        guard tally.rounds < count else { return }
        RunProgress.say(
            "stopped after \(tally.rounds) of \(count) rounds; go on with --seed \(seed &+ UInt64(tally.rounds)) "
                + "--count \(count - tally.rounds)")
        throw ExitCode(Interruption.status)
    }

    private static func piece(_ seed: UInt64, _ steps: Int) -> FlexibleTally {
        do {
            let run = try FlexibleRun(seed: seed, store: InMemoryStore())
            try run.run(steps: steps)
            try FullViewRun.run(seed: seed, steps: steps)
            return run.tally
        } catch {
            var tally = FlexibleTally()
            tally.failures = [(seed, "\(error)")]
            return tally
        }
    }
}

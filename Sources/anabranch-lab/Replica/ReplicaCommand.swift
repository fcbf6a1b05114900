import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct ReplicaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replica", abstract: "Prove that a replica keeps what it is given.",
        subcommands: [ReplicaRandomCommand.self])
}

struct ReplicaRandomCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "random",
        abstract: "Prove that a replica in a file is what the same one in memory is.",
        discussion: """
            At random: a replica in a SQLite file and a twin in memory write, upload to a server in memory and \
            download from it what another client has written, in steady state or as bootstraps in parts; connections \
            are lost, the file is closed and opened again, subscriptions change or are refused, and client resets \
            replace both, with and without recovery. After each operation both have the same numbers, the same state \
            and the same to upload, and so has whoever reads the file from outside. In the end both have the server's \
            state, unless something was written that the reference itself merges in two ways. The operations are \
            divided into runs of --steps; run number i has the seed S + i.

            EXAMPLES
              anabranch-lab replica random --ops 20000 --seed 1
            """)

    @Option(help: "How many operations in all.")
    var ops = 10_000

    @Option(help: "The seed of the first run.")
    var seed: UInt64 = 1

    @Option(help: "How many operations a run has.")
    var steps = 100

    @Option(help: "How many runs go on at a time.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    func validate() throws {
        guard ops > 0, steps > 0, jobs > 0 else {
            throw ValidationError("--ops, --steps and --jobs must be 1 or more.")
        }
    }

    func run() async throws {
        let interruption = Interruption(), count = (ops + steps - 1) / steps
        let tally = try await ReplicaTally.sum(
            of: count, jobs: jobs, interval: RunProgress.interval, isStopped: { interruption.isAsked },
            onProgress: { tally, elapsed in
                let done = tally.runs + tally.failures.count
                RunProgress.report("\(done) of \(count) runs", share: Double(done) / Double(count), after: elapsed)
            },
            piece: { [seed, steps] number in Self.piece(seed &+ UInt64(number), steps) })
        RunProgress.end()
        print(
            """
            from seed \(seed): \(tally.operations) operations, \(tally.transactions) transactions, \(tally.uploads) \
            uploads, \(tally.merges) of them merged, \(tally.downloads) downloads, \(tally.bootstraps) bootstraps \
            with \(tally.parts) parts before the last, \(tally.reopened) times reopened, \(tally.resets) client resets \
            with \(tally.recovered) transactions made again, \(tally.converged) runs compared with the server
            """)
        for failure in tally.failures.sorted(by: { $0.seed < $1.seed }) {
            print("FAILED: seed \(failure.seed): \(failure.reason)")
            print("repeat: anabranch-lab replica random --ops \(steps) --steps \(steps) --seed \(failure.seed)")
        }
        print("\(tally.runs) passed, \(tally.failures.count) failed")
        if tally.hasFailed { throw ExitCode.failure }
        guard tally.runs < count else { return }
        RunProgress.say(
            "stopped after \(tally.runs) of \(count) runs; go on with --seed \(seed &+ UInt64(tally.runs)) "
                + "--ops \((count - tally.runs) * steps) --steps \(steps)")
        throw ExitCode(Interruption.status)
    }

    private static func piece(_ seed: UInt64, _ steps: Int) -> ReplicaTally {
        let folder = URL(fileURLWithPath: TestFolder.parent)
            .appendingPathComponent("anabranch-replica-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            var run = try ReplicaRun(seed: seed, in: folder)
            try run.run(steps)
            return run.tally
        } catch {
            var tally = ReplicaTally()
            tally.failures = [(seed, "\(error)")]
            return tally
        }
    }
}

import AnabranchSimulation
import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct SimulateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Prove the promises over a whole world: server, store, network and clients, in virtual time.",
        discussion: """
            Each seed is a world of its own: a server's machine with its store, and 2 to 10 replicas, by partition or \
            of flexible sync, in one thread and on clocks that go on only when it says so. Connections are cut in the \
            middle of messages, half open and clogged; processes end at any call of a store; disks fail, are full, and \
            fail although they have done their work; backups are restored, files copied, clocks set; rights, roles, \
            queries and schemas change; histories are sealed, forgotten and expire; and somebody sends anything they \
            like. The clocks of devices are wrong by up to 100 years, make steps and stand still. What has to hold at \
            any time is looked at all the time (Spec/Durability.md, P1 to P8; Spec/History.md, section 6.2). Then \
            nothing goes wrong any more, all come to have the same, and of two who write one value without knowing \
            of each other, the later one wins.

            Run number i has the seed S + i; each is run twice, and has to be the same both times. The number after \
            `trace` is the same in every run of the same seeds, on every machine, also with \
            SWIFT_DETERMINISTIC_HASHING=1. A run of 200 seeds or more fails if something that can go wrong, or a code \
            of an error, has hardly ever come up: then it would prove nothing.

            With --faults nothing goes wrong but what is named, in each world; clients count their writes, and \
            in the end those compete in each of them. Names: \(SimulationPlan.Fault.names).

            With --nodes 2 or 3, so many machines serve one store in memory (Spec/Nodes.md). Clients come back to \
            any of them; each is killed, or stopped for a while and goes on as if nothing had happened; the news of \
            what one has written is late or lost. Besides, a client that asks whether it has everything has to have \
            what there was when it asked, and none may start over because it has changed nodes.

            With --record one world goes into a file, with its clients, messages, faults, merges and end, and with \
            --play a page in the browser shows it, at a link that begins the same world again for whoever has the \
            command (Spec/Inspector.md, section 8).

            EXAMPLES
              anabranch-lab simulate --seed 1 --count 200
              anabranch-lab simulate --seed 4711 --verbose
              anabranch-lab simulate --seed 7 --record world.jsonl
              anabranch-lab simulate --seed 7 --play
              anabranch-lab simulate --faults clientClock --count 20000 --once
              anabranch-lab simulate --nodes 3 --count 200
            """)

    @Option(help: "The seed of the first run.")
    var seed: UInt64 = 1

    @Option(help: "How many seeds.")
    var count = 1

    @Option(
        help: ArgumentHelp("What alone goes wrong, separated by commas.", valueName: "names"),
        transform: SimulationPlan.Fault.named)
    var faults: Set<SimulationPlan.Fault>?

    @Option(help: "How many machines have a store in common, 1 to 3.")
    var nodes = 1

    @Option(help: "How many runs go on at a time.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    @Flag(help: "Run each seed once.")
    var once = false

    @Flag(help: "Print what happens; with one seed.")
    var verbose = false

    @Option(help: ArgumentHelp("Record one seed in this file; - for the standard output.", valueName: "file"))
    var record: String?

    @Flag(help: "Show one seed in a page, and serve it until the command is interrupted.")
    var play = false

    func validate() throws {
        guard count > 0 else { throw ValidationError("--count must be 1 or more.") }
        guard jobs > 0 else { throw ValidationError("--jobs must be 1 or more.") }
        guard 1...3 ~= nodes else { throw ValidationError("--nodes must be 1, 2 or 3.") }
        guard nodes == 1 || record == nil && !play else {
            throw ValidationError("--record and --play show one machine.")
        }
        guard !verbose || count == 1 else { throw ValidationError("--verbose is for one seed.") }
        guard count == 1 || record == nil && !play else {
            throw ValidationError("--record and --play are for one seed.")
        }
        guard [verbose, record != nil, play].count(where: { $0 }) <= 1 else {
            throw ValidationError("--verbose, --record and --play go one at a time.")
        }
    }

    /// The options that, with the same seeds, give the same worlds.
    private var limitation: String {
        let faults = faults.map { " --faults " + $0.map(\.rawValue).sorted().joined(separator: ",") } ?? ""
        return nodes > 1 ? " --nodes \(nodes)" + faults : faults
    }

    private func printTrace() throws {
        let simulation = try Simulation(seed: seed, faults: faults, nodeCount: nodes)
        simulation.printTrace = { print($0) }
        do { try simulation.run() } catch {
            print("FAILED: \(error)")
            throw ExitCode.failure
        }
        print("1 passed, 0 failed")
    }

    private func recordWorld(in path: String) throws {
        let (bytes, failure) = try Simulation.recording(of: seed, faults: faults)
        let file = try OutputFile(path)
        try file.write(Data(bytes))
        try file.finish()
        guard let failure else { return }
        RunProgress.say("FAILED: \(failure)")
        throw ExitCode.failure
    }

    func run() async throws {
        if verbose { return try printTrace() }
        if let record { return try recordWorld(in: record) }
        if play { return try await WorldPlayer(seed: seed, faults: faults).run() }
        let interruption = Interruption()
        if count == 1 { print(try Simulation(seed: seed, faults: faults, nodeCount: nodes).plan) }
        let tally = try await SimulationTally.sum(
            of: count, jobs: jobs, interval: RunProgress.interval, isStopped: { interruption.isAsked },
            onProgress: { [count] tally, elapsed in
                let done = tally.passed + tally.failures.count
                RunProgress.report("\(done) of \(count) seeds", share: Double(done) / Double(count), after: elapsed)
            },
            piece: { [seed, faults, nodes, once] number in
                Simulation.tally(of: seed &+ UInt64(number), faults: faults, nodeCount: nodes, twice: !once)
            })
        RunProgress.end()
        print(tally.marks.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
        for failure in tally.failures.sorted(by: { $0.seed < $1.seed }) {
            print("FAILED: \(failure.reason)")
            print("  \(failure.plan)")
            print("repeat: anabranch-lab simulate --seed \(failure.seed)\(limitation)")
        }
        let missing = count >= 200 && !tally.hasFailed ? tally.missing(faults, nodeCount: nodes) : []
        if !missing.isEmpty { print("FAILED: hardly ever happened: \(missing.joined(separator: ", "))") }
        print("trace \(String(tally.trace, radix: 16))")
        print("\(tally.passed) passed, \(tally.failures.count) failed")
        if !tally.failures.isEmpty || !missing.isEmpty { throw ExitCode.failure }
        guard tally.passed < count else { return }
        RunProgress.say(
            "stopped after \(tally.passed) of \(count) seeds; go on with --seed \(seed &+ UInt64(tally.passed)) "
                + "--count \(count - tally.passed)\(limitation)")
        throw ExitCode(Interruption.status)
    }
}

extension SimulationPlan.Fault {
    fileprivate static let names = allCases.map(\.rawValue).sorted().joined(separator: ", ")

    fileprivate static func named(_ list: String) throws -> Set<Self> {
        try named(list.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
    }

    static func named(_ list: [String]) throws -> Set<Self> {
        let faults = try list.map { name in
            guard let fault = Self(rawValue: name) else {
                throw ValidationError("There is no fault '\(name)'. The faults are \(names).")
            }
            return fault
        }
        return Set(faults)
    }
}

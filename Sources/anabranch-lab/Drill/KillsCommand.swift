import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation
import NIOCore
import NIOPosix
import Synchronization

struct KillsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kills",
        abstract: "Kill servers again and again while they maintain their files, and see whether anything is lost.",
        discussion: """
            Clients of two files write, report progress, break off and come back, while the server seals their logs, \
            makes bootstrap generations and trims after every few changes, and frees space when it is asked to. At a \
            random moment the server gets SIGKILL. `anabranch verify` has to find no damage, and the next server \
            starts on the same data. After --cycles of them all clients come back: none may be told to reset or be \
            given what would make a real client close its session, and all clients of a file, a new one among them, \
            have to have one state, with all that was acknowledged. In the runs with even seeds what goes from the \
            logs is archived, and both together have to have all versions.

            Run number i has the seed S + i, which determines what the clients do; when they do it, and what the \
            server is killed at, is different each time. The exit status is 1 if a run fails.

            EXAMPLE
              anabranch-lab kills --serve .build/release/anabranch --seed 1 --count 20 \\
                  --cycles 25
            """)

    @OptionGroup var program: ServedProgram

    @Option(help: "The seed of the first run.")
    var seed: UInt64 = 1

    @Option(help: "How many runs there are, each with data of its own.")
    var count = 4

    @Option(help: "How often a server is killed in each.")
    var cycles = 25

    func validate() throws {
        guard count > 0, cycles > 0 else { throw ValidationError("--count and --cycles must be 1 or more.") }
    }

    func run() async throws {
        let serve = try program.path()
        let eventLoops = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-kills-\(UInt32.random(in: 0 ... .max))")
        defer { try? FileManager.default.removeItem(at: directory) }
        let isStopped = Atomic(false), start = ContinuousClock.now
        let signals = EndingSignals {
            isStopped.store(true, ordering: .relaxed)
        } cleanUp: {
            try? FileManager.default.removeItem(at: directory)
        }
        defer { signals.cancel() }
        var passed = 0, failed = 0, killed = 0
        for number in 0..<count where !isStopped.load(ordering: .relaxed) {
            let seed = seed &+ UInt64(number)
            do {
                let place = directory.appendingPathComponent("\(number)")
                try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
                try await KilledServers(seed, binary: serve, in: place, on: eventLoops.next()).run(cycles)
                (passed, killed) = (passed + 1, killed + cycles)
            } catch {
                failed += 1
                RunProgress.end()
                print("FAILED: \(error)")
                print("repeat: anabranch-lab kills --serve \(serve) --count 1 --cycles \(cycles) --seed \(seed)")
            }
            RunProgress.report(
                "\(number + 1) of \(count) runs", share: Double(number + 1) / Double(count), after: .now - start)
        }
        RunProgress.end()
        try await eventLoops.shutdownGracefully()
        print("\(killed) servers killed")
        print("\(passed) passed, \(failed) failed")
        if failed > 0 { throw ExitCode.failure }
        if isStopped.load(ordering: .relaxed) { throw ExitCode(Interruption.status) }
    }
}

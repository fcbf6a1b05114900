import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation
import NIOCore
import NIOPosix
import Synchronization

struct DrillCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drill",
        abstract: "Back up servers under load, lose them, restore the backups, and see what clients notice.",
        discussion: """
            In each drill 16 clients of four files write, report progress, break off and come back, while \
            `anabranch backup --verify` copies the server's data, often followed by one or two incremental backups, of \
            which the last one counts. They go on, some leave, new ones come, and the \
            server is killed. `anabranch restore --from` makes data of the backup, `anabranch verify` has to find no \
            damage, and a server is started on them. Then all clients come back. Each has to go on, or to be told to \
            reset (208 to 211, 222); none may be given what would make a real client close its session, and after \
            more work all clients of a file have to have one state. Some backups are restored twice, and \
            in half of the drills the servers maintain their files after each few changes.

            Drill number i has the seed S + i, which determines what the clients do; when they do it is different \
            each time. The exit status is 1 if a drill fails.

            EXAMPLES
              anabranch-lab drill --serve .build/release/anabranch --seed 1 --count 20
              anabranch-lab drill --serve .build/release/anabranch --seed 17 --count 1
            """)

    @OptionGroup var program: ServedProgram

    @Option(help: "The seed of the first drill.")
    var seed: UInt64 = 1

    @Option(help: "How many drills there are.")
    var count = 20

    @Option(help: "How many servers run at a time.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    func validate() throws {
        guard count > 0, jobs > 0 else { throw ValidationError("--count and --jobs must be 1 or more.") }
    }

    func run() async throws {
        let serve = try program.path()
        let eventLoops = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-drill-\(UInt32.random(in: 0 ... .max))")
        defer { try? FileManager.default.removeItem(at: directory) }
        let isStopped = Atomic(false), done = Atomic(0), start = ContinuousClock.now
        let signals = EndingSignals {
            isStopped.store(true, ordering: .relaxed)
            RunProgress.say("waiting for the drills that have begun; Ctrl-C again ends them at once")
        } cleanUp: {
            try? FileManager.default.removeItem(at: directory)
        }
        defer { signals.cancel() }
        let results = try await concurrentMap(0..<count, limit: jobs) { [serve, seed, count] number -> Drill.Result? in
            if isStopped.load(ordering: .relaxed) { return nil }
            let place = directory.appendingPathComponent("\(number)")
            let drill = Drill(seed: seed &+ UInt64(number), binary: serve, directory: place, on: eventLoops.next())
            let result = await drill.run()
            let finished = done.wrappingAdd(1, ordering: .relaxed).newValue
            RunProgress.report(
                "\(finished) of \(count) drills", share: Double(finished) / Double(count), after: .now - start)
            return result
        }.compactMap(\.self)
        RunProgress.end()
        try await eventLoops.shutdownGracefully()
        print(Self.report(results, binary: serve))
        if results.contains(where: { $0.problem != nil }) { throw ExitCode.failure }
        if results.count < count {
            RunProgress.say("stopped after \(results.count) of \(count) drills")
            throw ExitCode(Interruption.status)
        }
    }

    static func report(_ results: [Drill.Result], binary: String) -> String {
        var lines: [String] = [], refused: [Int: Int] = [:]
        for result in results {
            refused.merge(result.refused, uniquingKeysWith: +)
            guard let problem = result.problem else { continue }
            lines += [
                "FAILED: \(problem)",
                "repeat: anabranch-lab drill --serve \(binary) --count 1 --seed \(result.seed)", "",
            ]
        }
        let codes = refused.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value) times" }
        lines.append("\(results.reduce(0) { $0 + $1.wentOn }) clients went on")
        lines.append(
            "\(refused.values.reduce(0, +)) clients were told to reset"
                + (codes.isEmpty ? "" : ": \(codes.joined(separator: ", "))"))
        let increments = results.reduce(0) { $0 + $1.incrementCount }
        lines.append("\(results.count) whole backups, \(increments) incremental ones")
        let failed = results.count { $0.problem != nil }
        lines.append("\(results.count - failed) passed, \(failed) failed")
        return lines.joined(separator: "\n")
    }
}

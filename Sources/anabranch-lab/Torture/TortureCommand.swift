import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation
import Synchronization

struct TortureCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "torture",
        abstract: "Kill a server and its replicas, and see whether anything is lost or happens twice.",
        discussion: """
            Starts `anabranch serve --dev` and --clients processes, each with a replica that writes at random and now \
            and then has no connection. Server and replicas get SIGKILL at random moments, some after a SIGSTOP of up \
            to 1.5 s, and begin again on what they have on their disks. Behind --seconds, or when --cycles processes \
            have been killed, all come to rest. Then all replicas must have one state; everything \
            that a replica has committed must be in it; and a counter that every transaction adds one to must be as \
            high as there are transactions. There is a run with a partition and one with subscriptions.

            The seed determines what is written and how long processes live; when the system does what is different \
            each time. The exit status is 1 if a run fails, and its files stay.

            EXAMPLE
              anabranch-lab torture --clients 8 --seconds 60 --seed 1
              anabranch-lab torture --clients 8 --cycles 500 --seed 1
            """)

    enum Mode: String, CaseIterable, ExpressibleByArgument { case partition, flexible, both }

    @OptionGroup var program: ServedProgram

    @Option(help: "How many replicas there are.")
    var clients = 8

    @Option(help: "How long they write in each run; without end if --cycles is given.")
    var seconds: Int?

    @Option(help: "How many processes are killed in each run.")
    var cycles: Int?

    @Option(help: "Decides what is written, and how long processes live.")
    var seed: UInt64 = 1

    @Option(help: "How long a replica lives before it is killed, in milliseconds at most.")
    var life = 4_000

    @Option(help: "How they sync.")
    var mode = Mode.both

    func validate() throws {
        guard clients > 0, seconds ?? 1 > 0, cycles ?? 1 > 0, life > 0 else {
            throw ValidationError("--clients, --seconds, --cycles and --life must be 1 or more.")
        }
    }

    func run() async throws {
        let serve = try program.path()
        let length = seconds.map { " --seconds \($0)" } ?? cycles.map { " --cycles \($0)" } ?? ""
        let modes = mode == .both ? [Mode.partition, .flexible] : [mode]
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-torture-\(UInt32.random(in: 0 ... .max))")
        var passed = 0, failed = 0
        for mode in modes {
            let place = directory.appendingPathComponent(mode.rawValue)
            try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
            let torture = Torture(
                seed, clients: clients, seconds: seconds ?? (cycles == nil ? 60 : Int(Int32.max)), cycles: cycles,
                isFlexible: mode == .flexible, life: life, serve: serve, in: place)
            do {
                print("\(mode.rawValue): \(try await torture.run())")
                passed += 1
                try? FileManager.default.removeItem(at: place)
            } catch {
                failed += 1
                RunProgress.end()
                print("FAILED, \(mode.rawValue): \(error)")
                print(
                    "repeat: anabranch-lab torture --clients \(clients)\(length) --seed \(seed) "
                        + "--life \(life) --mode \(mode.rawValue) --serve \(serve)")
                print("what it left: \(place.path)")
            }
        }
        if failed == 0 { try? FileManager.default.removeItem(at: directory) }
        print("\(passed) passed, \(failed) failed")
        if failed > 0 { throw ExitCode.failure }
    }
}

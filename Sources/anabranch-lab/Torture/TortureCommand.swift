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
            to 1.5 s, and begin again on what they have on their disks. After --seconds, or when --cycles processes \
            have been killed, all come to rest. Then all replicas must have one state; everything \
            that a replica has committed must be in it; and a counter that every transaction adds one to must be as \
            high as there are transactions. There is a run with a partition and one with subscriptions.

            With --store, --nodes servers share that database (Spec/Nodes.md), which has to be new: what an earlier \
            run has left would be taken for this one's. Each server is killed and stopped by itself, and a replica \
            comes to any of them in each of its lives.

            The seed determines what is written and how long processes live; when the system does what is different \
            each time. The exit status is 1 if a run fails, and its files stay.

            EXAMPLE
              anabranch-lab torture --clients 8 --seconds 60 --seed 1
              anabranch-lab torture --clients 8 --cycles 500 --seed 1
              anabranch-lab torture --nodes 3 --cycles 500 \\
                  --store postgres://anabranch@db.example.com/torture
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

    @Option(help: ArgumentHelp("The new PostgreSQL database that all servers share.", valueName: "postgres-url"))
    var store: String?

    @Option(help: "With --store: how many servers there are.")
    var nodes = 1

    func validate() throws {
        guard nodes == 1 || store != nil, (1...64).contains(nodes) else {
            throw ValidationError("--nodes is 1 to 64, and more than 1 only with --store.")
        }
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
            let servers = try (0..<nodes).map { try server($0, serve, in: place) }
            let torture = Torture(
                seed, clients: clients, seconds: seconds ?? (cycles == nil ? 60 : Int(Int32.max)), cycles: cycles,
                isFlexible: mode == .flexible, life: life, servers: servers, in: place)
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
                        + "--life \(life) --mode \(mode.rawValue) --serve \(serve)"
                        + (store.map { " --nodes \(nodes) --store '\($0)'" } ?? ""))
                print("what it left: \(place.path)")
            }
        }
        if failed == 0 { try? FileManager.default.removeItem(at: directory) }
        print("\(passed) passed, \(failed) failed")
        if failed > 0 { throw ExitCode.failure }
    }

    private func server(_ number: Int, _ serve: String, in place: URL) throws -> TortureServer {
        let folder = nodes == 1 ? place : place.appendingPathComponent("server-\(number)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return TortureServer(serve, store.map { ["--store", $0, "--shared"] } ?? [], in: folder)
    }
}

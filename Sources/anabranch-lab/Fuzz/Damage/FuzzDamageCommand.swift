import AnabranchTestClient
import ArgumentParser
import CommandSupport
import Foundation
import NIOCore
import NIOPosix
import Synchronization

struct FuzzDamageCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "damage",
        abstract: "Flip bits of a server's store, and see what its clients are given.",
        discussion: """
            Writes a store through a server: a few files with logs, clients that have left, and changes that were \
            merged; of every second file the older entries are sealed. Then, for each case, one bit anywhere in the \
            databases or the manifest of a copy is turned into the other one, a server is started on it, and of each \
            file four clients come: one that reads everything, two that were away and bring a change, and one that \
            reads everything again. Changeset by changeset they have to be given what a server without damage gives \
            them, or be told an error: not other bytes, not fewer as if they were all, and no reset, which costs users \
            data. The server must not end by itself, nor take longer than a minute.

            Case number i has the seed S + i. The store is written anew each time with other times and salts, so a \
            seed stands for the same bit of a store that is not quite the same; --keep keeps those that failed. The \
            exit status is 1 if something fails.

            EXAMPLES
              anabranch-lab fuzz damage --serve .build/release/anabranch --count 1000 \\
                  --seed 1
              anabranch-lab fuzz damage --serve .build/release/anabranch --count 1000 \\
                  --keep failed
            """)

    @OptionGroup var program: ServedProgram

    @Option(help: "The seed of the first case.")
    var seed: UInt64 = 1

    @Option(help: "How many bits are flipped, one at a time.")
    var count = 200

    @Option(help: "How many files the store has.")
    var files = 4

    @Option(help: "How many changesets each file has.")
    var changesets = 200

    @Option(help: "How many servers run at a time.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    @Option(help: ArgumentHelp("Keep the data directories of cases that fail here.", valueName: "dir"))
    var keep: String?

    @Flag(help: "Print what was found as one JSON object.")
    var json = false

    func validate() throws {
        guard count > 0, files > 0, jobs > 0, changesets > 1 else {
            throw ValidationError("--changesets must be 2 or more, all others 1 or more.")
        }
    }

    func run() async throws {
        let serve = try program.path(), eventLoops = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-damage-\(UInt32.random(in: 0 ... .max))")
        defer { try? FileManager.default.removeItem(at: directory) }
        let isStopped = Atomic(false), start = ContinuousClock.now
        let signals = EndingSignals {
            isStopped.store(true, ordering: .relaxed)
            RunProgress.say("waiting for the servers that are being read; Ctrl-C again ends them at once")
        } cleanUp: {
            try? FileManager.default.removeItem(at: directory)
        }
        defer { signals.cancel() }
        let store = try await writeStore(to: directory, with: serve, on: eventLoops)
        let done = Atomic(0)
        let keeps = keep.map { URL(fileURLWithPath: $0) }
        let places = try await concurrentMap(0..<count, limit: jobs) { [serve, seed, count] number -> DamagedPlace? in
            if isStopped.load(ordering: .relaxed) { return nil }
            let place = try await DamagedPlace(
                seed: seed &+ UInt64(number), store: store, binary: serve, on: eventLoops.next(), keeps: keeps)
            let finished = done.wrappingAdd(1, ordering: .relaxed).newValue
            RunProgress.report(
                "\(finished) of \(count) bits", share: Double(finished) / Double(count), after: .now - start)
            return place
        }.compactMap(\.self)
        RunProgress.end()
        try await eventLoops.shutdownGracefully()
        let report = DamageReport(places, command: "anabranch-lab fuzz damage --serve \(serve) --count 1")
        print(json ? try report.jsonLine() : report.text)
        if !report.failures.isEmpty { throw ExitCode.failure }
        if places.count < count {
            RunProgress.say("stopped after \(places.count) of \(count) bits")
            throw ExitCode(Interruption.status)
        }
    }

    /// Writes the store and reads it twice, each time from a copy.
    private func writeStore(
        to directory: URL, with serve: String, on eventLoops: MultiThreadedEventLoopGroup
    ) async throws -> IntactStore {
        let server = try await ServerUnderLoad.start(serve)
        defer { server.kill() }
        let history = StoreHistory(target: try SyncTarget(url: server.url), eventLoop: eventLoops.next())
        let files = try await history.write(files: files, changesets: changesets)
        await server.end()
        guard let data = server.place.dataDirectory else { throw LoadError("the server has no data directory") }
        try FileManager.default.copyItem(atPath: data, toPath: directory.path)
        try StoreHistory.seal(directory.path)
        var all: [[StoreReading]] = []
        for _ in 0..<2 {
            let copy = try await ServerUnderLoad.start(serve) { copy in
                try FileManager.default.copyItem(at: directory, to: copy)
            }
            defer { copy.kill() }
            let (readings, problem) = try await DamagedPlace.read(files, from: copy, on: eventLoops.next())
            if let problem = problem ?? readings.compactMap(\.refusal).first?.description {
                throw LoadError("a store without damage is not served: \(problem)")
            }
            all.append(readings)
        }
        for (one, other) in zip(all[0], all[1]) {
            if let problem = one.problem(expected: other) {
                throw LoadError("a store without damage is not served twice in the same way: \(problem)")
            }
        }
        return IntactStore(directory: directory, files: files, readings: all[0])
    }
}

/// The findings, for people and for programs.
struct DamageReport: Encodable {
    struct Failure: Encodable {
        var seed: UInt64
        var place: String
        var problem: String
    }

    var bits = 0
    var served = 0
    var oneFileRefused = 0
    var someFilesRefused = 0
    var allFilesRefused = 0
    var serverRefused = 0
    /// The number of files by the error that their clients got.
    var refusals: [String: Int] = [:]
    var failures: [Failure] = []
    private let command: String

    private enum CodingKeys: String, CodingKey {
        case bits, served, oneFileRefused, someFilesRefused, allFilesRefused, serverRefused, refusals, failures
    }

    /// - Parameter command: the command that repeats a case, given its seed.
    init(_ places: [DamagedPlace], command: String) {
        self.command = command
        bits = places.count
        for place in places {
            for (code, count) in place.refusals { refusals["\(code)", default: 0] += count }
            switch place.outcome {
            case .served: served += 1
            case .oneFileRefused: oneFileRefused += 1
            case .someFilesRefused: someFilesRefused += 1
            case .allFilesRefused: allFilesRefused += 1
            case .serverRefused: serverRefused += 1
            case .failed(let problem):
                failures.append(Failure(seed: place.seed, place: "\(place.flip)", problem: problem))
            }
        }
    }

    var text: String {
        var lines = failures.map { failure in
            """
            FAILED: \(failure.place): \(failure.problem)
            repeat: \(command) --seed \(failure.seed)

            """
        }
        lines += [
            "\(served) served as if nothing had happened",
            "\(oneFileRefused) one file refused, the others served",
            "\(someFilesRefused) some files refused, the others served",
            "\(allFilesRefused) all files refused",
            "\(serverRefused) the server does not start",
        ]
        let codes = refusals.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value) times" }
        if !codes.isEmpty { lines.append("errors told: \(codes.joined(separator: ", "))") }
        lines.append("\(bits - failures.count) passed, \(failures.count) failed")
        return lines.joined(separator: "\n")
    }
}

import AnabranchCore
import AnabranchTesting
import Foundation
import Synchronization

/// One run: a server in a process of its own, clients in this one, and everything that happens to both.
final class Soak: Sendable {
    private let seconds: Int
    private let rate: Int
    private let seed: UInt64
    private let directory: URL
    private let server: TortureServer
    private let program: ServerCommand
    private let clientCount: Int
    private let counts = Mutex<[String: Int]>([:])
    private let series = Mutex<[SoakSeries]>([
        SoakSeries("server RSS", unit: "MiB"), SoakSeries("server files", unit: "open"),
        SoakSeries("server data", unit: "MiB"), SoakSeries("clients RSS", unit: "MiB"),
        SoakSeries("clients files", unit: "open"), SoakSeries("replicas", unit: "MiB"),
    ])
    /// The number of restarts, the same in each third of the time.
    private static let restarts = 12

    init(seconds: Int, clients: Int, rate: Int, seed: UInt64, serve: String, in directory: URL) {
        (self.seconds, self.rate, self.seed, self.directory) = (seconds, rate, seed, directory)
        clientCount = clients
        program = ServerCommand(binary: serve)
        // With these settings, what otherwise takes hours or days takes a few minutes.
        server = TortureServer(
            serve, ["--history-seal-entries", "200", "--history-generation-bytes", "200000"], in: directory)
    }

    func run() async throws -> SoakReport {
        defer { server.kill() }
        let url = try await server.start(), start = ContinuousClock.now, end = start + .seconds(seconds)
        let clients = (0..<clientCount).map {
            SoakClient($0, isFlexible: $0.isMultiple(of: 2), url: url, in: directory, seed: seed)
        }
        for client in clients { try await client.begin() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.write(clients, until: end) }
            group.addTask { try await self.sample(from: start, until: end) }
            group.addTask { try await self.operate(until: end) }
            group.addTask { try await self.renew(clients, until: end) }
            while try await group.next() != nil {}
        }
        return SoakReport(
            series: series.withLock { $0 }, seconds: Double(seconds),
            counts: counts.withLock { $0.sorted { $0.key < $1.key } }.map { ($0.key, $0.value) },
            divergedClients: try await divergedClients(clients))
    }

    private func count(_ what: String) { counts.withLock { $0[what, default: 0] += 1 } }

    private func wait(_ time: Duration, until end: ContinuousClock.Instant) async throws {
        let now = ContinuousClock.now
        if now < end { try await Task.sleep(for: min(time, end - now)) }
    }

    // MARK: Operations

    private func write(_ clients: [SoakClient], until end: ContinuousClock.Instant) async throws {
        var random = SeededRandom(scrambling: seed)
        var next = ContinuousClock.now
        while ContinuousClock.now < end {
            try await random.pick(clients).write()
            count("transactions")
            next = max(next + .seconds(1) / rate, .now - .seconds(1))
            if next > .now { try await Task.sleep(until: next, clock: .continuous) }
        }
    }

    /// Has one client after another start over.
    private func renew(_ clients: [SoakClient], until end: ContinuousClock.Instant) async throws {
        var random = SeededRandom(scrambling: ~seed)
        while true {
            try await wait(.seconds(max(5, seconds / 120)), until: end)
            guard ContinuousClock.now < end - .seconds(5) else { return }
            let client = random.pick(clients)
            let ident = try await client.leave()
            if let ident { try? await admin(["expire", await client.file, "\(ident)"]) }
            try await client.begin()
            count("clients begun anew")
        }
    }

    /// Runs maintenance, makes a backup, and restarts the server.
    private func operate(until end: ContinuousClock.Instant) async throws {
        let backup = directory.appendingPathComponent("backup")
        for number in 1...Self.restarts {
            try await wait(.seconds(seconds) / Self.restarts / 2, until: end)
            try await admin(["maintain"])
            count("rounds of maintenance")
            try? FileManager.default.removeItem(at: backup)
            try await program.run(["backup", "--data", server.data, "--to", backup.path])
            count("backups")
            try await wait(.seconds(seconds) / Self.restarts / 2, until: end)
            guard ContinuousClock.now < end else { return }
            server.end(with: number.isMultiple(of: 2) ? SIGTERM : SIGKILL)
            _ = try await server.start()
            count("restarts")
        }
    }

    private func admin(_ arguments: [String]) async throws {
        try await program.run(["admin"] + arguments.prefix(1) + ["--data", server.data] + arguments.dropFirst())
    }

    // MARK: Measurements

    private func sample(from start: ContinuousClock.Instant, until end: ContinuousClock.Instant) async throws {
        while ContinuousClock.now < end {
            let second = start.duration(to: .now) / .seconds(1)
            if Int(second).isMultiple(of: 5) {
                RunProgress.report("soak", share: second / Double(seconds), after: .seconds(Int(second)))
            }
            let clients = try ProcessSnapshot(of: getpid())
            // There may be no server at the moment.
            let server = self.server.processIdentifier.flatMap { try? ProcessSnapshot(of: $0) }
            let values: [Double?] = [
                server.map { Self.mib($0.residentBytes) }, server.map { Double($0.descriptorCount) },
                Self.mib(Self.size(of: self.server.data)), Self.mib(clients.residentBytes),
                Double(clients.descriptorCount), Self.mib(Self.size(of: directory.path, prefix: "replica-")),
            ]
            series.withLock { series in
                for (index, value) in values.enumerated() { if let value { series[index].add(value, at: second) } }
            }
            try await wait(.seconds(1), until: end)
        }
    }

    private static func mib(_ bytes: Int) -> Double { Double(bytes) / 1_048_576 }

    /// The size of the files of a folder whose names begin with `prefix`, in bytes.
    private static func size(of folder: String, prefix: String = "") -> Int {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasPrefix(prefix) }.reduce(0) { sum, name in
            let attributes = try? FileManager.default.attributesOfItem(atPath: folder + "/" + name)
            return sum + (attributes?[.size] as? Int ?? 0)
        }
    }

    /// The clients whose state differs from that of the others of their file.
    private func divergedClients(_ clients: [SoakClient]) async throws -> [String] {
        for client in clients { try await client.finishUpload() }
        var digests: [Bool: StateDigest] = [:], divergedClients: [String] = []
        for client in clients {
            guard let digest = try await client.digest() else { continue }
            let expected = digests[client.isFlexible] ?? digest
            digests[client.isFlexible] = expected
            if digest != expected { divergedClients.append("client \(client.number) has another state") }
        }
        return divergedClients
    }
}

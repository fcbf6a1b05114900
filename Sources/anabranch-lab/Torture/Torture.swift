import AnabranchTesting
import Foundation
import Synchronization

/// One run: a server, or several over one store, and replicas in processes of their own.
final class Torture: Sendable {
    /// The longest life of a server before it is killed, in milliseconds.
    private static let serverLifeMax = 4_000
    /// The longest time that a process is stopped, in milliseconds: one in `stoppedOneIn` is.
    private static let stopMax = 1_500
    private static let stoppedOneIn = 3
    /// The time that the last processes may take to come to rest, in seconds.
    private static let restPatience = 120

    private let seed: UInt64
    private let clients: Int
    private let seconds: Int
    private let cycles: Int?
    private let isFlexible: Bool
    /// The life of a replica before it is killed, in milliseconds.
    private let life: Int
    private let servers: [TortureServer]
    private let directory: URL
    private let killed = Mutex((servers: 0, clients: 0, stops: 0))

    /// - Parameters:
    ///   - seconds: the duration of the run.
    ///   - cycles: the number of killed processes after which it ends earlier; nil if it does not.
    ///   - life: the life of a replica before it is killed, in milliseconds.
    ///   - servers: a replica comes to another one in each of its lives.
    init(
        _ seed: UInt64, clients: Int, seconds: Int, cycles: Int? = nil, isFlexible: Bool, life: Int,
        servers: [TortureServer], in directory: URL
    ) {
        (self.seed, self.clients, self.seconds, self.cycles, self.life) = (seed, clients, seconds, cycles, life)
        (self.isFlexible, self.servers, self.directory) = (isFlexible, servers, directory)
    }

    /// - Returns: a summary, for people.
    /// - Throws: `DrillFailure` if something was lost, or took effect twice.
    func run() async throws -> String {
        defer { for server in servers { server.kill() } }
        var urls: [String] = []
        for server in servers { urls.append(try await server.start()) }
        let end = ContinuousClock.now + .seconds(seconds)
        let ledgers = try await withThrowingTaskGroup(of: [(Int, Set<Int>)].self) { group in
            for (number, server) in servers.enumerated() {
                group.addTask {
                    try await self.kill(server, number, until: end)
                    return []
                }
            }
            for client in 0..<clients {
                group.addTask { [urls] in [(client, try await self.live(client, urls, until: end))] }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        // The uploads of the first replicas reach all others in the second round.
        var reports: [TortureReport] = []
        for round in 0..<2 {
            reports = []
            for client in 0..<clients {
                reports.append(try await rest(client, url: urls[(client + round) % urls.count], round))
            }
        }
        try check(reports, Dictionary(uniqueKeysWithValues: ledgers))
        let count = killed.withLock { $0 }
        return "\(reports[0].entries.count) transactions, \(count.servers) servers and \(count.clients) replicas killed"
            + ", \(count.stops) stopped for a while, \(clients) equal states"
    }

    private func isOver(_ end: ContinuousClock.Instant) -> Bool {
        let count = killed.withLock { $0.servers + $0.clients }
        return ContinuousClock.now >= end || count >= cycles ?? .max
    }

    /// Waits for `time`, or until the run is over.
    private func wait(_ time: Duration, until end: ContinuousClock.Instant) async throws {
        let wake = ContinuousClock.now + time
        while ContinuousClock.now < wake, !isOver(end) {
            try await Task.sleep(for: min(.milliseconds(20), wake - .now))
        }
    }

    // MARK: Life

    private func kill(_ server: TortureServer, _ number: Int, until end: ContinuousClock.Instant) async throws {
        var random = SeededRandom(scrambling: ~seed &+ UInt64(number))
        while true {
            try await wait(.milliseconds(1_000 + random.below(Self.serverLifeMax)), until: end)
            guard !isOver(end) else { return }
            if random.isOne(in: Self.stoppedOneIn) {
                server.send(SIGSTOP)
                killed.withLock { $0.stops += 1 }
                try await wait(.milliseconds(random.below(Self.stopMax)), until: end)
                server.send(SIGCONT)
                // Some are killed at the moment when they go on.
                if random.isOne(in: 2) { continue }
            }
            server.kill()
            killed.withLock { $0.servers += 1 }
            _ = try await server.start()
        }
    }

    /// Has a client live again and again until the end.
    /// - Returns: the numbers of the transactions that it has committed.
    private func live(
        _ client: Int, _ urls: [String], until end: ContinuousClock.Instant
    ) async throws -> Set<Int> {
        var random = SeededRandom(scrambling: seed &+ UInt64(client) &* 7919)
        var written: Set<Int> = [], life = 0
        while !isOver(end) {
            life += 1
            let url = urls.count == 1 ? urls[0] : random.pick(urls)
            // The last write may not have been reported, so its number is not used again.
            let process = process(client, seed: random.next(), first: life * 100_000, milliseconds: 600_000, url)
            let lines = try process.start()
            let patience = Duration.milliseconds(min(200, self.life) + random.below(self.life))
            let stop = random.isOne(in: Self.stoppedOneIn) ? Duration.milliseconds(random.below(Self.stopMax)) : nil
            async let killing: Void = kill(process, after: patience, stoppedFor: stop, until: end)
            for line in await lines.all() {
                if let number = line.hasPrefix("wrote ") ? Int(line.dropFirst(6)) : nil { written.insert(number) }
                if line.hasPrefix("stopped") || line.hasPrefix("reset") || line.hasPrefix("undone") {
                    throw DrillFailure(description: "replica \(client): \(line)")
                }
            }
            try await killing
            try process.checkWasKilled()
            killed.withLock { $0.clients += 1 }
        }
        return written
    }

    private func kill(
        _ process: TortureProcess, after patience: Duration, stoppedFor stop: Duration?,
        until end: ContinuousClock.Instant
    ) async throws {
        defer { process.send(SIGKILL) }
        try await wait(patience, until: end)
        guard let stop, !isOver(end) else { return }
        process.send(SIGSTOP)
        killed.withLock { $0.stops += 1 }
        try await wait(stop, until: end)
        process.send(SIGCONT)
    }

    private func rest(_ client: Int, url: String, _ round: Int) async throws -> TortureReport {
        let process = process(client, seed: seed, first: 0, milliseconds: 0, url)
        let lines = try process.start()
        async let killing: Void = process.kill(after: .seconds(Self.restPatience))
        let report = TortureReport(await lines.all())
        process.forget()
        await killing
        guard report.isComplete else {
            throw DrillFailure(
                description: "replica \(client) does not come to rest: \(report.words) \(process.errorOutput)")
        }
        return report
    }

    private func process(
        _ client: Int, seed: UInt64, first: Int, milliseconds: Int, _ url: String
    ) -> TortureProcess {
        let path = directory.appendingPathComponent("replica-\(client)").path
        let app = isFlexible ? "/api/client/v2.0/app/torture" : ""
        let target = "\(url)\(app)/realm-sync?baas_at="
        return TortureProcess(
            [
                "torture-client", "--url", target, "--data", path, "--seed", "\(seed)", "--client", "\(client)",
                "--first", "\(first)", "--milliseconds", "\(milliseconds)",
            ] + (isFlexible ? ["--flexible"] : []), errors: path + ".errors")
    }

    // MARK: Judgement

    private func check(_ reports: [TortureReport], _ written: [Int: Set<Int>]) throws {
        for (client, report) in reports.enumerated() {
            guard report.digest == reports[0].digest else {
                throw DrillFailure(description: "replica \(client) has another state than replica 0")
            }
        }
        let entries = reports[0].entries
        for (client, numbers) in written {
            for number in numbers where !entries.contains(TortureWorkload.entryKey(client, number)) {
                throw DrillFailure(description: "transaction \(number) of replica \(client) was committed, and is lost")
            }
        }
        guard reports[0].counter == entries.count else {
            throw DrillFailure(
                description: "the counter says \(reports[0].counter), and there are \(entries.count) transactions: "
                    + "some took effect twice, or in part")
        }
    }
}

/// The final report of a replica.
struct TortureReport {
    private(set) var digest = ""
    private(set) var counter = 0
    private(set) var entries: Set<String> = []
    private(set) var isComplete = false
    private(set) var words = ""

    init(_ lines: [String]) {
        for line in lines {
            let parts = line.split(separator: " ")
            switch parts.first {
            case "digest": digest = line
            case "counter": counter = Int(parts[1]) ?? -1
            case "entry": entries.insert(String(parts[1]))
            case "end": isComplete = true
            default: words += line + "; "
            }
        }
    }
}

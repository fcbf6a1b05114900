import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// One attack on a server of its own: who takes part, the phases in which bystanders are measured, and how it ends.
final class AttackRun: Sendable {
    /// The options for all attacks.
    struct Options: Sendable {
        var binary: String
        /// The numbers that replace those of the attack, by name.
        var counts: [String: Int] = [:]
        var aloneSeconds = 3.0
        /// The time limit of all attacks, in seconds; nil for the one of each attack.
        var cutOffSeconds: Double?
    }

    let attack: Attack
    let report: AttackReport
    /// The event loops of attackers, and of others who are not measured.
    let eventLoops = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    /// The bytes that attackers send and get.
    let traffic = Traffic()
    let options: Options
    let state: Mutex<State>
    private let bystanderLoops = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private let start = ContinuousClock.now

    struct State {
        var server: ServerUnderLoad
        var sampler: ServerSampler
        var bystanders: Bystanders?
        var connections: [TestConnection] = []
        var sampling: Task<Void, Never>?
        /// Nil until something was measured.
        var measured: Measured?
    }

    /// The measurements, once the attack is over.
    struct Measured: Sendable {
        var phases: LoadPhases
        /// The costs of the bystanders while they were alone, and the number of their writes.
        var alone: (costs: AttackCosts?, writeCount: Int)
        /// The costs of the attack without them; nil if the server has ended.
        var attack: AttackCosts?
    }

    /// The memory, in bytes, beyond which a server is ended: others need the memory, too.
    static let endingBytes = 6 << 30
    /// The time that a bystander waits for operations under way at the end, and a later user for each operation.
    static let patience = Duration.seconds(30)

    private init(_ attack: Attack, _ options: Options, on server: ServerUnderLoad) {
        self.attack = attack
        self.options = options
        report = AttackReport(attack.name)
        state = Mutex(State(server: server, sampler: ServerSampler(server.place)))
    }

    /// Brings an attack to a server, and prints the result.
    ///
    /// - Returns: the number of bounds that were missed.
    static func run(_ attack: Attack, _ options: Options) async throws -> Int {
        let plan = attack.plan.server
        let server = try await ServerUnderLoad.start(options.binary, configuration: plan.configuration) { data in
            try plan.objects?.write(to: data, app: .flexible)
            let export = data.deletingLastPathComponent().appendingPathComponent(AttackedServer.exportName)
            for (name, text) in plan.exportFiles() { try write(text, to: export.appendingPathComponent(name)) }
        }
        let run = AttackRun(attack, options, on: server)
        do {
            run.beginSampling()
            try await run.beginBystanders()
            try await attack.body(run)
            try await run.finish()
        } catch {
            await run.end()
            throw error
        }
        await run.end()
        return run.report.missedCount
    }

    /// Writes a file, which takes the place of an existing one at once.
    static func write(_ text: String, to file: URL) throws {
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file, options: .atomic)
    }

    private func end() async {
        let sampling = state.withLock { $0.sampling }
        sampling?.cancel()
        await bystanders?.end(patience: .zero)
        await disconnect()
        server.kill()
        try? await eventLoops.shutdownGracefully()
        try? await bystanderLoops.shutdownGracefully()
    }

    // MARK: Participants

    var server: ServerUnderLoad { state.withLock { $0.server } }
    var sampler: ServerSampler { state.withLock { $0.sampler } }
    var bystanders: Bystanders? { state.withLock { $0.bystanders } }

    var target: SyncTarget { get throws { try SyncTarget(url: server.url) } }

    /// The costs of the attack to the server; nil if it has not been measured, or if the server has ended.
    var attackCosts: AttackCosts? { state.withLock { $0.measured?.attack } }

    /// One of the attack's numbers.
    func count(_ name: String) -> Int { options.counts[name] ?? attack.counts[name] ?? 0 }

    /// Reports on standard error how far the attack is.
    func tell(_ progress: String) { RunProgress.report("\(attack.name): \(progress)", after: .now - start) }

    private func beginBystanders() async throws {
        guard attack.plan.hasBystanders else { return }
        var places: [Bystanders.Place] = []
        for app in AttackedApp.allCases {
            let names = app.isFlexible ? [app.rawValue] : (0..<4).map { "bystander-\($0)" }
            for name in names {
                places.append(
                    Bystanders.Place(name: name, writer: try await user(of: app), reader: try await user(of: app)))
            }
        }
        let bystanders = try await Bystanders.begin(at: places, handshakesTo: user(of: .partitions), on: bystanderLoops)
        state.withLock { $0.bystanders = bystanders }
    }

    private func beginSampling() {
        let server = self.server, sampler = self.sampler
        let task = Task { [report] in
            let samples = Task { await sampler.run() }
            defer { samples.cancel() }
            while !Task.isCancelled, let process = try? sampler.snapshot() {
                if process.residentBytes > Self.endingBytes {
                    report.figure("server_ended_at", Double(process.residentBytes >> 20), "MiB")
                    server.killProcess()
                }
                try? await Task.sleep(for: .milliseconds(50))
            }
        }
        let last = state.withLock { state in
            defer { state.sampling = task }
            return state.sampling
        }
        last?.cancel()
    }

    /// Ends the server, and starts another one on its data.
    func restart() async throws {
        await disconnect()
        _ = await server.end()
        let next = try await server.restarted()
        state.withLock { state in
            state.server = next
            state.sampler = ServerSampler(next.place)
        }
        beginSampling()
    }

    // MARK: Measuring

    /// Leaves the bystanders alone for a while, brings the attack, and waits until it is over or was long enough. It is
    /// no failure if the server ends it.
    func measure(_ load: @escaping @Sendable () async throws -> Void) async throws {
        tell("the bystanders are alone")
        try await Task.sleep(for: .seconds(1))  // first uploads take longer
        let alone = try await expenses()
        try await Task.sleep(for: .seconds(options.aloneSeconds))
        let beginning = try await expenses()
        try sampler.sample()
        tell("the attack begins")
        let sent = traffic.bytes, start = ContinuousClock.now
        do { try await limited(load) } catch { report.figure("attacker_told", "\(error)") }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        report.figure("attack_sent", Double((traffic.bytes - sent).sent), "B")
        report.figure("attack_received", Double((traffic.bytes - sent).received), "B")
        // The effects of a short attack may still be felt.
        try await Task.sleep(for: .seconds(max(0, 2 - seconds)))
        let phases = LoadPhases(
            alone: alone.time..<beginning.time, during: start..<ContinuousClock.now, after: start..<start)
        let writeCount = bystanders?.writeCount(in: phases.alone) ?? 0
        try? sampler.sample()
        var costs = (try? await expenses()).map { end in
            (end - beginning).without(bystanders?.writeCount(in: phases.during) ?? 0, of: beginning - alone, writeCount)
        }
        costs?.seconds = seconds
        let measured = Measured(phases: phases, alone: (beginning - alone, writeCount), attack: costs)
        state.withLock { $0.measured = measured }
        if let costs { costs.write(to: report, as: "attack") } else { report.figure("attack_time", seconds, "s") }
    }

    private func limited(_ load: @Sendable () async throws -> Void) async throws {
        let seconds = options.cutOffSeconds ?? attack.plan.cutOffSeconds
        let limit = Task {
            try await Task.sleep(for: .seconds(seconds))
            report.figure("cut_off_after", seconds, "s")
            await disconnect()
        }
        defer { limit.cancel() }
        try await load()
    }

    func expenses() async throws -> ServerExpenses {
        let process = try sampler.snapshot()
        let gauges = try await ServerGauges.read(
            dataDirectory: server.place.dataDirectory ?? "", names: [ServerGauges.transactions])
        return ServerExpenses(
            time: .now, cpuSeconds: process.cpuSeconds, writtenBytes: Double(process.writtenBytes),
            transactions: gauges?[ServerGauges.transactions])
    }

    /// The costs of `body`, without those of the bystanders during that time.
    func costs(of body: () async throws -> Void) async throws -> AttackCosts {
        let before = try await expenses()
        try await body()
        let after = try await expenses()
        let alone = state.withLock { $0.measured?.alone }
        return (after - before).without(
            bystanders?.writeCount(in: before.time..<after.time) ?? 0, of: alone?.costs, alone?.writeCount ?? 0)
    }

    // MARK: Connections

    /// A new open connection; it is closed when the attack ends.
    func connection(to target: SyncTarget) async throws -> TestConnection {
        let connection = TestConnection(to: target, on: eventLoops.next(), traffic: traffic)
        state.withLock { $0.connections.append(connection) }
        try await connection.open()
        return connection
    }

    /// Closes all connections that `connection` has opened.
    func disconnect() async {
        let all = state.withLock { state in
            defer { state.connections = [] }
            return state.connections
        }
        for connection in all { await connection.close() }
    }

    /// Logs in a new user anonymously, and returns the target with which the user's clients connect to the app.
    func user(of app: AttackedApp) async throws -> SyncTarget {
        let target = try self.target
        let token = try await HTTPRequests(target: target, app: app.rawValue, eventLoops: eventLoops)
            .logIn(.anonymous)
        guard app.isFlexible else { return target.with(token: token, app: app.rawValue) }
        return target.flexible(app: app.rawValue).with(token: token, app: app.rawValue)
    }

    /// A new client of a user, in a session on a connection of its own, with the objects that it asks for.
    ///
    /// - Parameter partition: the partition; not used in flexible sync.
    func client(
        of user: SyncTarget, partition: String = "", asking predicates: [String: String] = [:]
    ) async throws -> LoadClient {
        let connection = try await connection(to: user)
        let client = LoadClient(of: partition, on: connection.eventLoop, mode: user.mode)
        try await client.join(connection)
        guard user.mode == .flexible, !predicates.isEmpty else { return client }
        let version = try await client.subscribe(predicates).version
        _ = try await client.wait { $0.isAnswered(version) }
        if let refusal = await client.refused { throw LoadError("a set is refused: \(refusal.message)") }
        return client
    }
}

extension LoadClient {
    /// Uploads, and waits until the server has taken it.
    ///
    /// - Returns: the time that this took.
    @discardableResult
    func store(_ changesets: [[UInt8]], timestamp: ChangesetTime? = nil) async throws -> Duration {
        let (version, sent) = upload(changesets, timestamp: timestamp)
        return try await wait { $0.isAcknowledged(version) } - sent
    }
}

import AnabranchTestClient
import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// One run: prepares, lets the bystanders work alone, brings the load, and lets them work alone again.
final class LoadRun: Sendable {
    /// The name of the run, so that files of different runs on one server have different names.
    let name: String
    /// The servers, to which clients come in turn.
    let servers: [SyncTarget]
    private let connectionCount = Atomic(0)
    let traffic = Traffic()
    /// The patience with bystanders, who may have to wait for long.
    private static let patience = Duration.seconds(60)
    private let aloneSeconds: Double
    private let eventLoops: any EventLoopGroup
    /// Nil if the load has the server for itself.
    private let bystanders: Bystanders?
    private let sampler: ServerSampler?
    private let server: ServerUnderLoad?
    private let start = ContinuousClock.now
    private let connections = Mutex<[TestConnection]>([])
    private let result = Mutex<Result?>(nil)

    /// The result, once the load is over.
    struct Result: Sendable {
        var outcome: LoadOutcome
        var phases: LoadPhases
        var bytes: Traffic.Bytes
    }

    init(
        name: String, servers: [SyncTarget], aloneSeconds: Double, eventLoops: any EventLoopGroup,
        bystanders: Bystanders?, sampler: ServerSampler?, server: ServerUnderLoad?
    ) {
        self.name = name
        self.servers = servers
        self.aloneSeconds = aloneSeconds
        self.eventLoops = eventLoops
        self.bystanders = bystanders
        self.sampler = sampler
        self.server = server
    }

    /// The first server.
    var target: SyncTarget { servers[0] }

    /// Brings the load, once in a run. Everything before this is preparation and not measured.
    func measure(_ load: () async throws -> LoadOutcome) async throws {
        if bystanders != nil {
            report("the bystanders are alone for \(aloneSeconds) s")
            try await Task.sleep(for: .seconds(aloneSeconds / 3))  // first uploads take longer
        }
        let alone = ContinuousClock.now
        try await leaveBystandersAlone()
        try sampler?.sample()
        await sampler?.readGauges()
        let before = traffic.bytes
        report("the load begins")
        let beginning = ContinuousClock.now
        let outcome = try await load()
        let end = ContinuousClock.now
        let bytes = traffic.bytes - before
        await disconnect()
        if server?.wasEnded != true {
            try? sampler?.sample()
            report("the load is over\(bystanders == nil ? "" : ", the bystanders are alone again")")
            try await leaveBystandersAlone()
            try server?.checkIsRunning()
            await sampler?.readGauges()
            try sampler?.sample()
        }
        let after = ContinuousClock.now
        await bystanders?.end(patience: Self.patience)
        let phases = LoadPhases(alone: alone..<beginning, during: beginning..<end, after: end..<after)
        result.withLock { $0 = Result(outcome: outcome, phases: phases, bytes: bytes) }
    }

    /// Waits until each bystander has done something alone, however busy the machine is.
    private func leaveBystandersAlone() async throws {
        guard let bystanders else { return }
        let beginning = ContinuousClock.now
        try await Task.sleep(for: .seconds(aloneSeconds))
        while !bystanders.haveBegunAndEnded(since: beginning), .now - beginning < Self.patience {
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    /// - Throws: `LoadError` if nothing was measured.
    func report(of load: String, options: [String: Double]) throws -> LoadReport {
        guard let result = result.withLock({ $0 }) else { throw LoadError("nothing was measured") }
        let during = result.phases.during
        return LoadReport(
            load: load, options: options,
            seconds: ((during.upperBound - during.lowerBound) / .seconds(1)).rounded(places: 3),
            operations: result.outcome.operations, operation: result.outcome.operation,
            refusal: result.outcome.refusal, latencyMs: result.outcome.latencies.mapValues(Percentiles.init),
            bytes: result.bytes,
            counts: result.outcome.counts.mapValues { $0.rounded(places: 3) },
            server: sampler?.figures(
                of: during.lowerBound...during.upperBound, operations: result.outcome.operations),
            bystander: bystanders?.figures(result.phases))
    }

    /// Reports on standard error how far the run is.
    func report(_ progress: String) { RunProgress.report(progress, after: .now - start) }

    // MARK: Connections

    /// The event loop for the next client, so that all have as many.
    var nextEventLoop: any EventLoop { eventLoops.next() }

    /// A new connection that is not open yet; the run closes it in the end.
    func connection(on eventLoop: (any EventLoop)? = nil, to other: SyncTarget? = nil) -> TestConnection {
        let number = other == nil ? connectionCount.wrappingAdd(1, ordering: .relaxed).oldValue : 0
        let target = other ?? servers[number % servers.count]
        let connection = TestConnection(to: target, on: eventLoop ?? nextEventLoop, traffic: traffic)
        connections.withLock { $0.append(connection) }
        return connection
    }

    /// A new client of a file, in a session on a connection of its own.
    func connectedClient(of file: String, on eventLoop: (any EventLoop)? = nil) async throws -> LoadClient {
        let connection = connection(on: eventLoop)
        try await connection.open()
        let client = LoadClient(of: file, on: connection.eventLoop)
        try await client.join(connection)
        return client
    }

    /// New clients in sessions of their own; a few dozen of them come at a time.
    func connectedClients(_ count: Int, of file: @escaping @Sendable (Int) -> String) async throws -> [LoadClient] {
        let done = Atomic(0)
        return try await concurrentMap(0..<count, limit: 64) { number in
            let client = try await self.connectedClient(of: file(number))
            let count = done.wrappingAdd(1, ordering: .relaxed).newValue
            if count % 1000 == 0 { self.report("\(count) clients are there") }
            return client
        }
    }

    /// Closes all connections that the run has given.
    func disconnect() async {
        let all = connections.withLock { all in
            defer { all = [] }
            return all
        }
        for connection in all { await connection.close() }
    }

    /// Ends the server that was started for the run, and waits for that. Others stay.
    func endServer() async {
        guard let server else { return }
        report("the server gets SIGTERM")
        let ending = await server.end()
        report("the server has ended after \(ending.seconds) s with status \(ending.exitStatus)")
    }

    /// The resources that the server's process uses now; nil if the process is not known.
    func serverSnapshot() throws -> ProcessSnapshot? { try sampler?.snapshot() }

    /// Requests by which users of an app log in.
    func requests(app: String) -> HTTPRequests { HTTPRequests(target: target, app: app, eventLoops: eventLoops) }
}

/// The results for all elements in their order, of which `limit` are worked on at a time. The first error ends it.
func concurrentMap<Element: Sendable, Value: Sendable>(
    _ elements: some Collection<Element>, limit: Int,
    _ transform: @escaping @Sendable (Element) async throws -> Value
) async throws -> [Value] {
    try await withThrowingTaskGroup(of: (Int, Value).self) { group in
        var values = [Value?](repeating: nil, count: elements.count)
        for (number, element) in elements.enumerated() {
            if number >= limit, let (done, value) = try await group.next() { values[done] = value }
            group.addTask { (number, try await transform(element)) }
        }
        for try await (done, value) in group { values[done] = value }
        return values.compactMap(\.self)
    }
}

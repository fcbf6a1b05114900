import AnabranchHistory
import AnabranchProtocol
import Logging
import Metrics
import NIOCore

@testable import AnabranchServer

/// Runs a server on a loopback port for as long as `body` takes, and ends it in order.
func withServer<Result>(
    store: any HistoryStore = InMemoryStore(), settings: ServerSettings = .small,
    authenticator: any Authenticator = AllowAllAuthenticator(), authorizer: any Authorizer = AllowAllAuthorizer(),
    exports: AppExports? = nil, tls: TLSFiles? = nil, routes: [HTTPRoute] = [], wires: [any TextWire] = [],
    doors: [any RecordDoor] = [],
    metrics: any MetricsFactory = NOOPMetricsHandler.instance,
    _ body: (RunningServer) async throws -> Result
) async throws -> Result {
    let (ports, onPort) = AsyncStream.makeStream(of: Int.self)
    let server = SyncServer(
        settings: settings, store: store, authenticator: authenticator, routes: routes, wires: wires,
        authorizer: authorizer,
        exports: exports, tls: tls, logger: .quiet, metrics: metrics, unixSeconds: { 1 },
        onListening: { onPort.yield($0.port ?? 0) })
    for door in doors { server.attach(door) }
    let task = Task { try await server.run() }
    var iterator = ports.makeAsyncIterator()
    let running = RunningServer(port: await iterator.next() ?? 0, server: server, task: task)
    do {
        let result = try await body(running)
        try await running.end()
        return result
    } catch {
        try await running.end()
        throw error
    }
}

struct RunningServer: Sendable {
    let port: Int
    let server: SyncServer
    fileprivate let task: Task<Void, any Error>

    /// Tells it to end.
    func stop() { task.cancel() }

    /// Waits until it has ended.
    func end() async throws {
        task.cancel()
        try await task.value
    }
}

extension ServerSettings {
    /// For tests: two threads of each kind, any port, no long waits at the end, and time for whoever shares a processor
    /// with all other tests.
    static var small: ServerSettings {
        var settings = ServerSettings(cores: 2)
        settings.handshakeSecondsMax = 30 * 60
        settings.limits.stallMillisecondsMax = 30 * 60_000
        settings.lingerSecondsMax = 1
        settings.shutdownSecondsMax = 2
        return settings
    }
}

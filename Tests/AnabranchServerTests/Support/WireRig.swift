import AnabranchHistory
import AnabranchProtocol
import Logging
import Metrics
import Synchronization
import Testing

@testable import AnabranchServer

/// The server without sockets and threads: connections and files in one place, moved along by hand.
final class WireRig {
    /// The replies of files on their way to connections. Everything happens on the thread of the test.
    private final class Replies: @unchecked Sendable {
        var waiting: [FileReply] = []
    }

    private let replies = Replies()
    private(set) var files: FileQueues
    private var connections: [ConnectionID: RigConnection] = [:]
    private var lastNumber: UInt64 = 0
    private var options = FileOptions()
    private let canSend: Bool
    private let metrics: SyncMetrics
    private let logger: Logger
    private let unixSeconds: @Sendable () -> UInt64

    /// - Parameters:
    ///   - keepsState: whether changesets have to make sense.
    ///   - canSend: whether the sockets of connections take what comes without being asked for.
    ///   - destructiveSchema: whether clients may take classes and columns away.
    ///   - unixSeconds: the clock.
    init(
        store: any HistoryStore = InMemoryStore(), keepsState: Bool = true, canSend: Bool = true,
        destructiveSchema: DestructiveSchema = .refuse, limits: Limits = Limits(),
        metrics: any MetricsFactory = NOOPMetricsHandler.instance, logger: Logger = .quiet,
        unixSeconds: @escaping @Sendable () -> UInt64 = { 1 }
    ) {
        self.unixSeconds = unixSeconds
        self.canSend = canSend
        self.metrics = SyncMetrics(factory: metrics)
        self.logger = logger
        options.limits = limits
        options.keepsState = keepsState
        options.backlogBytesMax = 1 << 20
        options.destructiveSchema = { _ in destructiveSchema }
        files = WireRig.files(over: store, options, self.metrics, logger, unixSeconds, replies)
    }

    private static func files(
        over store: any HistoryStore, _ options: FileOptions, _ metrics: SyncMetrics, _ logger: Logger,
        _ unixSeconds: @escaping @Sendable () -> UInt64, _ replies: Replies
    ) -> FileQueues {
        let environment = FileEnvironment(
            store: store, committerThreads: 0, options: options, metrics: metrics, logger: logger,
            beginStep: { .none }, unixSeconds: unixSeconds)
        return FileQueues(environment, threads: nil) { replies.waiting += $0.replies }
    }

    /// The effect of a restart of the server's process, with this store in place of the old one.
    func restart(over store: any HistoryStore) {
        connections = [:]
        options.limits = Limits()
        files = WireRig.files(over: store, options, metrics, logger, unixSeconds, replies)
    }

    func connect(_ negotiation: Negotiation, app: String = "", limits: Limits = Limits()) -> RigConnection {
        lastNumber += 1
        let id = ConnectionID(number: lastNumber)
        let connection = RigConnection(
            SyncConnection(
                id, negotiation: negotiation, principal: Principal(app: app), limits: limits, metrics: metrics,
                logger: logger), id, canSend: canSend)
        connections[id] = connection
        return connection
    }

    func disconnect(_ connection: RigConnection) {
        connection.wire.end()
        submit(connection.wire.takeRequests())
        connections[connection.id] = nil
    }

    /// Takes all turns that this leads to.
    func submit(_ requests: [FileRequest]) {
        for request in requests { files.submit(request) }
        takeTurns()
    }

    func takeTurns() {
        repeat { deliver() } while files.takeTurn()
        deliver()
    }

    private func deliver() {
        let waiting = replies.waiting
        replies.waiting = []
        for reply in waiting {
            guard let connection = connections[reply.session.connection] else { continue }
            connection.wire.receive(reply, canSend: connection.canSend)
        }
    }

    /// The result of a job with a file.
    func run<Result: Sendable>(
        on path: String,
        _ job: @escaping @Sendable (FileTurns, @escaping (Swift.Result<Result, any Error>) -> Void) -> Void
    ) throws -> Result {
        let outcome = Mutex<Swift.Result<Result, any Error>?>(nil)
        files.submit(
            FileJob(comesAfterMerge: false) { file in
                guard let file else { return }
                job(file) { made in outcome.withLock { $0 = made } }
            }, to: VirtualPath(path))
        takeTurns()
        return try #require(outcome.withLock { $0 }).get()
    }

    /// Lets everything happen that can happen; each connection's messages are in `sent` afterwards.
    func run() {
        var isBusy = true
        while isBusy {
            isBusy = false
            for connection in connections.values {
                guard !connection.wire.isSuperseded else {
                    disconnect(connection)
                    continue
                }
                while let outbound = connection.wire.next() {
                    isBusy = true
                    connection.record(outbound)
                }
                let requests = connection.wire.takeRequests()
                isBusy = isBusy || !requests.isEmpty
                submit(requests)
            }
        }
    }
}

/// A connection of the rig and what it has sent.
final class RigConnection {
    var wire: SyncConnection
    let id: ConnectionID
    /// True if its socket takes what comes without being asked for.
    var canSend: Bool
    var sent: [[UInt8]] = []
    /// A connection-level error was the last message.
    private(set) var isOver = false

    init(_ wire: consuming SyncConnection, _ id: ConnectionID, canSend: Bool) {
        self.wire = wire
        self.id = id
        self.canSend = canSend
    }

    func record(_ outbound: SyncConnection.Outbound) {
        switch outbound {
        case .message(let message):
            sent.append(message.bytes)
        case .lastMessage(let message):
            sent.append(message.bytes)
            isOver = true
        case .close:
            isOver = true
        }
    }
}

extension Logger {
    /// Says nothing.
    static var quiet: Logger { Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }) }
}

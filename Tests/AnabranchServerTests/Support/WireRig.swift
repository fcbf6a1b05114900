import AnabranchHistory
import AnabranchProtocol
import Logging
import Metrics

@testable import AnabranchServer

/// The server without sockets and threads: connections and files in one place, moved along by hand.
final class WireRig {
    private(set) var files: FileRegistry
    private var connections: [ConnectionID: RigConnection] = [:]
    private var lastNumber: UInt64 = 0
    private let keepsState: Bool
    private let keepsNews: Bool
    private let destructiveSchema: DestructiveSchema
    private let metrics: SyncMetrics
    private let logger: Logger
    private let unixSeconds: @Sendable () -> UInt64

    /// - Parameters:
    ///   - keepsState: whether changesets have to make sense.
    ///   - keepsNews: whether connections can send what comes without being asked for.
    ///   - destructiveSchema: whether clients may take classes and columns away.
    ///   - unixSeconds: the clock.
    init(
        store: any HistoryStore = InMemoryStore(), keepsState: Bool = true, keepsNews: Bool = true,
        destructiveSchema: DestructiveSchema = .refuse, limits: Limits = Limits(),
        metrics: any MetricsFactory = NOOPMetricsHandler.instance, logger: Logger = .quiet,
        unixSeconds: @escaping @Sendable () -> UInt64 = { 1 }
    ) {
        self.unixSeconds = unixSeconds
        self.destructiveSchema = destructiveSchema
        self.keepsState = keepsState
        self.keepsNews = keepsNews
        self.metrics = SyncMetrics(factory: metrics)
        self.logger = logger
        files = WireRig.files(over: store, keepsState, destructiveSchema, limits, self.metrics, logger, unixSeconds)
    }

    private static func files(
        over store: any HistoryStore, _ keepsState: Bool, _ destructiveSchema: DestructiveSchema, _ limits: Limits,
        _ metrics: SyncMetrics, _ logger: Logger, _ unixSeconds: @escaping @Sendable () -> UInt64
    ) -> FileRegistry {
        FileRegistry(
            store: store, keepsState: keepsState, limits: limits, backlogBytesMax: 1 << 20,
            sharedBodiesBytesMax: 1 << 20, destructiveSchema: { _ in destructiveSchema },
            metrics: metrics, logger: logger, beginStep: { .none }, unixSeconds: unixSeconds)
    }

    /// What a restart of the server's process does, with this store in place of the old one.
    func restart(over store: any HistoryStore) {
        connections = [:]
        files = WireRig.files(over: store, keepsState, destructiveSchema, Limits(), metrics, logger, unixSeconds)
    }

    func connect(_ negotiation: Negotiation, app: String = "", limits: Limits = Limits()) -> RigConnection {
        lastNumber += 1
        let id = ConnectionID(number: lastNumber)
        let connection = RigConnection(
            SyncConnection(
                id, negotiation: negotiation, principal: Principal(app: app), limits: limits, metrics: metrics,
                logger: logger), id)
        connections[id] = connection
        return connection
    }

    func disconnect(_ connection: RigConnection) {
        connection.wire.end()
        submit(connection.wire.takeRequests())
        connections[connection.id] = nil
    }

    /// One turn of a store thread.
    func submit(_ requests: [FileRequest]) {
        guard !requests.isEmpty else { return }
        handle(requests)
        commit()
    }

    /// The first half of a turn.
    func handle(_ requests: [FileRequest]) { var rest = requests[...]; deliver(files.handle { rest.popFirst() }) }

    /// The second half of a turn.
    func commit() { deliver(files.commit()) }

    private func deliver(_ replies: [FileReply]) {
        for reply in replies {
            let connection = connections[reply.session.connection]
            connection?.wire.receive(reply)
            if !keepsNews { connection?.wire.dropNews() }
        }
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
                    connection.note(outbound)
                }
                connection.wire.dropNews()
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
    var sent: [[UInt8]] = []
    /// A connection-level error was the last message.
    private(set) var isOver = false

    init(_ wire: consuming SyncConnection, _ id: ConnectionID) {
        self.wire = wire
        self.id = id
    }

    func note(_ outbound: SyncConnection.Outbound) {
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

package import AnabranchCore
package import AnabranchHistory
package import AnabranchProtocol
import Logging
import Metrics
import NIOCore
import NIOWebSocket
import Synchronization

/// A server without sockets, threads and clocks of its own: its connections and files in one place. Its driver passes
/// in what clients send, lets files take turns, and takes the messages to send, all on one thread, so that nothing
/// happens by chance.
package final class ServerMachine {
    private let settings: ServerMachineSettings
    private let files: FileQueues
    private let replies: Replies
    private let metrics: SyncMetrics
    private let expiredTokens: ExpiredTokens
    private var peers: [UInt64: Peer] = [:]
    /// The synced files that there are, in the order in which something happens to them.
    private let paths: [VirtualPath]

    /// The replies of files, on their way to connections.
    private final class Replies: @unchecked Sendable {
        var waiting: [FileReply] = []
    }

    /// The server's end of a connection.
    private final class Peer {
        var connection: SyncConnection
        /// True if the last send left room for more.
        var canSend = true
        var assembler: MessageAssembler

        init(_ connection: consuming SyncConnection, messageBytesMax: Int) {
            self.connection = connection
            assembler = MessageAssembler(messageBytesMax: messageBytesMax)
        }
    }

    /// - Parameter paths: the synced files that will be used.
    package init(over store: any HistoryStore, paths: [VirtualPath], _ settings: ServerMachineSettings) {
        self.settings = settings
        self.paths = paths
        metrics = SyncMetrics(factory: NOOPMetricsHandler.instance)
        expiredTokens = ExpiredTokens(monotonicSeconds: settings.monotonicSeconds)
        let replies = Replies()
        self.replies = replies
        let environment = FileEnvironment(
            store: store, committerThreads: 0, options: settings.fileOptions, metrics: metrics, logger: .silent,
            messageMemory: MemoryBudget(bytesMax: settings.messageBytesMax), beginStep: settings.beginStep,
            randomness: settings.randomness,
            unixSeconds: { [now = settings.now] in UInt64(now().secondsSince1970) },
            monotonicSeconds: settings.monotonicSeconds, now: settings.now)
        files = FileQueues(environment, threads: nil) { turn in
            let ofConnections = Dictionary(grouping: turn.replies, by: \.session.connection)
            replies.waiting += ofConnections.sorted { $0.key < $1.key }.flatMap(\.value)
        }
        environment.clock.record()
    }

    // MARK: Connections

    /// A client has opened a WebSocket.
    /// - Parameters:
    ///   - number: never used before.
    ///   - offer: the subprotocols that it offers.
    ///   - dialect: that of the path by which it has come.
    /// - Returns: the version that is spoken.
    /// - Throws: `ErrorMessage`: why it cannot be served; `NegotiationError`.
    package func connect(
        _ number: UInt64, offer: String, in dialect: WireDialect = .realm, by user: Principal
    ) throws -> ProtocolVersion {
        let negotiation = try Negotiation(
            offer: offer, accepting: [settings.isFlexible ? .flexible : .partition], in: dialect)
        if let refusal = negotiation.refusal { throw refusal }
        peers[number] = Peer(
            SyncConnection(
                ConnectionID(number: number), negotiation: negotiation, principal: user,
                authorizer: settings.authorizer, names: files.environment.names, limits: settings.fileOptions.limits,
                asksBeforeMarks: files.environment.store.isShared, metrics: metrics,
                logger: .silent),
            messageBytesMax: settings.fileOptions.limits.messageBytesMax)
        return negotiation.version
    }

    /// Refuses a fork's client that connects, or is connected, with an expired token.
    /// - Returns: the error for the client; nil for a close frame with the code 4001.
    package func refusal(ofExpired token: String) -> ErrorMessage? {
        expiredTokens.refusal(of: token, because: "the token: expired")
    }

    /// The socket is gone.
    package func disconnect(_ number: UInt64) {
        guard let peer = peers.removeValue(forKey: number) else { return }
        peer.connection.end()
        submitRequests(of: peer)
    }

    /// A part of a message has come: a frame of the WebSocket.
    package func receive(_ part: [UInt8], isFirst: Bool, isLast: Bool, from number: UInt64) {
        guard let peer = peers[number] else { return }
        let frame = WebSocketFrame(
            fin: isLast, opcode: isFirst ? .binary : .continuation, maskKey: [0, 0, 0, 0], data: ByteBuffer(bytes: part)
        )
        do throws(FramingError) {
            guard case .message(let message)? = try peer.assembler.take(frame) else { return }
            peer.connection.receive(Array(message.readableBytesView))
            submitRequests(of: peer)
        } catch {
            disconnect(number)
        }
    }

    /// The messages to send now, at most as many as there is room for.
    package func messages(to number: UInt64, countMax: Int) -> [Output] {
        guard let peer = peers[number] else { return [] }
        var messages: [Output] = []
        while messages.count < countMax, let outbound = peer.connection.next() {
            switch outbound {
            case .message(let message): messages.append(.message(message))
            case .lastMessage(let message):
                messages += [.message(message), .close(1000)]
            case .close(let code): messages.append(.close(code))
            }
        }
        submitRequests(of: peer)
        peer.canSend = messages.count < countMax
        return messages
    }

    /// One piece of output for a socket.
    package enum Output {
        case message(EncodedMessage)
        /// The end of the WebSocket, with this code.
        case close(UInt16)
    }

    /// Returns true if the client has come by another connection, so that this one has to be closed.
    package func isSuperseded(_ number: UInt64) -> Bool { peers[number]?.connection.isSuperseded ?? false }

    private func submitRequests(of peer: Peer) {
        for request in peer.connection.takeRequests() { files.submit(request) }
    }

    // MARK: Turns

    /// Lets one file take a turn, and delivers the results to connections.
    /// - Returns: whether there was anything to do.
    package func takeTurn() -> Bool {
        let hasTurn = files.takeTurn()
        let waiting = replies.waiting
        replies.waiting = []
        for reply in waiting {
            guard let peer = peers[reply.session.connection.number] else { continue }
            peer.connection.receive(reply, canSend: peer.canSend)
        }
        return hasTurn
    }

    // MARK: What else servers do

    /// Makes a write of the server itself.
    /// - Parameter complete: called with the outcome.
    package func write(
        to path: VirtualPath, at time: ChangesetTime, _ body: @escaping @Sendable (WriteTransaction) throws -> Void,
        _ complete: @escaping @Sendable (Result<ServerVersion, any Error>) -> Void
    ) {
        let job = FileJob(comesAfterMerge: true) { file in
            file?.write(idempotencyKey: nil, at: time, body) { complete($0.map(\.version)) }
        }
        files.submit(job, to: path)
    }

    /// Makes a file trim what it need not keep.
    package func maintain(_ path: VirtualPath) {
        files.submit(FileJob(comesAfterMerge: false) { $0?.maintain { _ in } }, to: path)
    }

    /// Another node may have written to a file.
    package func wake(_ path: VirtualPath) { files.notify(path, .follow) }

    /// Does the work that is due every second and every hour.
    package func tick() {
        files.environment.clock.record()
        for path in paths {
            files.notify(path, .updateConnected)
            files.notify(path, .writeProgress)
            if files.environment.store.isShared { files.notify(path, .follow) }
        }
    }

    /// Checks all connections after permissions have changed.
    package func recheckPermissions() {
        for number in peers.keys.sorted() {
            guard let peer = peers[number] else { continue }
            peer.connection.recheckPermissions()
            submitRequests(of: peer)
        }
    }

    /// The app's export has changed.
    package func followExport() {
        for path in paths { files.submit(FileJob(comesAfterMerge: false) { try? $0?.followExport() }, to: path) }
    }

    /// The memory of requests that are not done, and of long messages that are not sent, in bytes.
    package var bytesInUse: (requests: Int, messages: Int) {
        (files.budget.bytesInUse, files.messageMemory.bytesInUse)
    }

    /// The part of the memory for long messages that a message occupies, in bytes.
    package static func bytesInUse(by message: EncodedMessage) -> Int {
        (message.attachment?.object as? MemoryPermit)?.bytes ?? 0
    }

    /// The number of DOWNLOADs that wait for such memory.
    package var waitingDownloadCount: Int { files.messageMemory.waitingCount }
}

extension Logger {
    fileprivate static var silent: Logger { Logger(label: "", factory: { _ in SwiftLogNoOpLogHandler() }) }
}

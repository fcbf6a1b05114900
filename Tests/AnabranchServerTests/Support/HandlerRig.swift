import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOWebSocket

@testable import AnabranchServer

extension DownloadProgress {
    static let beginning = DownloadProgress(
        cursor: DownloadCursor(), latest: SaltedVersion(version: 0, salt: 0), upload: UploadCursor(),
        downloadableBytes: 0)
}

/// A WebSocket without a socket, with the event loop's clock in the hands of the test. Its files are there, but nothing
/// that they reply comes back.
struct HandlerRig {
    let channel = EmbeddedChannel()
    let files: FileQueues
    let memory: MessageMemory
    private let connections = ConnectionRegistry()
    private let id: ConnectionID
    private(set) weak var handler: SyncHandler?

    /// - Parameters:
    ///   - uploads: the memory of requests to files.
    ///   - isIdentified: whether messages may be long from the beginning.
    ///   - change: what is to be different about the settings.
    init(
        uploads: MemoryBudget = MemoryBudget(bytesMax: .max), isIdentified: Bool = true,
        change: (inout ServerSettings) -> Void = { _ in }
    ) throws {
        var settings = ServerSettings.small
        change(&settings)
        let environment = FileEnvironment(
            store: InMemoryStore(), metrics: SyncMetrics(), logger: .quiet, budget: uploads, unixSeconds: { 1 })
        files = FileQueues(environment, threads: 1) { _ in }
        let head = HTTPRequestHead(
            version: .http1_1, method: .GET, uri: "/realm-sync",
            headers: [
                "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": WebSocketClient.offer,
            ])
        let handshake = try SyncHandshake(head)
        let accepted = AcceptedHandshake(
            app: "", principal: Principal(app: ""), negotiation: handshake.negotiation, remote: nil,
            closeCode: nil)
        id = connections.newID()
        let connection = SyncConnection(
            id, negotiation: handshake.negotiation, principal: Principal(app: ""),
            limits: settings.limits, metrics: SyncMetrics(), logger: .quiet)
        let silence = SilenceDetector(limit: .milliseconds(settings.limits.silenceMillisecondsMax))
        memory = MessageMemory(
            messageBytesMax: settings.limits.messageBytesMax, queryBytesMax: 0, limit: .seconds(60),
            budget: files.messageMemory
        ) {}
        memory.isIdentified = isIdentified
        let handler = SyncHandler(
            connection, accepted, silence: silence, memory: memory, settings: settings, connections: connections,
            outbox: RequestOutbox(channel.eventLoop, to: files), logger: .quiet)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers([silence, memory])
        try pipeline.addHandler(ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: 32 << 20)))
        try pipeline.addHandler(handler)
        self.handler = handler
    }

    /// As if a file had said it, of a session that has ended unless the client has bound it.
    func deliver(_ event: SessionEvent) { deliver([event], to: 1...1) }

    /// As if files had said it, to so many of the first sessions that the client has bound, which have the idents 1, 2
    /// and so on: all of it comes together.
    /// - Parameter cursor: what a DOWNLOAD follows that was not asked for.
    func deliver(_ events: [SessionEvent], to sessions: ClosedRange<UInt64>, follows cursor: DownloadCursor? = nil) {
        let replies = sessions.flatMap { number in
            let session = SessionHandle(ident: SessionID(number), serial: number)
            return events.map { event in
                FileReply(
                    session: SessionKey(connection: id, session: session), event: event, follows: cursor)
            }
        }
        connections.deliver(TurnReplies(replies: replies))
        channel.embeddedEventLoop.run()
    }

    func receive(_ bytes: some Sequence<UInt8>) throws { try channel.writeInbound(ByteBuffer(bytes: bytes)) }

    /// The next message, whose frame is one piece.
    func message() throws -> String? {
        let frame = try channel.readOutbound(as: ByteBuffer.self)
        return frame.map { String(decoding: $0.readableBytesView.dropFirst(2), as: UTF8.self) }
    }

    func wait(seconds: Int64) { channel.embeddedEventLoop.advanceTime(by: .seconds(seconds)) }
}

import Logging
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// The HTTP side of one socket, up to the moment when it becomes a WebSocket (`Spec/Protocol.md`, section 2).
///
/// A client whose token is refused is turned away by an HTTP status if it is old, and else by a close code, because the
/// sockets of some platforms do not show a status to the client (section 2.4).
final class FrontDoor: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// Somebody whose socket is a WebSocket now.
    struct Visitor: Sendable {
        let handshake: SyncHandshake
        /// Who the client files belong to, if anybody in particular.
        let user: String?
        /// The code of the close frame with which the visit has to end at once.
        let refusal: WebSocketErrorCode?

        /// Who it is, for the log: never the token.
        func metadata(from address: SocketAddress?) -> Logger.Metadata {
            var metadata: Logger.Metadata = ["protocol": "\(handshake.negotiation.element)"]
            if let host = address?.ipAddress, let port = address?.port { metadata["remote"] = "\(host):\(port)" }
            if !handshake.credentials.app.isEmpty { metadata["app"] = "\(handshake.credentials.app.prefix(200))" }
            if let user { metadata["user"] = "\(user)" }
            return metadata
        }
    }

    private let authenticator: any Authenticator
    private let patience: TimeAmount
    /// Puts what serves the visitor into the pipeline of the socket.
    private let entrance: (any Channel, Visitor) throws -> Void
    private var timer: Scheduled<Void>?
    /// The answer to the request that is being received.
    private var answer: (refusal: HTTPRefusal, isLast: Bool)?
    /// Why a handshake that was in order is not answered with 101.
    private var refusal: HTTPRefusal?
    private var visitor: Visitor?

    init(
        authenticator: any Authenticator, patience: TimeAmount,
        entrance: @escaping (any Channel, Visitor) throws -> Void
    ) {
        self.authenticator = authenticator
        self.patience = patience
        self.entrance = entrance
    }

    /// Puts HTTP, the door and the way through it into a new socket's pipeline.
    static func install(_ door: FrontDoor, in channel: any Channel, frameBytesMax: Int) throws {
        let bound = NIOLoopBound(door, eventLoop: channel.eventLoop)
        let upgrader = NIOWebSocketServerUpgrader(
            maxFrameSize: frameBytesMax, automaticErrorHandling: false,
            shouldUpgrade: { channel, head in bound.value.decide(head, on: channel.eventLoop) },
            upgradePipelineHandler: { channel, _ in
                channel.eventLoop.makeCompletedFuture { try bound.value.enter(channel) }
            })
        try channel.pipeline.syncOperations.configureHTTPServerPipeline(
            withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in }))
        try channel.pipeline.syncOperations.addHandler(door)
    }

    // MARK: The handshake

    /// The extra headers of the 101, or nil: then the request goes on to `channelRead`, which answers it.
    private func decide(_ head: HTTPRequestHead, on eventLoop: any EventLoop) -> EventLoopFuture<HTTPHeaders?> {
        guard let handshake = try? SyncHandshake(head) else { return eventLoop.makeSucceededFuture(nil) }
        let authenticator = authenticator
        return eventLoop.makeFutureWithTask { await authenticator.admit(handshake.credentials) }
            .assumeIsolated().map { self.decide(handshake, $0) }.nonisolated()
    }

    private func decide(_ handshake: SyncHandshake, _ admission: Admission) -> HTTPHeaders? {
        let closeCode: WebSocketErrorCode
        switch admission {
        case .admitted(let user):
            visitor = Visitor(handshake: handshake, user: user, refusal: nil)
            return ["Sec-WebSocket-Protocol": handshake.negotiation.element]
        case .tokenRefused:
            refusal = .unauthorized
            closeCode = WebSocketErrorCode(codeNumber: 4001)
        case .userRefused:
            refusal = .forbidden
            closeCode = WebSocketErrorCode(codeNumber: 4002)
        }
        if handshake.negotiation.usesOldCloseStyle { return nil }
        visitor = Visitor(handshake: handshake, user: nil, refusal: closeCode)
        return ["Sec-WebSocket-Protocol": handshake.negotiation.element]
    }

    private func enter(_ channel: any Channel) throws {
        timer?.cancel()
        guard let visitor else { return }
        channel.pipeline.syncOperations.removeHandler(self, promise: nil)
        try entrance(channel, visitor)
    }

    // MARK: Other requests

    func handlerAdded(context: ChannelHandlerContext) { expectRequest(context) }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            answer = (refusal(of: head), !head.isKeepAlive)
        case .body:
            break
        case .end:
            guard let answer else { return }
            self.answer = nil
            send(answer.refusal, isLast: answer.isLast, context)
        }
    }

    /// There is one endpoint so far, and its requests get here only if they are refused.
    private func refusal(of head: HTTPRequestHead) -> HTTPRefusal {
        if let refusal { return refusal }
        do {
            _ = try SyncHandshake(head)
            return .badRequest("a WebSocket is the first request of its connection")
        } catch {
            return error
        }
    }

    private func send(_ refusal: HTTPRefusal, isLast: Bool, _ context: ChannelHandlerContext) {
        let body = ByteBuffer(string: refusal.json)
        let head = HTTPResponseHead(
            version: .http1_1, status: refusal.status,
            headers: [
                "Content-Type": "application/json", "Content-Length": "\(body.readableBytes)",
                "Connection": isLast ? "close" : "keep-alive",
            ])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        let sent = context.eventLoop.makePromise(of: Void.self)
        if isLast { sent.futureResult.assumeIsolated().whenComplete { _ in context.close(promise: nil) } }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: sent)
        expectRequest(context)
    }

    /// A request has to be complete within the time for handshakes, however slowly it drips.
    private func expectRequest(_ context: ChannelHandlerContext) {
        timer?.cancel()
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: patience) { context.close(promise: nil) }
    }

    /// A malformed request has been answered further up; what else goes wrong here ends the socket.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is NIOWebSocketUpgradeError { return }
        context.close(promise: nil)
    }
}

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
        let member: Member
        /// The code of the close frame with which the visit has to end at once.
        let refusal: WebSocketErrorCode?

        /// Who it is, for the log: never the token.
        func metadata(from address: SocketAddress?) -> Logger.Metadata {
            var metadata: Logger.Metadata = ["protocol": "\(handshake.negotiation.element)"]
            if let host = address?.ipAddress, let port = address?.port { metadata["remote"] = "\(host):\(port)" }
            if !handshake.credentials.app.isEmpty { metadata["app"] = "\(handshake.credentials.app.prefix(200))" }
            if let user = member.user { metadata["user"] = "\(user)" }
            return metadata
        }
    }

    private let authenticator: any Authenticator
    private let endpoints: any HTTPEndpoints
    private let patience: TimeAmount
    private let bodyBytesMax: Int
    private let isSecure: Bool
    /// Puts what serves the visitor into the pipeline of the socket.
    private let entrance: (any Channel, Visitor) throws -> Void
    private var timer: Scheduled<Void>?
    private var request = Request.none
    /// Why a handshake that was in order is not answered with 101.
    private var refusal: HTTPRefusal?
    private var visitor: Visitor?

    /// The request that is being received.
    private enum Request {
        case none
        case receiving(HTTPRequestHead, body: ByteBuffer)
        /// Nothing of the rest is of interest.
        case refused(HTTPRefusal, isLast: Bool)
    }

    init(
        authenticator: any Authenticator, endpoints: any HTTPEndpoints, settings: ServerSettings, isSecure: Bool,
        entrance: @escaping (any Channel, Visitor) throws -> Void
    ) {
        self.authenticator = authenticator
        self.endpoints = endpoints
        patience = .seconds(settings.handshakeSecondsMax)
        bodyBytesMax = settings.bodyBytesMax
        self.isSecure = isSecure
        self.entrance = entrance
    }

    /// Puts HTTP, the door and the way through it into a new socket's pipeline.
    static func install(_ door: FrontDoor, in channel: any Channel, frameBytesMax: Int) throws {
        let bound = NIOLoopBound(door, eventLoop: channel.eventLoop)
        let upgrader = NIOWebSocketServerUpgrader(
            maxFrameSize: frameBytesMax, automaticErrorHandling: false,
            shouldUpgrade: { channel, head in bound.value.decide(head, on: channel) },
            upgradePipelineHandler: { channel, _ in
                channel.eventLoop.makeCompletedFuture { try bound.value.enter(channel) }
            })
        try channel.pipeline.syncOperations.configureHTTPServerPipeline(
            withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in }))
        try channel.pipeline.syncOperations.addHandler(door)
    }

    // MARK: The handshake

    /// The extra headers of the 101, or nil: then the request goes on to `channelRead`, which answers it.
    private func decide(_ head: HTTPRequestHead, on channel: any Channel) -> EventLoopFuture<HTTPHeaders?> {
        let address = channel.remoteAddress?.ipAddress
        guard let handshake = try? SyncHandshake(head, from: address) else {
            return channel.eventLoop.makeSucceededFuture(nil)
        }
        let authenticator = authenticator
        return channel.eventLoop.makeFutureWithTask { await authenticator.admit(handshake.credentials) }
            .assumeIsolated().map { self.decide(handshake, $0) }.nonisolated()
    }

    private func decide(_ handshake: SyncHandshake, _ admission: Admission) -> HTTPHeaders? {
        let closeCode: WebSocketErrorCode
        switch admission {
        case .admitted(let member):
            visitor = Visitor(handshake: handshake, member: member, refusal: nil)
            return ["Sec-WebSocket-Protocol": handshake.negotiation.element]
        case .tokenRefused:
            refusal = .unauthorized
            closeCode = WebSocketErrorCode(codeNumber: 4001)
        case .userRefused:
            refusal = .forbidden
            closeCode = WebSocketErrorCode(codeNumber: 4002)
        case .unavailable:
            refusal = .unavailable
            return nil
        }
        if handshake.negotiation.usesOldCloseStyle { return nil }
        visitor = Visitor(
            handshake: handshake, member: Member(app: handshake.credentials.app), refusal: closeCode)
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
            request = begin(head)
        case .body(let part):
            guard case .receiving(let head, var body) = request else { return }
            request = .none  // so that the bytes are not copied for the sake of a second owner
            guard part.readableBytes <= bodyBytesMax - body.readableBytes else {
                request = .refused(.bodyTooLarge, isLast: true)
                return
            }
            body.writeImmutableBuffer(part)
            request = .receiving(head, body: body)
        case .end:
            defer { request = .none }
            switch request {
            case .none: break
            case .refused(let refusal, let isLast): send(HTTPExchangeAnswer(refusal), isLast: isLast, context)
            case .receiving(let head, let body): answer(head, body, context)
            }
        }
    }

    private func begin(_ head: HTTPRequestHead) -> Request {
        let isLast = Self.isLast(head)
        if let refusal { return .refused(refusal, isLast: isLast) }
        if SyncHandshake.isMeant(by: head) {
            do {
                _ = try SyncHandshake(head)
                return .refused(.badRequest("a WebSocket is the first request of its connection"), isLast: isLast)
            } catch {
                return .refused(error, isLast: isLast)
            }
        }
        return .receiving(head, body: ByteBuffer())
    }

    /// A body where there must be none, as after HEAD, is harmless if nothing follows it. What follows a request for another
    /// protocol is not read as HTTP.
    private static func isLast(_ head: HTTPRequestHead) -> Bool {
        !head.isKeepAlive || head.method == .HEAD || head.method == .CONNECT || head.headers.contains(name: "upgrade")
    }

    private func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ context: ChannelHandlerContext) {
        timer?.cancel()
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let request = HTTPExchangeRequest(
            method: head.method, path: parts.first.map(String.init) ?? "",
            query: parts.count > 1 ? String(parts[1]) : "", headers: head.headers, body: Array(buffer: body),
            address: context.remoteAddress?.ipAddress, isSecure: isSecure)
        let endpoints = endpoints
        context.eventLoop.makeFutureWithTask { await endpoints.answer(request) }
            .assumeIsolated().whenSuccess { answer in
                if context.channel.isActive { self.send(answer, isLast: Self.isLast(head), context) }
            }
    }

    private func send(_ answer: HTTPExchangeAnswer, isLast: Bool, _ context: ChannelHandlerContext) {
        var headers: HTTPHeaders = ["Connection": isLast ? "close" : "keep-alive"]
        if answer.status.mayHaveResponseBody {
            headers.add(name: "Content-Type", value: answer.contentType)
            headers.add(name: "Content-Length", value: "\(answer.body.utf8.count)")
        }
        let head = HTTPResponseHead(version: .http1_1, status: answer.status, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if answer.status.mayHaveResponseBody, !answer.body.isEmpty {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: answer.body)))), promise: nil)
        }
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

import NIOCore
import NIOHTTP1
import NIOWebSocket

/// Answers the requests of one socket, one after the other: each is collected, within bounds of time and size, and
/// handed to the endpoints.
final class HTTPHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let endpoints: any HTTPEndpoints
    private let patience: TimeAmount
    private let bodyBytesMax: Int
    private let isSecure: Bool
    private let metrics: DoorMetrics
    /// What is answered in place of the endpoints; nil for a request that they shall answer.
    private let refusal: (HTTPRequestHead) -> HTTPRefusal?
    private var timer: Scheduled<Void>?
    private var request = Request.none

    /// The request that is being received.
    private enum Request {
        case none
        case receiving(HTTPRequestHead, body: ByteBuffer)
        /// Nothing of the rest is of interest.
        case refused(HTTPRefusal, isLast: Bool)
    }

    /// - Parameter isSecure: whether the socket speaks TLS.
    init(
        endpoints: any HTTPEndpoints, settings: ServerSettings, isSecure: Bool, metrics: DoorMetrics,
        refusal: @escaping (HTTPRequestHead) -> HTTPRefusal? = { _ in nil }
    ) {
        self.endpoints = endpoints
        patience = .seconds(settings.handshakeSecondsMax)
        bodyBytesMax = settings.bodyBytesMax
        self.isSecure = isSecure
        self.metrics = metrics
        self.refusal = refusal
    }

    func handlerAdded(context: ChannelHandlerContext) { expectRequest(context) }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            if let refusal = refusal(head) {
                request = .refused(refusal, isLast: Self.isLast(head))
            } else {
                request = .receiving(head, body: ByteBuffer())
                encourage(head, context)
            }
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

    /// Some clients wait a second before they send a longer body, unless they are told to go on.
    private func encourage(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        guard head.headers[canonicalForm: "expect"].contains(where: { $0.lowercased() == "100-continue" }) else {
            return
        }
        let answer = HTTPResponseHead(version: .http1_1, status: .continue)
        context.writeAndFlush(wrapOutboundOut(.head(answer)), promise: nil)
    }

    /// A body where there must be none, as after HEAD, is harmless if nothing follows it. What follows a request for
    /// another protocol is not read as HTTP.
    private static func isLast(_ head: HTTPRequestHead) -> Bool {
        !head.isKeepAlive || head.method == .HEAD || head.method == .CONNECT || head.headers.contains(name: "upgrade")
    }

    private func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ context: ChannelHandlerContext) {
        timer?.cancel()
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let request = HTTPExchangeRequest(
            method: head.method, path: parts.first.map(String.init) ?? "",
            query: parts.count > 1 ? String(parts[1]) : "", headers: head.headers, body: Array(buffer: body),
            address: context.remoteAddress?.client, isSecure: isSecure)
        let endpoints = endpoints
        context.eventLoop.makeFutureWithTask { await endpoints.answer(request) }
            .assumeIsolated().whenSuccess { answer in
                if context.channel.isActive { self.send(answer, isLast: Self.isLast(head), context) }
            }
    }

    private func send(_ answer: HTTPExchangeAnswer, isLast: Bool, _ context: ChannelHandlerContext) {
        metrics.answered(answer.status)
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

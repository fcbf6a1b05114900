import AnabranchProtocol
import Logging
import Metrics
import NIOCore
import NIOHTTP1
import NIOSSL
import NIOWebSocket

/// Answers the requests of one socket, one after the other: collects each, within limits of time and size, and passes
/// it to the endpoints. While the client has not read an answer, no further request is taken, and the socket is not
/// read; a `StallDetector` closes it in the end.
final class HTTPHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// The longest head of a request, and the longest trailers, in bytes.
    static let headBytesMax = 80 << 10
    /// The lines of a head and its trailers.
    static let headLinesMax = 256
    /// What is read at one go: the requests in it wait in memory for the answers to those before them.
    static let readBytesMax = 4 << 10

    private let origin: ClientOrigin
    private let endpoints: any HTTPEndpoints
    private let requestTimeout: TimeAmount
    private let lingerTimeout: TimeAmount
    private let bodyBytesMax: Int
    /// Of the request that is being received.
    private var currentBodyBytesMax = 0
    private let onHead: (HTTPRequestHead) -> Int?
    private let isSecure: Bool
    private let metrics: ConnectionMetrics
    private let logger: Logger
    private let upgrade: WebSocketUpgrade?
    private var timer: Scheduled<Void>?
    private var request = Request.none

    /// The request that is being received.
    private enum Request {
        case none
        case receiving(HTTPRequestHead, body: ByteBuffer)
        /// The rest of it is ignored.
        case refused(HTTPError, isLast: Bool)
        /// There was the last one of the socket. What comes is dropped.
        case over
    }

    /// Sets up a socket's pipeline: HTTP, and the upgrade from it to a WebSocket if there is one.
    /// - Parameters:
    ///   - isSecure: whether the socket speaks TLS.
    ///   - onHead: called with the head of each request. Returns how long the body may be if it has to be long.
    static func install(
        in channel: any Channel, from origin: ClientOrigin, endpoints: any HTTPEndpoints, settings: ServerSettings,
        isSecure: Bool, metrics: ConnectionMetrics, logger: Logger,
        upgrade: WebSocketUpgrade? = nil, onHead: @escaping (HTTPRequestHead) -> Int? = { _ in nil }
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        let handler = HTTPHandler(
            origin, endpoints, settings, isSecure: isSecure, metrics, logger, upgrade, onHead)
        let stall = StallDetector(limit: .milliseconds(settings.limits.stallMillisecondsMax)) {
            metrics.connectionsStalled.increment()
            logger.info("the client has stopped", metadata: ["what": "reading an answer"])
        }
        let handlers = NIOLoopBound([handler, stall] as [any RemovableChannelHandler], eventLoop: channel.eventLoop)
        try pipeline.addHandler(stall, position: .first)
        try channel.syncOptions?.setOption(
            .recvAllocator,
            value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 2_048, maximum: readBytesMax))
        try pipeline.configureHTTPServerPipeline(
            withServerUpgrade: upgrade.map { upgrade in
                (
                    upgraders: [upgrade.upgrader(on: channel.eventLoop)],
                    completionHandler: { context in
                        for handler in handlers.value {
                            context.pipeline.syncOperations.removeHandler(handler, promise: nil)
                        }
                    }
                )
            }, withErrorHandling: false, withEncoderConfiguration: HTTPResponseEncoder.Configuration(),
            withDecoderLimitConfiguration: limits)
        try pipeline.addHandler(handler)
    }

    /// What the decoder allows.
    private static var limits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = headBytesMax
        limits.maxHeaderListSize = headBytesMax
        limits.maxHeaderFieldCount = headLinesMax
        return limits
    }

    private init(
        _ origin: ClientOrigin, _ endpoints: any HTTPEndpoints, _ settings: ServerSettings, isSecure: Bool,
        _ metrics: ConnectionMetrics, _ logger: Logger, _ upgrade: WebSocketUpgrade?,
        _ onHead: @escaping (HTTPRequestHead) -> Int?
    ) {
        self.origin = origin
        self.endpoints = endpoints
        requestTimeout = .seconds(settings.handshakeSecondsMax)
        lingerTimeout = .seconds(settings.lingerSecondsMax)
        bodyBytesMax = settings.bodyBytesMax
        self.onHead = onHead
        self.isSecure = isSecure
        self.metrics = metrics
        self.logger = logger
        self.upgrade = upgrade
    }

    func handlerAdded(context: ChannelHandlerContext) { close(context, in: requestTimeout) }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .over = request { return }
        switch unwrapInboundIn(data) {
        case .head(let received):
            let head = upgrade?.withoutBasePath(received) ?? received
            if let error = upgrade?.error(for: head) {
                request = .refused(HTTPError(error), isLast: Self.isLast(head))
            } else {
                request = .receiving(head, body: ByteBuffer())
                currentBodyBytesMax = onHead(head) ?? bodyBytesMax
                sendContinue(head, context)
            }
        case .body(let part):
            guard case .receiving(let head, var body) = request else { return }
            request = .none  // so that the bytes have one owner and are not copied
            guard part.readableBytes <= currentBodyBytesMax - body.readableBytes else {
                request = .refused(.bodyTooLarge, isLast: true)
                return
            }
            body.writeImmutableBuffer(part)
            request = .receiving(head, body: body)
        case .end:
            // The answer can bring the next request before the call returns.
            let complete = request
            request = .none
            switch complete {
            case .none, .over: break
            case .refused(let error, let isLast): send(EndpointResponse(error), isLast: isLast, context)
            case .receiving(let head, let body): respond(to: head, body, context)
            }
        }
    }

    /// Answers `Expect: 100-continue`. Clients that send it wait for the answer, often a second, before they send a
    /// longer body.
    private func sendContinue(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        guard head.headers[canonicalForm: "expect"].contains(where: { $0.lowercased() == "100-continue" }) else {
            return
        }
        let response = HTTPResponseHead(version: .http1_1, status: .continue)
        context.writeAndFlush(wrapOutboundOut(.head(response)), promise: nil)
    }

    /// Whether the socket closes after the response. After HEAD too: a body, where there must be none, does no harm if
    /// nothing follows it. After a request for another protocol, what follows is not HTTP.
    private static func isLast(_ head: HTTPRequestHead) -> Bool {
        !head.isKeepAlive || head.method == .HEAD || head.method == .CONNECT || head.headers.contains(name: "upgrade")
    }

    private func respond(to head: HTTPRequestHead, _ body: ByteBuffer, _ context: ChannelHandlerContext) {
        timer?.cancel()
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let request = EndpointRequest(
            method: head.method, path: parts.first.map(String.init) ?? "",
            query: parts.count > 1 ? String(parts[1]) : "", headers: head.headers, body: Array(buffer: body),
            address: origin.address(of: head)?.client, isSecure: isSecure)
        let endpoints = endpoints
        context.eventLoop.makeFutureWithTask { await endpoints.respond(to: request) }
            .assumeIsolated().whenSuccess { response in
                if context.channel.isActive { self.send(response, isLast: Self.isLast(head), context) }
            }
    }

    /// Sends an answer. The end of it, which lets the next request in and has the socket read again, waits until the
    /// socket has taken the rest.
    private func send(_ response: EndpointResponse, isLast: Bool, _ context: ChannelHandlerContext) {
        timer?.cancel()
        if isLast { request = .over }
        metrics.answered(response.status)
        var headers: HTTPHeaders = ["Connection": isLast ? "close" : "keep-alive"]
        if response.status.mayHaveResponseBody {
            headers.add(name: "Content-Type", value: response.contentType)
            headers.add(name: "Content-Length", value: "\(response.body.utf8.count)")
        }
        let head = HTTPResponseHead(version: .http1_1, status: response.status, headers: headers)
        let taken = context.eventLoop.makePromise(of: Void.self)
        taken.futureResult.assumeIsolated().whenSuccess { self.finishAnswer(isLast: isLast, context) }
        if response.status.mayHaveResponseBody, !response.body.isEmpty {
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            let body = ByteBuffer(string: response.body)
            context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(body))), promise: taken)
        } else {
            context.writeAndFlush(wrapOutboundOut(.head(head)), promise: taken)
        }
    }

    /// - Parameter isLast: whether the connection ends. What the client still sends is read and dropped until it ends
    ///   its side, or for a while: a socket that is closed with something unread loses the answer on its way.
    private func finishAnswer(isLast: Bool, _ context: ChannelHandlerContext) {
        close(context, in: isLast ? lingerTimeout : requestTimeout)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        if isLast { context.close(mode: .output, promise: nil) }
    }

    /// Closes the socket unless something better happens before: a whole request, the upgrade, or the client's end.
    private func close(_ context: ChannelHandlerContext, in time: TimeAmount) {
        timer?.cancel()
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: time) { context.close(promise: nil) }
    }

    /// What is no request is refused; any other error ends the socket.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case is NIOWebSocketUpgradeError: return
        case let error as HTTPParserError: return refuse(error, context)
        // What comes behind the end of what can be read.
        case ByteToMessageDecoderError.dataReceivedInErrorState: return
        case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError: note(failureOfTLS: error)
        default: break
        }
        context.close(promise: nil)
    }

    /// Nothing can be read after an error of the decoder, which may tell more than one.
    private func refuse(_ error: HTTPParserError, _ context: ChannelHandlerContext) {
        if case .over = request { return }
        let refusal =
            error == .headerOverflow
            ? HTTPError(
                status: .requestHeaderFieldsTooLarge, code: "HeadTooLarge",
                message: "the head has more than \(Self.headBytesMax) bytes or \(Self.headLinesMax) lines")
            : .badRequest("no request of HTTP/1.1")
        send(EndpointResponse(refusal), isLast: true, context)
    }

    private func note(failureOfTLS error: any Error) {
        metrics.failedTLS()
        let remote = origin.address?.hostAndPort ?? "unknown"
        logger.notice("TLS has failed", metadata: ["remote": "\(remote)", "reason": "\(Self.words(of: error))"])
    }

    /// What it means, with the name that the TLS library gives it, without the places in its source that it also tells.
    private static func words(of error: any Error) -> String {
        let text = "\(error)"
        guard let name = text.firstMatch(of: /OPENSSL_internal:(\w+)/)?.output.1 else { return text }
        switch name {
        case "HTTP_REQUEST": return "HTTP came in place of TLS (\(name))"
        case "UNSUPPORTED_PROTOCOL": return "the client knows only old versions of TLS (\(name))"
        case "WRONG_VERSION_NUMBER": return "what came is no TLS (\(name))"
        // Clients of TLS 1.3 say so in a form that is broken by then.
        case "BAD_PACKET_LENGTH": return "the client has broken off; it may not trust the certificate (\(name))"
        case _ where name.contains("ALERT") && name.contains(/UNKNOWN_CA|CERTIFICATE/):
            return "the client does not trust the certificate (\(name))"
        default: return String(name)
        }
    }
}

import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import NIOWebSocket

/// Answers the requests of one socket, one after the other: collects each, within limits of time and size, and passes
/// it to the endpoints.
final class HTTPHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let origin: ClientOrigin
    private let endpoints: any HTTPEndpoints
    private let requestTimeout: TimeAmount
    private let bodyBytesMax: Int
    /// Of the request that is being received.
    private var currentBodyBytesMax = 0
    private let longBodyBytesMax: (@Sendable (HTTPRequestHead) -> Int?)?
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
    }

    /// Sets up a socket's pipeline: HTTP, and the upgrade from it to a WebSocket if there is one.
    /// - Parameters:
    ///   - isSecure: whether the socket speaks TLS.
    ///   - longBodyBytesMax: how long the body may be of a request that needs a long one.
    static func install(
        in channel: any Channel, from origin: ClientOrigin, endpoints: any HTTPEndpoints, settings: ServerSettings,
        isSecure: Bool, metrics: ConnectionMetrics, logger: Logger,
        longBodyBytesMax: (@Sendable (HTTPRequestHead) -> Int?)? = nil, upgrade: WebSocketUpgrade? = nil
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        let handler = HTTPHandler(
            origin, endpoints, settings, isSecure: isSecure, metrics, logger, longBodyBytesMax, upgrade)
        if let upgrade {
            let http = NIOLoopBound(handler, eventLoop: channel.eventLoop)
            try pipeline.configureHTTPServerPipeline(
                withServerUpgrade: (
                    upgraders: [upgrade.upgrader(on: channel.eventLoop)],
                    completionHandler: { context in
                        context.pipeline.syncOperations.removeHandler(http.value, promise: nil)
                    }
                ))
        } else {
            try pipeline.configureHTTPServerPipeline()
        }
        try pipeline.addHandler(handler)
    }

    private init(
        _ origin: ClientOrigin, _ endpoints: any HTTPEndpoints, _ settings: ServerSettings, isSecure: Bool,
        _ metrics: ConnectionMetrics, _ logger: Logger, _ longBodyBytesMax: (@Sendable (HTTPRequestHead) -> Int?)?,
        _ upgrade: WebSocketUpgrade?
    ) {
        self.origin = origin
        self.endpoints = endpoints
        requestTimeout = .seconds(settings.handshakeSecondsMax)
        bodyBytesMax = settings.bodyBytesMax
        self.longBodyBytesMax = longBodyBytesMax
        self.isSecure = isSecure
        self.metrics = metrics
        self.logger = logger
        self.upgrade = upgrade
    }

    func handlerAdded(context: ChannelHandlerContext) { expectRequest(context) }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            if let error = upgrade?.error(for: head) {
                request = .refused(HTTPError(error), isLast: Self.isLast(head))
            } else {
                request = .receiving(head, body: ByteBuffer())
                currentBodyBytesMax = longBodyBytesMax?(head) ?? bodyBytesMax
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
            defer { request = .none }
            switch request {
            case .none: break
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

    private func send(_ response: EndpointResponse, isLast: Bool, _ context: ChannelHandlerContext) {
        metrics.answered(response.status)
        var headers: HTTPHeaders = ["Connection": isLast ? "close" : "keep-alive"]
        if response.status.mayHaveResponseBody {
            headers.add(name: "Content-Type", value: response.contentType)
            headers.add(name: "Content-Length", value: "\(response.body.utf8.count)")
        }
        let head = HTTPResponseHead(version: .http1_1, status: response.status, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if response.status.mayHaveResponseBody, !response.body.isEmpty {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: response.body)))), promise: nil)
        }
        let sent = context.eventLoop.makePromise(of: Void.self)
        if isLast { sent.futureResult.assumeIsolated().whenComplete { _ in context.close(promise: nil) } }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: sent)
        expectRequest(context)
    }

    /// Closes the socket unless a whole request, or the upgrade, comes within the time for handshakes.
    private func expectRequest(_ context: ChannelHandlerContext) {
        timer?.cancel()
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: requestTimeout) { context.close(promise: nil) }
    }

    /// SwiftNIO answers malformed requests itself; any other error ends the socket.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is NIOWebSocketUpgradeError { return }
        if error is NIOSSLError || error is BoringSSLError || error is NIOSSLExtraError { note(failureOfTLS: error) }
        context.close(promise: nil)
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

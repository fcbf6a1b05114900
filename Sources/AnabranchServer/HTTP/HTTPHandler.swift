import AnabranchProtocol
import Logging
import Metrics
import NIOCore
import NIOHTTP1
import NIOSSL
import NIOWebSocket

/// Answers the requests of one socket, one after the other: takes each within limits of time and size, and passes it to
/// the endpoints of its route. While the client has not read an answer, no further request is taken, and the socket is
/// not read; a `StallDetector` closes it in the end.
///
///     head ─▶ collecting ─ end ──▶ answering ─ answer taken ─▶ head
///         ╰─▶ streaming, answering ─ end ─▶ answering
///     any ── refusal, or an answer before the end of the request ──▶ over
final class HTTPHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = Never
    typealias OutboundOut = HTTPServerResponsePart

    /// The longest head of a request, and the longest trailers, in bytes.
    static let headBytesMax = 80 << 10
    /// The lines of a head and its trailers.
    static let headLinesMax = 256
    /// The most that is read at once: the requests in it wait in memory for the answers to those before them.
    static let readBytesMax = 4 << 10
    /// The longest body that is collected without a permit for memory, and within the time for any request.
    static let freeBodyBytesMax = 64 << 10
    /// How fast a longer body has to come on average, in bytes a second.
    static let bodyBytesPerSecondMin = 16 << 10

    let origin: ClientOrigin
    private let route: (HTTPRequestHead) -> HTTPRoute
    let requestTimeout: TimeAmount
    let lingerTimeout: TimeAmount
    private let bodyBytesMax: Int
    let isSecure: Bool
    let metrics: ConnectionMetrics
    let logger: Logger
    let users: ConnectionLimit?
    private let bodyMemory: MemoryBudget?
    private let upgrade: WebSocketUpgrade?
    private(set) var timer: Scheduled<Void>?
    var request = Request.none
    /// The answer that is being made or sent.
    var answer: Answer?
    private var isReadHeld = false
    private var isReadPending = false
    var isShuttingDown = false

    /// The request that is being received.
    enum Request {
        case none
        case collecting(Collected)
        case streaming(RequestStream)
        /// The rest of it is ignored.
        case refused(HTTPError, isLast: Bool)
        /// There was the last one of the socket. What comes is dropped.
        case over
    }

    init(
        _ origin: ClientOrigin, _ settings: ServerSettings, isSecure: Bool, _ metrics: ConnectionMetrics,
        _ logger: Logger, _ users: ConnectionLimit?, _ bodyMemory: MemoryBudget?, _ upgrade: WebSocketUpgrade?,
        _ route: @escaping (HTTPRequestHead) -> HTTPRoute
    ) {
        self.origin = origin
        self.route = route
        requestTimeout = .seconds(settings.handshakeSecondsMax)
        lingerTimeout = .seconds(settings.lingerSecondsMax)
        bodyBytesMax = settings.bodyBytesMax
        self.isSecure = isSecure
        self.metrics = metrics
        self.logger = logger
        self.users = users
        self.bodyMemory = bodyMemory
        self.upgrade = upgrade
    }

    func handlerAdded(context: ChannelHandlerContext) { close(context, in: requestTimeout) }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
        abandon()
    }

    func channelInactive(context: ChannelHandlerContext) {
        abandon()
        context.fireChannelInactive()
    }

    /// Nobody is there to be answered.
    private func abandon() {
        request = .over
        endAnswer()?.cancel()
    }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let received): begin(received, context)
        case .body(let part): take(part, context)
        case .end: end(context)
        }
    }

    private func begin(_ received: HTTPRequestHead, _ context: ChannelHandlerContext) {
        if case .over = request { return }
        let head = upgrade?.withoutBasePath(received) ?? received
        if let error = upgrade?.error(for: head) {
            request = .refused(HTTPError(error), isLast: Self.isLast(head))
            return
        }
        let route = route(head), form = route.body ?? .whole(bytesMax: bodyBytesMax)
        // The parser takes lengths up to 2^64: one that is no `Int` is longer than all that is taken.
        let announced = head.headers.first(name: "content-length").map { Int($0) ?? .max }
        guard announced ?? 0 <= form.bytesMax else {
            return send(EndpointResponse(.bodyTooLarge), isLast: true, context)
        }
        switch form {
        case .whole(let bytesMax):
            let expected = head.headers.contains(name: "transfer-encoding") ? bytesMax : announced ?? 0
            collect(Collected(head: head, route: route, bytesMax: bytesMax), expected: expected, context)
        case .stream(let bytesMax):
            let handler = NIOLoopBound(self, eventLoop: context.eventLoop), eventLoop = context.eventLoop
            let context = NIOLoopBound(context, eventLoop: eventLoop)
            let stream = RequestStream(bytesMax: bytesMax) {
                eventLoop.execute { handler.value.resumeReading(context.value) }
            }
            request = .streaming(stream)
            watchStream(context.value)
            sendContinue(head, context.value)
            respond(to: head, of: route, .stream(stream.parts, byteCount: announced), room: .unneeded, context.value)
        }
    }

    /// - Parameter expected: how long the body is, or can be, in bytes.
    private func collect(_ collected: Collected, expected: Int, _ context: ChannelHandlerContext) {
        if expected > Self.freeBodyBytesMax {
            let seconds = expected / Self.bodyBytesPerSecondMin
            close(context, in: requestTimeout + .seconds(Int64(seconds)))
            if let bodyMemory {
                if let permit = bodyMemory.permit(for: expected) {
                    collected.room = .permitted(permit)
                } else {
                    // The client is not to blame for the time that this takes.
                    timer?.cancel()
                    isReadHeld = true
                    let handler = NIOLoopBound(self, eventLoop: context.eventLoop), eventLoop = context.eventLoop
                    let context = NIOLoopBound(context, eventLoop: eventLoop)
                    let wait = bodyMemory.wait(for: expected) { permit in
                        eventLoop.execute { handler.value.take(permit, for: expected, context.value) }
                    }
                    collected.room = .waiting(wait)
                    request = .collecting(collected)
                    return
                }
            }
        }
        request = .collecting(collected)
        sendContinue(collected.head, context)
    }

    /// There is memory for the body.
    private func take(_ permit: MemoryPermit, for expected: Int, _ context: ChannelHandlerContext) {
        guard case .collecting(let collected) = request, case .waiting = collected.room else { return }
        collected.room = .permitted(permit)
        close(context, in: requestTimeout + .seconds(Int64(expected / Self.bodyBytesPerSecondMin)))
        sendContinue(collected.head, context)
        resumeReading(context)
    }

    private func take(_ part: ByteBuffer, _ context: ChannelHandlerContext) {
        switch request {
        case .none, .refused, .over: break
        case .collecting(let collected):
            guard part.readableBytes <= collected.bytesMax - collected.body.readableBytes else {
                request = .none
                return send(EndpointResponse(.bodyTooLarge), isLast: true, context)
            }
            collected.body.writeImmutableBuffer(part)
        case .streaming(var stream):
            request = .none
            do throws(HTTPError) {
                isReadHeld = try !stream.append(part)
                request = .streaming(stream)
                if isReadHeld { timer?.cancel() }
            } catch {
                stream.refuse()
                endAnswer()?.cancel()
                send(EndpointResponse(error), isLast: true, context)
            }
        }
    }

    private func end(_ context: ChannelHandlerContext) {
        // The answer can bring the next request before the call returns.
        let complete = request
        if case .over = complete { return }
        request = .none
        switch complete {
        case .none, .over: break
        case .refused(let error, let isLast): send(EndpointResponse(error), isLast: isLast, context)
        case .collecting(let collected):
            respond(
                to: collected.head, of: collected.route, .whole(Array(buffer: collected.body)), room: collected.room,
                context)
        case .streaming(let stream):
            timer?.cancel()
            stream.finish()
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

    /// True if the socket closes after the response: after a request for another protocol, what follows is not HTTP.
    static func isLast(_ head: HTTPRequestHead) -> Bool {
        !head.isKeepAlive || head.method == .CONNECT || head.headers.contains(name: "upgrade")
    }

    // MARK: Reading

    func read(context: ChannelHandlerContext) {
        if isReadHeld { isReadPending = true } else { context.read() }
    }

    func resumeReading(_ context: ChannelHandlerContext) {
        isReadHeld = false
        if case .streaming = request { watchStream(context) }
        guard isReadPending else { return }
        isReadPending = false
        context.read()
    }

    /// Closes the socket if its client sends too little of a body that is wanted.
    private func watchStream(_ context: ChannelHandlerContext) {
        timer?.cancel()
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: requestTimeout) {
            switch self.takeProgress() {
            case nil: break
            case true?: self.watchStream(context)
            case false?:
                self.logger.info("the client has stopped", metadata: ["what": "sending a body"])
                context.close(promise: nil)
            }
        }
    }

    /// Returns true if the client has gone on sending the body; nil if there is none under way.
    private func takeProgress() -> Bool? {
        guard case .streaming(var stream) = request else { return nil }
        defer { request = .streaming(stream) }
        return stream.takeProgress(of: StallDetector.bytesMin)
    }

    /// Closes the socket unless something better happens before: a whole request, the upgrade, or the client's end.
    func close(_ context: ChannelHandlerContext, in time: TimeAmount) {
        timer?.cancel()
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: time) { context.close(promise: nil) }
    }

    // MARK: Errors

    /// Refuses bytes that are not a request; any other error ends the socket.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case is NIOWebSocketUpgradeError: return
        case let error as HTTPParserError: return refuse(error, context)
        // Bytes after the last that can be read.
        case ByteToMessageDecoderError.dataReceivedInErrorState: return
        case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError: log(failureOfTLS: error)
        default: break
        }
        context.close(promise: nil)
    }

    /// Nothing can be read after an error of the decoder, which may tell more than one.
    private func refuse(_ error: HTTPParserError, _ context: ChannelHandlerContext) {
        if case .over = request { return }
        // An endpoint may be reading the body: it gets the error first, and its answer is then ignored.
        request = .over
        endAnswer()?.cancel()
        let refusal =
            error == .headerOverflow
            ? HTTPError(
                status: .requestHeaderFieldsTooLarge, code: "HeadTooLarge",
                message: "the head has more than \(Self.headBytesMax) bytes or \(Self.headLinesMax) lines")
            : .badRequest("no request of HTTP/1.1")
        send(EndpointResponse(refusal), isLast: true, context)
    }

    private func log(failureOfTLS error: any Error) {
        metrics.failedTLS()
        let remote = origin.address?.hostAndPort ?? "unknown"
        metrics.refusalLines.log(
            "TLS has failed", from: origin.address?.client,
            ["remote": "\(remote)", "reason": "\(TLSFailure.words(of: error))"], to: logger)
    }
}

import AnabranchCore
import AnabranchHTTP
import NIOCore
import NIOHTTP1
import NIOSSL
import NIOWebSocket

/// The handshake of a client (`Spec/Protocol.md`, sections 2.1 and 2.2).
struct WebSocketOpening: Sendable {
    let head: HTTPRequestHead
    let protocols: [String]
    let tls: (@Sendable () throws -> NIOSSLClientHandler)?
    let messageBytesMax: Int

    /// The longest header line of the server, in bytes.
    static let headerBytesMax = 8_192
    /// The longest head of the server's answer, in bytes.
    static let headBytesMax = 64 << 10
    /// The largest number of header lines of the server.
    static let headersMax = 100

    private enum Outcome {
        case opened(WebSocketConnection)
        case refused(EventLoopFuture<TransportError>)
    }

    // MARK: The request

    /// - Throws: `TransportError` if something in it cannot be sent.
    static func head(of request: WebSocketRequest, to url: WebURL) throws(TransportError) -> HTTPRequestHead {
        guard !request.protocols.isEmpty, request.protocols.allSatisfy({ isWord($0, without: ", ") }) else {
            throw TransportError(.invalidRequest, "no protocol that can be offered")
        }
        var headers: HTTPHeaders = [
            "Host": url.authority, "Sec-WebSocket-Protocol": request.protocols.joined(separator: ", "),
        ]
        let given = [("User-Agent", request.userAgent)] + request.headers
        for (name, value) in given {
            let isOurs = ["host", "connection", "upgrade"].contains(name.lowercased())
            guard isWord(name, without: "()<>@,;:\\\"/[]?={} "), !isOurs,
                !name.lowercased().hasPrefix("sec-websocket-"), value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f })
            else { throw TransportError(.invalidRequest, "a header that cannot be sent: '\(name)'") }
            headers.add(name: name, value: value)
        }
        return HTTPRequestHead(version: .http1_1, method: .GET, uri: url.target, headers: headers)
    }

    /// True if a text is visible ASCII without the excluded characters.
    private static func isWord(_ text: String, without excluded: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && !excluded.utf8.contains($0) }
    }

    // MARK: The connection

    /// Sets up a channel before it connects.
    /// - Returns: a future of the open connection. It fails with `TransportError` if the server does not let the client
    ///   in.
    @Sendable func configure(_ channel: any Channel) throws -> EventLoopFuture<WebSocketConnection> {
        let pipeline = channel.pipeline.syncOperations
        try channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
        try pipeline.addHandler(LateEndHandler())
        if let tls { try pipeline.addHandler(try tls()) }
        let upgrader = NIOTypedWebSocketClientUpgrader<Outcome>(
            maxFrameSize: messageBytesMax, enableAutomaticErrorHandling: false,
            upgradePipelineHandler: { channel, answer in
                channel.eventLoop.makeCompletedFuture { .opened(try open(channel, answer)) }
            })
        var configuration = NIOUpgradableHTTPClientPipelineConfiguration(
            upgradeConfiguration: NIOTypedHTTPClientUpgradeConfiguration(
                upgradeRequestHead: head, upgraders: [upgrader],
                notUpgradingCompletionHandler: { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let refusal = channel.eventLoop.makePromise(of: TransportError.self)
                        try channel.pipeline.syncOperations.addHandler(RefusalHandler(refusal))
                        return .refused(refusal.futureResult)
                    }
                }))
        configuration.leftOverBytesStrategy = .forwardBytes
        configuration.decoderConfiguration.maxHeaderFieldSize = Self.headerBytesMax
        configuration.decoderConfiguration.maxHeaderListSize = Self.headBytesMax
        configuration.decoderConfiguration.maxHeaderFieldCount = Self.headersMax
        return try pipeline.configureUpgradableHTTPClientPipeline(configuration: configuration)
            .flatMap { [eventLoop = channel.eventLoop] outcome in
                switch outcome {
                case .opened(let connection): eventLoop.makeSucceededFuture(connection)
                case .refused(let refusal): refusal.flatMapThrowing { throw $0 }
                }
            }
    }

    /// - Throws: `TransportError` if the server has chosen something that was not offered.
    private func open(_ channel: any Channel, _ answer: HTTPResponseHead) throws -> WebSocketConnection {
        let chosen = answer.headers["sec-websocket-protocol"]
        guard chosen.count == 1, protocols.contains(chosen[0]) else {
            throw TransportError(.badAnswer, "it has chosen no protocol that was offered")
        }
        guard !answer.headers.contains(name: "sec-websocket-extensions") else {
            throw TransportError(.badAnswer, "it uses an extension that was not offered")
        }
        try channel.syncOptions?.setOption(.autoRead, value: false)
        let receiver = WebSocketReceiver(messageBytesMax: messageBytesMax)
        try channel.pipeline.syncOperations.addHandler(receiver)
        return WebSocketConnection(channel, receiver, chosenProtocol: chosen[0])
    }
}

/// Closes the channel a moment after its end has been read. NIO's HTTP decoder leaves the pipeline a moment after it
/// has read the answer: without this, messages and an end that come together with the answer would be lost, and with
/// them the server's reason.
private final class LateEndHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case ChannelEvent.inputClosed = event else { return context.fireUserInboundEventTriggered(event) }
        close(context: context, mode: .all, promise: nil)
    }

    /// The close that TLS asks for when it has read the server's end.
    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        context.eventLoop.assumeIsolated().execute { context.close(mode: mode, promise: promise) }
    }
}

/// Reads the answer of a server that does not let the client in.
private final class RefusalHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    /// The length to which the text of a refusal is passed on, in bytes.
    static let textBytesMax = 512

    private let refusal: EventLoopPromise<TransportError>
    private var status = HTTPResponseStatus.badRequest
    private var text: [UInt8] = []

    init(_ refusal: EventLoopPromise<TransportError>) { self.refusal = refusal }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): status = head.status
        case .body(let part):
            text += part.readableBytesView.prefix(Self.textBytesMax - text.count)
            if text.count == Self.textBytesMax { finish(context) }
        case .end: finish(context)
        }
    }

    func channelInactive(context: ChannelHandlerContext) { finish(context) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { finish(context) }

    func handlerRemoved(context: ChannelHandlerContext) { finish(context) }

    private func finish(_ context: ChannelHandlerContext) {
        let words = String(decoding: text, as: UTF8.self).split(whereSeparator: \.isWhitespace).joined(separator: " ")
        refusal.succeed(
            TransportError(
                .refused(status: Int(status.code)),
                "it refuses the WebSocket with status \(status)\(words.isEmpty ? "" : ": \(words)")"))
        context.close(promise: nil)
    }
}

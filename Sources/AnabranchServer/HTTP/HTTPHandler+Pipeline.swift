import AnabranchProtocol
import Logging
import Metrics
import NIOCore
import NIOHTTP1

extension HTTPHandler {
    /// Sets up a socket's pipeline: HTTP, and the upgrade from it to a WebSocket if there is one.
    /// - Parameters:
    ///   - isSecure: whether the socket uses TLS.
    ///   - users: the limit for the connections of each user; nil for none.
    ///   - bodyMemory: the memory for long bodies; nil if they need no permit.
    ///   - route: called with the head of each request.
    static func install(
        in channel: any Channel, from origin: ClientOrigin, settings: ServerSettings, isSecure: Bool,
        metrics: ConnectionMetrics, logger: Logger, users: ConnectionLimit? = nil, bodyMemory: MemoryBudget? = nil,
        upgrade: WebSocketUpgrade? = nil, route: @escaping (HTTPRequestHead) -> HTTPRoute
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        let handler = HTTPHandler(
            origin, settings, isSecure: isSecure, metrics, logger, users, bodyMemory, upgrade, route)
        let stall = StallDetector(limit: .milliseconds(settings.limits.stallMillisecondsMax)) {
            metrics.connectionsStalled.increment()
            logger.info("the client has stopped", metadata: ["what": "reading an answer"])
        }
        let shutdown = ShutdownObserver { handler.endLongAnswers() }
        let handlers = NIOLoopBound(
            [handler, stall, shutdown] as [any RemovableChannelHandler], eventLoop: channel.eventLoop)
        try pipeline.addHandlers([stall, shutdown], position: .first)
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

    /// The limits of the decoder.
    private static var limits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = headBytesMax
        limits.maxHeaderListSize = headBytesMax
        limits.maxHeaderFieldCount = headLinesMax
        return limits
    }
}

/// Sees the beginning of a shutdown, which the pipeline of HTTP keeps to itself.
private final class ShutdownObserver: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let onShutdown: () -> Void

    init(_ onShutdown: @escaping () -> Void) { self.onShutdown = onShutdown }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent { onShutdown() }
        context.fireUserInboundEventTriggered(event)
    }
}

import AnabranchProtocol
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// The handshake of a client (`Spec/Protocol.md`, section 2.1).
enum WebSocketOpening {
    /// The longest message that the server may send, in bytes.
    private static let frameBytesMax = Int(UInt32.max)

    /// - Parameter onOpen: called when the socket is a WebSocket, on its event loop.
    /// - Returns: a future that succeeds when the server has agreed; it fails if the server does not let the client in.
    static func configure(
        _ channel: any Channel, for target: SyncTarget, onOpen: @escaping @Sendable (any Channel) throws -> Void
    ) throws -> EventLoopFuture<Void> {
        let upgrader = NIOTypedWebSocketClientUpgrader<Void>(
            maxFrameSize: frameBytesMax, enableAutomaticErrorHandling: false,
            upgradePipelineHandler: { channel, _ in
                channel.eventLoop.makeCompletedFuture { try onOpen(channel) }
            })
        let head = HTTPRequestHead(
            version: .http1_1, method: .GET, uri: target.path,
            headers: [
                "Host": target.authority, "Sec-WebSocket-Protocol": target.release.offer(of: target.mode),
                "User-Agent": target.release.userAgent,
            ])
        var configuration = NIOUpgradableHTTPClientPipelineConfiguration(
            upgradeConfiguration: NIOTypedHTTPClientUpgradeConfiguration<Void>(
                upgradeRequestHead: head, upgraders: [upgrader],
                notUpgradingCompletionHandler: { channel in
                    let refusal = channel.eventLoop.makePromise(of: Void.self)
                    do {
                        try channel.pipeline.syncOperations.addHandler(RefusalHandler(refusal, target.advice))
                    } catch {
                        refusal.fail(error)
                    }
                    return refusal.futureResult
                }))
        configuration.leftOverBytesStrategy = .forwardBytes
        return try channel.pipeline.syncOperations.configureUpgradableHTTPClientPipeline(configuration: configuration)
    }
}

/// Reads the answer of a server that does not let the client in.
private final class RefusalHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    private var refusal: EventLoopPromise<Void>?

    private let advice: String

    init(_ refusal: EventLoopPromise<Void>, _ advice: String) { (self.refusal, self.advice) = (refusal, advice) }

    private func refuse(_ reason: String) {
        refusal?.fail(TestClientError(reason))
        refusal = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(let head) = unwrapInboundIn(data) else { return }
        let reason =
            switch head.status {
            case .unauthorized, .forbidden: advice
            case .serviceUnavailable: ": it has as many connections as it wants, or as many of this user"
            default: ""
            }
        refuse("the server refuses the WebSocket with status \(head.status)\(reason)")
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        refuse("the server closed the socket in place of an answer")
    }
}

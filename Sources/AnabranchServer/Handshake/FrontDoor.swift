import Logging
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// Decides which sockets become WebSockets (`Spec/Protocol.md`, section 2); all other requests go to the endpoints.
///
/// A client whose token is refused is turned away by an HTTP status if it is old, and else by a close code, because the
/// sockets of some platforms do not show a status to the client (section 2.4).
final class FrontDoor {
    /// Somebody whose socket is a WebSocket now.
    struct Visitor: Sendable {
        let handshake: SyncHandshake
        let member: Member
        /// The code of the close frame with which the visit has to end at once.
        let refusal: WebSocketErrorCode?

        /// Who it is, for the log: never the token.
        func metadata(from address: SocketAddress?) -> Logger.Metadata {
            var metadata: Logger.Metadata = ["protocol": "\(handshake.negotiation.element)"]
            if let remote = address?.hostAndPort { metadata["remote"] = "\(remote)" }
            if !handshake.credentials.app.isEmpty { metadata["app"] = "\(handshake.credentials.app.prefix(200))" }
            if let user = member.user { metadata["user"] = "\(user)" }
            return metadata
        }
    }

    private let authenticator: any Authenticator
    private let users: Crowd
    private let metrics: DoorMetrics
    /// Puts what serves the visitor into the pipeline of the socket.
    private let entrance: (any Channel, Visitor) throws -> Void
    /// Why a handshake that was in order is not answered with 101.
    private var refusal: HTTPRefusal?
    private var visitor: Visitor?

    /// - Parameter users: the users who have connections, with the number of them.
    init(
        authenticator: any Authenticator, users: Crowd, metrics: DoorMetrics,
        entrance: @escaping (any Channel, Visitor) throws -> Void
    ) {
        self.authenticator = authenticator
        self.users = users
        self.metrics = metrics
        self.entrance = entrance
    }

    /// Puts HTTP, the door and the way through it into a new socket's pipeline.
    func install(
        in channel: any Channel, endpoints: any HTTPEndpoints, settings: ServerSettings, isSecure: Bool
    ) throws {
        let door = NIOLoopBound(self, eventLoop: channel.eventLoop)
        let upgrader = NIOWebSocketServerUpgrader(
            maxFrameSize: settings.limits.messageBytesMax, automaticErrorHandling: false,
            shouldUpgrade: { channel, head in door.value.decide(head, on: channel) },
            upgradePipelineHandler: { channel, _ in
                channel.eventLoop.makeCompletedFuture { try door.value.enter(channel) }
            })
        let pipeline = channel.pipeline.syncOperations
        try pipeline.configureHTTPServerPipeline(
            withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in }))
        try pipeline.addHandler(
            HTTPHandler(endpoints: endpoints, settings: settings, isSecure: isSecure, metrics: metrics) { head in
                self.refusal(of: head)
            })
    }

    /// The extra headers of the 101, or nil: then the request goes on to the `HTTPHandler`, which answers it.
    private func decide(_ head: HTTPRequestHead, on channel: any Channel) -> EventLoopFuture<HTTPHeaders?> {
        let address = channel.remoteAddress?.client
        guard let handshake = try? SyncHandshake(head, from: address) else {
            return channel.eventLoop.makeSucceededFuture(nil)
        }
        let authenticator = authenticator
        return channel.eventLoop.makeFutureWithTask { await authenticator.admit(handshake.credentials) }
            .assumeIsolated().map { self.decide(handshake, $0, on: channel) }.nonisolated()
    }

    private func decide(_ handshake: SyncHandshake, _ admission: Admission, on channel: any Channel) -> HTTPHeaders? {
        metrics.decided(admission)
        let closeCode: WebSocketErrorCode
        switch admission {
        case .admitted(let member):
            guard users.admit(member, until: channel.closeFuture) else {
                metrics.turnedAway("user")
                refusal = .unavailable
                return nil
            }
            visitor = Visitor(handshake: handshake, member: member, refusal: nil)
            return ["Sec-WebSocket-Protocol": handshake.negotiation.element]
        case .tokenRefused:
            refusal = .unauthorized
            closeCode = .tokenRefused
        case .userRefused:
            refusal = .forbidden
            closeCode = .userRefused
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
        guard let visitor else { return }
        let pipeline = channel.pipeline.syncOperations
        pipeline.removeHandler(try pipeline.handler(type: HTTPHandler.self), promise: nil)
        try entrance(channel, visitor)
    }

    /// What a request is told that the endpoints shall not see.
    private func refusal(of head: HTTPRequestHead) -> HTTPRefusal? {
        if let refusal { return refusal }
        guard SyncHandshake.isMeant(by: head) else { return nil }
        do {
            _ = try SyncHandshake(head)
            return .badRequest("a WebSocket is the first request of its connection")
        } catch {
            return error
        }
    }
}

extension WebSocketErrorCode {
    /// The client fetches another token and comes back (`Spec/Protocol.md`, section 2.3).
    static let tokenRefused = WebSocketErrorCode(codeNumber: 4001)
    /// The client logs its user out.
    static let userRefused = WebSocketErrorCode(codeNumber: 4002)
}

import AnabranchProtocol
import Logging
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// Decides whether the first request of a socket becomes a WebSocket (`Spec/Protocol.md`, section 2).
///
/// An old client whose token is refused gets an HTTP status, a newer one a close code: the sockets of some platforms do
/// not show a status to the client (section 2.4).
final class WebSocketUpgrade {
    private let authenticator: any Authenticator
    private let origin: ClientOrigin
    private let addresses: OpenChannels
    private let users: ConnectionLimit
    private let basePath: String
    private let messageBytesMax: Int
    private let metrics: ConnectionMetrics
    private let logger: Logger
    private let dialects: [WireDialect]
    private let expiredTokens: ExpiredTokens
    /// The kind of sync of an app; nil if clients of both kinds may come.
    private let mode: (_ app: String) -> SyncMode?
    private let refusals: RecentRefusals?
    /// Adds the handlers of the sync protocol to the socket's pipeline.
    private let onUpgrade: (any Channel, AcceptedHandshake) throws -> Void
    private let text: TextUpgrade?
    /// The reason why a well-formed handshake was not accepted.
    private var error: HandshakeError?
    private var accepted: AcceptedHandshake?
    private var acceptedText: TextUpgrade.Accepted?

    /// - Parameters:
    ///   - origin: whose socket it is.
    ///   - addresses: the limit for the sockets of each address, for those that a proxy passes on.
    ///   - users: the limit for the WebSockets of each user.
    ///   - basePath: as in `ServerSettings`.
    ///   - messageBytesMax: the longest frame, in bytes.
    ///   - dialects: those that are served.
    ///   - expiredTokens: those that clients of forks have come with.
    ///   - mode: the kind of sync of an app; nil if clients of both kinds may come.
    ///   - refusals: where clients of the wrong kind are recorded, for an operator; nil for nowhere.
    ///   - text: the wires of text messages; nil for none.
    ///   - onUpgrade: called when the socket is a WebSocket, on its event loop.
    init(
        authenticator: any Authenticator, origin: ClientOrigin, addresses: OpenChannels, users: ConnectionLimit,
        basePath: String = "", messageBytesMax: Int, metrics: ConnectionMetrics, logger: Logger,
        dialects: [WireDialect] = [.realm], expiredTokens: ExpiredTokens = ExpiredTokens(),
        mode: @escaping (_ app: String) -> SyncMode? = { _ in .partition },
        refusals: RecentRefusals? = nil, text: TextUpgrade? = nil,
        onUpgrade: @escaping (any Channel, AcceptedHandshake) throws -> Void
    ) {
        self.authenticator = authenticator
        self.origin = origin
        self.addresses = addresses
        self.users = users
        self.basePath = basePath
        self.messageBytesMax = messageBytesMax
        self.metrics = metrics
        self.logger = logger
        self.dialects = dialects
        self.expiredTokens = expiredTokens
        self.mode = mode
        self.refusals = refusals
        self.text = text
        self.onUpgrade = onUpgrade
    }

    /// Connects the decision to SwiftNIO, which asks for it at each request for another protocol.
    func upgrader(on eventLoop: any EventLoop) -> NIOWebSocketServerUpgrader {
        let upgrade = NIOLoopBound(self, eventLoop: eventLoop)
        return NIOWebSocketServerUpgrader(
            maxFrameSize: messageBytesMax, automaticErrorHandling: false,
            shouldUpgrade: { channel, head in upgrade.value.decide(head, on: channel) },
            upgradePipelineHandler: { channel, _ in
                channel.eventLoop.makeCompletedFuture { try upgrade.value.finish(channel) }
            })
    }

    /// A request as if it had come without the path below which clients reach the server.
    func withoutBasePath(_ head: HTTPRequestHead) -> HTTPRequestHead {
        let path = head.uri.utf8.dropFirst(basePath.utf8.count)
        guard !basePath.isEmpty, head.uri.utf8.starts(with: basePath.utf8), path.first == UInt8(ascii: "/") else {
            return head
        }
        var head = head
        head.uri = String(Substring(path))
        return head
    }

    /// The reason why a request did not become a WebSocket; nil if it is not meant to be one.
    func error(for head: HTTPRequestHead) -> HandshakeError? {
        if let error { return error }
        guard SyncHandshake.isSyncRequest(head, in: dialects) else { return textError(for: head) }
        do {
            _ = try SyncHandshake(head, in: dialects)
            return .notFirst
        } catch {
            return error
        }
    }

    /// A path of a wire is also that of ordinary requests, without an upgrade.
    private func textError(for head: HTTPRequestHead) -> HandshakeError? {
        guard let text, head.headers.contains(name: "sec-websocket-version") else { return nil }
        do {
            return try text.accept(head, from: origin.address) == nil ? nil : .notFirst
        } catch {
            return error
        }
    }

    // MARK: The decision

    /// - Returns: the extra headers of the 101; nil if the request stays HTTP.
    private func decide(_ request: HTTPRequestHead, on channel: any Channel) -> EventLoopFuture<HTTPHeaders?> {
        let head = withoutBasePath(request)
        let forwarded = origin.forwarded(head)
        if let forwarded { origin.address = forwarded }
        guard let handshake = try? SyncHandshake(head, from: origin.address?.client, in: dialects) else {
            return channel.eventLoop.makeSucceededFuture(decideText(head, forwarded: forwarded, on: channel))
        }
        guard admit(forwarded, until: channel.closeFuture) else {
            return channel.eventLoop.makeSucceededFuture(refuse(.unavailable))
        }
        let authenticator = authenticator
        return channel.eventLoop.makeFutureWithTask { await authenticator.admit(handshake.credentials) }
            .assumeIsolated().map { self.decide(handshake, $0, on: channel) }.nonisolated()
    }

    /// A socket of text messages. Who its user is, its wire finds out.
    private func decideText(
        _ head: HTTPRequestHead, forwarded: SocketAddress?, on channel: any Channel
    ) -> HTTPHeaders? {
        guard let text, !SyncHandshake.isSyncRequest(head, in: dialects) else { return nil }
        do throws(HandshakeError) {
            guard let accepted = try text.accept(head, from: origin.address) else { return nil }
            guard admit(forwarded, until: channel.closeFuture) else { return refuse(.unavailable) }
            acceptedText = accepted
            return [:]
        } catch {
            return refuse(error)
        }
    }

    /// Counts the socket for the client that a proxy has named.
    private func admit(_ forwarded: SocketAddress?, until end: EventLoopFuture<Void>) -> Bool {
        do throws(OpenChannels.LimitError) {
            if let forwarded { try addresses.admit(forwarded, until: end) }
            return true
        } catch {
            metrics.turnedAway(error.rawValue)
            return false
        }
    }

    private func decide(_ handshake: SyncHandshake, _ admission: Admission, on channel: any Channel) -> HTTPHeaders? {
        metrics.decided(outcome: admission.outcome)
        switch admission {
        case .admitted(let principal):
            guard admit(principal, until: channel.closeFuture) else {
                metrics.turnedAway("user")
                return refuse(.unavailable)
            }
            let negotiation = mode(principal.app).map { handshake.negotiation(for: $0) } ?? handshake.negotiation
            let admitted = accepted(handshake, negotiation, principal)
            if let refusal = negotiation.refusal { record(refusal, of: admitted) }
            return accept(admitted)
        case .tokenRefused(let reason):
            if handshake.credentials.dialect.hasTokensOfIssuers,
                let message = expiredTokens.refusal(of: handshake.credentials.token, because: reason)
            {
                return refuse(handshake, with: message)
            }
            return refuse(handshake, .tokenRefused, closeCode: .tokenRefused, because: reason)
        case .userRefused(let reason):
            return refuse(handshake, .userRefused, closeCode: .userRefused, because: reason)
        case .unavailable:
            return refuse(.unavailable)
        }
    }

    /// Users whom the server does not know are not counted.
    private func admit(_ principal: Principal, until end: EventLoopFuture<Void>) -> Bool {
        principal.qualifiedName.map { users.admit($0, until: end) } ?? true
    }

    private func refuse(_ error: HandshakeError) -> HTTPHeaders? {
        self.error = error
        return nil
    }

    private func refuse(
        _ handshake: SyncHandshake, _ error: HandshakeError, closeCode: WebSocketErrorCode, because reason: String
    ) -> HTTPHeaders? {
        let refused = accepted(
            handshake, handshake.negotiation, Principal(app: handshake.credentials.app), closeCode: closeCode)
        log(refused, "\(UInt16(webSocketErrorCode: closeCode))", because: reason)
        return handshake.negotiation.usesOldCloseStyle ? refuse(error) : accept(refused)
    }

    private func refuse(_ handshake: SyncHandshake, with message: ErrorMessage) -> HTTPHeaders {
        var negotiation = handshake.negotiation
        negotiation.refusal = message
        let told = accepted(handshake, negotiation, Principal(app: handshake.credentials.app))
        log(told, "\(message.code.rawValue)", because: message.message)
        return accept(told)
    }

    /// Tells the operator of a client of the wrong kind or version, which is let in to be told so.
    private func record(_ refusal: ErrorMessage, of handshake: AcceptedHandshake) {
        let reason =
            switch refusal.code {
            case .switchToFlexibleSync: "the client has partitions, the app is flexible"
            case .switchToPartitionSync: "the client is flexible, the app has partitions"
            default: refusal.message
            }
        log(handshake, "\(refusal.code.rawValue)", because: reason)
        guard let user = handshake.principal.user else { return }
        refusals?.record(of: user, path: handshake.app, code: "\(refusal.code.rawValue)", reason: reason)
    }

    private func log(_ handshake: AcceptedHandshake, _ code: String, because reason: String) {
        let why: Logger.Metadata = ["code": "\(code)", "reason": "\(reason)"]
        metrics.refusalLines.log(
            "connection refused", from: origin.address?.client, handshake.metadata.merging(why) { $1 }, to: logger)
    }

    private func accept(_ handshake: AcceptedHandshake) -> HTTPHeaders {
        accepted = handshake
        return ["Sec-WebSocket-Protocol": handshake.negotiation.element]
    }

    private func accepted(
        _ handshake: SyncHandshake, _ negotiation: Negotiation, _ principal: Principal,
        closeCode: WebSocketErrorCode? = nil
    ) -> AcceptedHandshake {
        AcceptedHandshake(
            app: principal.app, principal: principal, negotiation: negotiation, remote: origin.address?.hostAndPort,
            closeCode: closeCode,
            expiry: principal.rights.expiresAt.map { expiredTokens.expiry(of: handshake.credentials.token, at: $0) })
    }

    private func finish(_ channel: any Channel) throws {
        if let accepted { try onUpgrade(channel, accepted) }
        if let acceptedText { try text?.onUpgrade(channel, acceptedText) }
    }
}

extension Admission {
    /// The label of the counter, one of `ConnectionMetrics.handshakeOutcomes`.
    fileprivate var outcome: String {
        switch self {
        case .admitted: "admitted"
        case .tokenRefused: "token_refused"
        case .userRefused: "user_refused"
        case .unavailable: "unavailable"
        }
    }
}

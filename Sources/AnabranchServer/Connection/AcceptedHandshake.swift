import AnabranchProtocol
import Logging
import NIOCore
import NIOWebSocket

/// The result of the handshake of a socket that is a WebSocket now.
struct AcceptedHandshake: Sendable {
    /// The app id; empty if the URL has none and no token names one.
    let app: String
    let principal: Principal
    let negotiation: Negotiation
    /// The address of the client, if it is known.
    let remote: String?
    /// The code of the close frame that ends the connection at once; nil if the client is admitted.
    let closeCode: WebSocketErrorCode?
    /// The expiry of the token that the connection depends on; nil if it does not expire.
    var expiry: ExpiredTokens.Expiry?

    /// Identifies the client in the log, without its token.
    var metadata: Logger.Metadata {
        var metadata: Logger.Metadata = [
            "protocol": "\(negotiation.element)", "release": "\(negotiation.release)",
        ]
        if let remote { metadata["remote"] = "\(remote)" }
        if !app.isEmpty { metadata["app"] = "\(app.prefix(200))" }
        if let user = principal.user { metadata["user"] = "\(user)" }
        return metadata
    }
}

extension WebSocketErrorCode {
    /// The client fetches another token and comes back (`Spec/Protocol.md`, section 2.3).
    static let tokenRefused = WebSocketErrorCode(codeNumber: 4001)
    /// The client logs its user out.
    static let userRefused = WebSocketErrorCode(codeNumber: 4002)
}

/// Why a WebSocket was not opened, or has ended (`Spec/Protocol.md`, sections 2.2, 2.3 and 2.5).
public struct TransportError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What happened, for programs.
    public enum Code: Equatable, Sendable {
        /// What was asked for is not possible: the URL, a header, a certificate of the settings. Nothing was sent.
        case invalidRequest
        /// There is no such host, or nobody listens there.
        case unreachable
        /// TLS has failed: the server's certificate is not trusted, or it speaks no TLS.
        case notTrusted
        /// The time for connecting was up.
        case timedOut
        /// The server has answered the request for a WebSocket with an HTTP status that is not 101.
        case refused(status: Int)
        /// The server has broken the rules of HTTP, of WebSocket or of section 2.2.
        case badAnswer
        /// The server has sent more than `NIOTransport.messageBytesMax` in one message.
        case messageTooLong
        /// The server has closed the WebSocket with this code; 1005 if it gave none.
        case closed(code: Int)
        /// The connection has ended without a word, or was closed here.
        case disconnected
    }

    /// What happened, for programs.
    public let code: Code
    /// The same for people, without tokens.
    public let reason: String

    /// The reason.
    public var description: String { reason }

    /// Puts the parts together.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }
}

/// The reason why a WebSocket was not opened, or has ended (`Spec/Protocol.md`, sections 2.2, 2.3 and 2.5).
public struct TransportError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Equatable, Sendable {
        /// The request is not possible: its URL, a header, or a certificate of the settings is not valid. Nothing was
        /// sent.
        case invalidRequest
        /// There is no such host, or it does not accept connections.
        case unreachable
        /// TLS has failed: the server's certificate is not trusted, or the port does not use TLS.
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
        /// The connection has ended without a close code, or was closed here.
        case disconnected
    }

    /// The kind of the error.
    public let code: Code
    /// The reason as text for people, without tokens.
    public let reason: String

    /// The reason.
    public var description: String { reason }

    /// An error with its reason, for transports of an application.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }
}

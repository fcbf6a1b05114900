/// The reason why a request does not become a WebSocket (`Spec/Protocol.md`, section 2).
enum HandshakeError: Error, Equatable {
    /// No WebSocket of the sync protocol is at this path.
    case unknownPath
    /// The request is for the sync protocol, and not well formed.
    case malformed(String)
    case tokenRefused
    case userRefused
    /// There are too many connections, or the authenticator cannot decide now.
    case unavailable

    static let notFirst = HandshakeError.malformed("a WebSocket is the first request of its connection")
}

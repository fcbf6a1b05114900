import NIOCore
import NIOHTTP1

/// The wires of text messages of a server, and what makes a socket one of theirs.
struct TextUpgrade: Sendable {
    /// A wire and the request that it has admitted.
    struct Accepted: Sendable {
        let wire: any TextWire
        let request: SocketRequest
        /// The address of the client, if it is known.
        let remote: String?
    }

    /// The longest headers of a request for a WebSocket, in bytes. They stay as long as the socket.
    static let headBytesMax = 8 << 10

    let wires: [any TextWire]
    /// True if the sockets use TLS.
    let isSecure: Bool
    /// Adds the handlers of a text socket to the socket's pipeline.
    let onUpgrade: @Sendable (any Channel, Accepted) throws -> Void

    /// - Returns: nil if the request is not a wire's.
    /// - Throws: `malformed`.
    func accept(_ head: HTTPRequestHead, from address: SocketAddress?) throws(HandshakeError) -> Accepted? {
        let uri = head.uri.utf8, mark = uri.firstIndex(of: UInt8(ascii: "?"))
        let request = SocketRequest(
            path: String(head.uri[..<(mark ?? uri.endIndex)]),
            query: mark.map { String(head.uri[uri.index(after: $0)...]) } ?? "", headers: head.headers,
            address: address?.client, isSecure: isSecure)
        guard let wire = wires.first(where: { $0.admits(request) }) else { return nil }
        try head.checkWebSocket()
        let bytes = head.headers.reduce(uri.count) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        guard bytes <= Self.headBytesMax else { throw .malformed("a head of more than \(Self.headBytesMax) bytes") }
        return Accepted(wire: wire, request: request, remote: address?.hostAndPort)
    }
}

import NIOCore
import NIOHTTP1

/// The client of a socket, for the limits and the log. It belongs to the socket's event loop.
final class ClientOrigin {
    private let proxies: TrustedProxies
    /// True if a trusted proxy is at the other end.
    let isProxy: Bool
    private let usesForwardedFor: Bool
    /// The other end of the socket, or the client that the PROXY header has named.
    var address: SocketAddress?

    init(of channel: any Channel, _ settings: ServerSettings) {
        address = channel.remoteAddress
        proxies = settings.trustedProxies
        isProxy = proxies.contains(channel.remoteAddress)
        usesForwardedFor = isProxy && !settings.usesProxyProtocol
    }

    /// The client that a proxy has named in a request; nil if no proxy has.
    func forwarded(_ head: HTTPRequestHead) -> SocketAddress? {
        usesForwardedFor ? proxies.client(in: head.headers) : nil
    }

    /// The client that makes a request.
    func address(of head: HTTPRequestHead) -> SocketAddress? { forwarded(head) ?? address }
}

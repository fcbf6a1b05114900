import AnabranchHTTP
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Opens WebSockets with SwiftNIO, over TCP or TLS (`Spec/Protocol.md`, section 2).
///
/// Messages are read from the socket only as fast as they are received from here, and a message counts as sent when the
/// operating system has accepted it. A task that is cancelled while connecting, sending or receiving closes the
/// connection.
public struct NIOTransport: Transport {
    /// The longest time that connecting may take, in milliseconds: the look-up of the address, TCP, TLS and the
    /// server's answer (`Spec/Protocol.md`, section 13).
    public var connectMillisecondsMax = 120_000
    /// The longest message of the server, in bytes; longer ones end the connection. At most 4 GiB − 1.
    public var messageBytesMax = 128 << 20

    private let tls: ClientTLS

    /// - Parameter tls: the servers to trust if the URL is one of `wss`.
    public init(tls: TLSOptions = TLSOptions()) { self.tls = ClientTLS(tls) }

    /// See `Transport`.
    public func connect(_ request: WebSocketRequest) async throws -> any TransportConnection {
        guard let url = WebURL(request.url, ports: ["ws": 80, "wss": 443]) else {
            throw TransportError(.invalidRequest, "a server's URL is like ws://host:port, and not '\(request.url)'")
        }
        let opening = WebSocketOpening(
            head: try WebSocketOpening.head(of: request, to: url), protocols: request.protocols,
            tls: url.scheme == "wss" ? try tls.handlers(for: url.host) : nil,
            messageBytesMax: min(max(messageBytesMax, 0), Int(UInt32.max)))
        do {
            return try await OutgoingConnection.open(
                host: url.host, port: url.port, within: .milliseconds(Int64(connectMillisecondsMax)),
                configure: opening.configure)
        } catch {
            throw Self.transportError(error, at: url)
        }
    }

    /// The `TransportError` for a failure to connect; a `CancellationError` stays what it is.
    private static func transportError(_ error: any Error, at url: WebURL) -> any Error {
        func because(_ code: TransportError.Code, _ reason: String? = nil) -> TransportError {
            TransportError(code, "\(url.authority): \(reason ?? OutgoingConnection.reason(error))")
        }
        switch error {
        case let error as TransportError: return TransportError(error.code, "\(url.authority): \(error.reason)")
        case is CancellationError: return error
        case is OutgoingConnection.TimeoutError: return because(.timedOut)
        case is NIOConnectionError, ChannelError.connectTimeout: return because(.unreachable)
        case NIOSSLError.uncleanShutdown: return because(.disconnected)
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError: return because(.notTrusted)
        case is HTTPParserError: return because(.badAnswer, "its answer is not HTTP: \(error)")
        case let error as NIOHTTPClientUpgradeError where error == .upgraderDeniedUpgrade:
            return because(.badAnswer, "its Sec-WebSocket-Accept is wrong")
        case is NIOHTTPClientUpgradeError: return because(.badAnswer, "it switches to something else than a WebSocket")
        case is ChannelError:
            return because(.disconnected, "it closed the connection in place of an answer")
        default: return because(.disconnected)
        }
    }
}

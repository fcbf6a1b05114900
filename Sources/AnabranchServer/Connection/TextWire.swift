public import NIOHTTP1

/// A protocol of text messages over WebSockets, served in addition to Realm's (`Spec/Server.md`, section 8).
///
/// The server does the framing, limits memory and time, and shuts down; the wire reads and writes messages.
public protocol TextWire: Sendable {
    /// The limits of the wire's sockets; read when a socket opens.
    var settings: TextWireSettings { get }

    /// Returns true if a request for a WebSocket is this wire's, by its path. Asked on an event loop, for each request
    /// that is not Realm's; so it answers at once. The first wire that says yes gets the socket.
    func admits(_ request: SocketRequest) -> Bool

    /// Serves one socket. When this returns, the socket is closed with code 1000.
    ///
    /// Its task is cancelled when the client is gone, the socket is closed or the server ends; `TextSocket.next`
    /// returns nil then.
    func serve(_ socket: TextSocket) async
}

extension TextWire {
    /// The defaults.
    public var settings: TextWireSettings { TextWireSettings() }
}

/// The limits of the sockets of one wire (`Spec/Limits.md`, section 2).
public struct TextWireSettings: Sendable {
    /// The longest message of a client, in bytes. Never more than `Limits.messageBytesMax` of the server.
    public var messageBytesMax = 8 << 20
    /// How long a client may send nothing, not even a ping, in seconds.
    public var silenceSecondsMax = 120
    /// True if a shutdown closes the sockets one after the other, 10 ms apart or so that three quarters of
    /// `ServerSettings.shutdownSecondsMax` suffice, and serves each until then: for clients that all come back equally
    /// soon. False if it closes them all at once.
    public var spreadsShutdown = false

    /// The defaults.
    public init() {}
}

/// The request that has opened a WebSocket of text messages.
public struct SocketRequest: Sendable {
    /// The path of the URL as it came, with its percent-encoding. `ServerSettings.basePath` is taken off.
    public let path: String
    /// The part of the URL after the question mark; empty if there is none.
    public let query: String
    /// The headers, in the order in which they came.
    public let headers: HTTPHeaders
    /// The client's IP address, or the first 64 bits of an IPv6 address; nil if it is not known.
    public let address: String?
    /// True if it came through TLS.
    public let isSecure: Bool

    /// A request as the server makes it, for tests of wires.
    /// - Parameter path: without the query.
    public init(
        path: String, query: String = "", headers: HTTPHeaders = [:], address: String? = nil, isSecure: Bool = false
    ) {
        self.path = path
        self.query = query
        self.headers = headers
        self.address = address
        self.isSecure = isSecure
    }
}

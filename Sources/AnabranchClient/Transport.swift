/// Opens WebSockets to a sync server (`Spec/Protocol.md`, section 2). The library's own is built on SwiftNIO; an app
/// can bring another one, built on URLSession for instance.
public protocol Transport: Sendable {
    /// Connects, and waits until the server has agreed to one of the protocols.
    /// - Throws: `TransportError`; `CancellationError` if the task was cancelled, and then nothing stays open.
    func connect(_ request: WebSocketRequest) async throws -> any TransportConnection
}

/// An open WebSocket. One task at a time sends, and one receives.
public protocol TransportConnection: Sendable {
    /// The protocol that the server has chosen, as it stands in its answer.
    var chosenProtocol: String { get }
    /// Sends a binary message, and waits until the system has taken it.
    /// - Throws: `TransportError`; `CancellationError`.
    func send(_ message: [UInt8]) async throws
    /// The next binary message.
    /// - Throws: `TransportError`, with the code of the server if it has closed the WebSocket; `CancellationError`.
    func receive() async throws -> [UInt8]
    /// Closes the WebSocket, at once if it has ended already. A task that waits for a message gets an error.
    func close() async
}

/// The request by which a client opens a WebSocket.
public struct WebSocketRequest: Sendable {
    /// `ws` or `wss`, with path and query; the query has the token.
    public var url: String
    /// The protocols that are offered, the best first (`Spec/Protocol.md`, section 2.1).
    public var protocols: [String]
    /// The header `User-Agent`.
    public var userAgent: String
    /// Additional headers of the application.
    public var headers: [(name: String, value: String)]

    /// A request to open a WebSocket.
    public init(
        url: String, protocols: [String], userAgent: String, headers: [(name: String, value: String)] = []
    ) {
        self.url = url
        self.protocols = protocols
        self.userAgent = userAgent
        self.headers = headers
    }
}

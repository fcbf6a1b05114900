/// Sends the HTTP requests of `AppClient`. The library comes with `NIOHTTPSender`; an app can bring another one, built
/// on URLSession for instance. Redirections are not followed.
public protocol HTTPSender: Sendable {
    /// Sends a request and waits for the whole answer, whatever its status is.
    /// - Throws: an error that says in words why there is no answer; `CancellationError`.
    func send(_ request: HTTPCall) async throws -> HTTPAnswer
}

/// A request by HTTP.
public struct HTTPCall: Sendable {
    /// `GET`, `POST`, `PUT` or `DELETE`.
    public var method: String
    /// `http` or `https`.
    public var url: String
    /// The headers that the server needs. `Host` and `Content-Length` are not among them.
    public var headers: [(name: String, value: String)]
    /// The body; empty for none.
    public var body: [UInt8]

    /// A request; `body` is empty for none.
    public init(method: String, url: String, headers: [(name: String, value: String)] = [], body: [UInt8] = []) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
    }
}

/// The answer to a request.
public struct HTTPAnswer: Sendable {
    /// The HTTP status.
    public var status: Int
    /// The bytes of the body; empty if there is none.
    public var body: [UInt8]
    /// The headers; empty if the sender does not tell them. Names are compared without regard to case.
    public var headers: [(name: String, value: String)]

    /// An answer, for senders and for tests.
    public init(status: Int, body: [UInt8], headers: [(name: String, value: String)] = []) {
        self.status = status
        self.body = body
        self.headers = headers
    }
}

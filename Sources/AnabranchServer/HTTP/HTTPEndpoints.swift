public import NIOHTTP1

/// Answers the HTTP requests of one route (`Spec/Server.md`, section 7).
public protocol HTTPEndpoints: Sendable {
    /// Answers one request. The next one of the same socket waits for it.
    ///
    /// It may take unbounded time, as an answer that waits for changes does, if it calls `EndpointRequest.hold` first.
    /// Its task is cancelled when the client disconnects, and its result is then ignored.
    func respond(to request: EndpointRequest) async -> EndpointResponse
}

/// An HTTP request that does not open a WebSocket.
public struct EndpointRequest: Sendable {
    /// The method of the request.
    public let method: HTTPMethod
    /// The path of the URL as it came, with its percent-encoding. `ServerSettings.basePath` is taken off.
    public let path: String
    /// The part of the URL after the question mark; empty if there is none.
    public let query: String
    /// The headers, in the order in which they came.
    public let headers: HTTPHeaders
    /// The body, in the form that the route asks for.
    public let body: EndpointBody
    /// The client's IP address, or the first 64 bits of an IPv6 address; nil if it is not known.
    public let address: String?
    /// True if it came through TLS.
    public let isSecure: Bool
    /// Counts the socket against a user's connections.
    var onHold: @Sendable (Principal) -> Bool = { _ in true }

    /// A request as the server makes it, for tests of endpoints.
    /// - Parameter path: without the query.
    public init(
        method: HTTPMethod, path: String, query: String = "", headers: HTTPHeaders = [:],
        body: EndpointBody = .whole([]), address: String? = nil, isSecure: Bool = false
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.address = address
        self.isSecure = isSecure
    }

    /// The bytes of a body that was taken as a whole; none of one that is a stream.
    var bytes: [UInt8] {
        if case .whole(let bytes) = body { bytes } else { [] }
    }

    /// Call this before an answer that takes long. The socket counts as a connection of the user
    /// (`ServerSettings.connectionsPerUserMax`) until it is answered, and the task of the answer is cancelled when the
    /// server shuts down.
    /// - Returns: false if the user has too many connections; the client then gets status 503.
    public func hold(for principal: Principal) -> Bool { onHold(principal) }
}

/// The response to an HTTP request.
public struct EndpointResponse: Sendable {
    /// The HTTP status to answer with.
    public var status: HTTPResponseStatus
    /// The headers. `Connection`, `Content-Length` and `Transfer-Encoding` are the server's to say and are replaced.
    public var headers: HTTPHeaders
    /// The body. It is not sent if the status may have none, nor to a request of the method HEAD.
    public var body: EndpointBody

    /// A response with any body; `Content-Type` is one of the headers.
    public init(status: HTTPResponseStatus, headers: HTTPHeaders = [:], body: EndpointBody = .whole([])) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// A response with a text in UTF-8. Clients of App Services read an error only if the type is exactly
    /// `application/json`.
    public init(status: HTTPResponseStatus, contentType: String = "application/json", text: String) {
        self.init(status: status, headers: ["Content-Type": contentType], body: .whole(Array(text.utf8)))
    }
}

/// A server with the sync protocol only.
struct NoEndpoints: HTTPEndpoints {
    func respond(to request: EndpointRequest) async -> EndpointResponse { EndpointResponse(HTTPError.notFound) }
}

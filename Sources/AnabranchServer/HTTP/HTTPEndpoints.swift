public import NIOHTTP1

/// A whole HTTP request.
public struct EndpointRequest: Sendable {
    /// The method of the request.
    public let method: HTTPMethod
    /// The path of the URL, as it came.
    public let path: String
    /// The part of the URL behind the question mark; empty if there is none.
    public let query: String
    /// The headers, in the order in which they came.
    public let headers: HTTPHeaders
    /// The body, at most `ServerSettings.bodyBytesMax` bytes.
    public let body: [UInt8]
    /// The client's IP address, or the first 64 bits of an IPv6 address; nil if it is not known.
    public let address: String?
    /// Whether it came through TLS.
    public let isSecure: Bool
}

/// The response to an HTTP request.
public struct EndpointResponse: Sendable {
    /// The status of the response.
    public var status: HTTPResponseStatus
    /// The type of the body. Clients read an error only if it is exactly `application/json`.
    public var contentType = "application/json"
    /// The body; it is sent only if the status may have one.
    public var body: String

    /// A response with a body of JSON.
    public init(status: HTTPResponseStatus, body: String = "") {
        self.status = status
        self.body = body
    }
}

/// Answers the HTTP requests that do not open a WebSocket.
public protocol HTTPEndpoints: Sendable {
    /// Answers one request. The next one of the same socket waits for it.
    func respond(to request: EndpointRequest) async -> EndpointResponse
}

/// A server with the sync protocol only.
struct NoEndpoints: HTTPEndpoints {
    func respond(to request: EndpointRequest) async -> EndpointResponse { EndpointResponse(HTTPError.notFound) }
}

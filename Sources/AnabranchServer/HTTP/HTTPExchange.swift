import AnabranchCore
import NIOHTTP1

/// A request to the HTTP side, whole.
public struct HTTPExchangeRequest: Sendable {
    public let method: HTTPMethod
    /// The path of the URL, as it came.
    public let path: String
    /// What follows the question mark; empty if nothing does.
    public let query: String
    public let headers: HTTPHeaders
    public let body: [UInt8]
    /// The client's IP address, of IPv6 the network's 64 bits, if it is known.
    public let address: String?
    /// Whether it came through TLS.
    public let isSecure: Bool
}

/// What the HTTP side answers.
public struct HTTPExchangeAnswer: Sendable {
    public var status: HTTPResponseStatus
    /// The type of the body. Clients read an error only if it is exactly `application/json`.
    public var contentType = "application/json"
    public var body: String

    public init(status: HTTPResponseStatus, body: String = "") {
        self.status = status
        self.body = body
    }
}

/// What answers the requests that do not open a WebSocket.
public protocol HTTPEndpoints: Sendable {
    func answer(_ request: HTTPExchangeRequest) async -> HTTPExchangeAnswer
}

/// No endpoint at all.
struct NoEndpoints: HTTPEndpoints {
    func answer(_ request: HTTPExchangeRequest) async -> HTTPExchangeAnswer {
        HTTPExchangeAnswer(HTTPRefusal.notFound)
    }
}

/// An answer of the HTTP side that is not what the client had hoped for.
struct HTTPRefusal: Error, Equatable, Sendable {
    let status: HTTPResponseStatus
    /// The error's name, as clients know it.
    let code: String
    let message: String

    static let notFound = HTTPRefusal(status: .notFound, code: "NotFound", message: "no such endpoint")
    static let unauthorized = HTTPRefusal(status: .unauthorized, code: "InvalidSession", message: "invalid session")
    static let forbidden = HTTPRefusal(status: .forbidden, code: "Forbidden", message: "no entry")
    static let unavailable = HTTPRefusal(
        status: .serviceUnavailable, code: "InternalServerError", message: "try again later")
    static let bodyTooLarge = HTTPRefusal(
        status: .payloadTooLarge, code: "BodyTooLarge", message: "the body is too large")

    static func badRequest(_ message: String) -> HTTPRefusal {
        HTTPRefusal(status: .badRequest, code: "BadRequest", message: message)
    }
}

extension HTTPExchangeAnswer {
    /// The body that clients parse (`Spec/Protocol.md`, section 1.1).
    init(_ refusal: HTTPRefusal) {
        let body: JSONValue = ["error": .string(refusal.message), "error_code": .string(refusal.code), "link": ""]
        self.init(status: refusal.status, body: body.encoded)
    }

    init(_ status: HTTPResponseStatus, _ value: JSONValue) {
        self.init(status: status, body: value.encoded)
    }
}

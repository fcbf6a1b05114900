import NIOHTTP1

/// A response that reports an error.
struct HTTPError: Error, Equatable, Sendable {
    let status: HTTPResponseStatus
    /// The error's name, as clients know it.
    let code: String
    let message: String
    /// The ident of the user concerned, for the log alone: clients must not learn who has an account.
    var user: String?

    static let notFound = HTTPError(status: .notFound, code: "NotFound", message: "no such endpoint")
    static let unauthorized = HTTPError(status: .unauthorized, code: "InvalidSession", message: "invalid session")
    static let forbidden = HTTPError(status: .forbidden, code: "Forbidden", message: "no entry")
    static let unavailable = HTTPError(
        status: .serviceUnavailable, code: "InternalServerError", message: "try again later")
    static let bodyTooLarge = HTTPError(
        status: .payloadTooLarge, code: "BodyTooLarge", message: "the body is too large")

    static func badRequest(_ message: String) -> HTTPError {
        HTTPError(status: .badRequest, code: "BadRequest", message: message)
    }
}

extension HTTPError {
    init(_ error: HandshakeError) {
        switch error {
        case .unknownPath: self = .notFound
        case .malformed(let reason): self = .badRequest(reason)
        case .tokenRefused: self = .unauthorized
        case .userRefused: self = .forbidden
        case .unavailable: self = .unavailable
        }
    }
}

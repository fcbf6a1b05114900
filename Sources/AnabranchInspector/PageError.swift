import AnabranchCore
import AnabranchHistory
import AnabranchQuery
import AnabranchServer
import NIOHTTP1

/// The reason why a page cannot show something.
struct PageError: Error, Equatable {
    var status: HTTPResponseStatus
    /// The name of the error, for programs.
    var code: String
    /// The reason, for people.
    var message: String
    /// The place in the filter, in bytes.
    var offset: Int?
    private var passedOn: [UInt8]?

    init(_ status: HTTPResponseStatus, _ code: String, _ message: String, offset: Int? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.offset = offset
    }

    /// The error of an endpoint of the admin interface, as it is.
    init(passingOn response: EndpointResponse) {
        self.init(response.status, "", "")
        if case .whole(let bytes) = response.body { passedOn = bytes }
    }

    init(_ error: QueryError) {
        self.init(.badRequest, "Filter", error.reason, offset: error.offset)
    }

    init(_ error: any Error) {
        switch error {
        case let error as PageError: self = error
        case let error as QueryError: self.init(error)
        case let error as HistoryError where error.code == .badServerVersion:
            self.init(.notFound, "NoSuchVersion", error.reason)
        case let error as HistoryError where error.code == .tooLarge: self.init(.conflict, "TooLarge", error.reason)
        case let error as HistoryError: self.init(.serviceUnavailable, "Store", error.reason)
        default: self = .unavailable
        }
    }

    static let unavailable = PageError(.serviceUnavailable, "Unavailable", "the server cannot answer this now")

    static func badRequest(_ message: String) -> PageError { PageError(.badRequest, "BadRequest", message) }

    static func noSuch(_ thing: String) -> PageError { PageError(.notFound, "NotFound", "there is no such \(thing)") }

    var response: EndpointResponse {
        if let passedOn {
            return EndpointResponse(status: status, text: String(decoding: passedOn, as: UTF8.self))
        }
        var members: [String: JSONValue] = [
            "error": .string(message), "error_code": .string(code), "link": "",
        ]
        if let offset { members["offset"] = .integer(Int64(offset)) }
        return EndpointResponse(status: status, text: JSONValue.object(members).encoded)
    }
}

import AnabranchCore
import NIOHTTP1

/// Requests and responses whose bodies are JSON.
extension EndpointResponse {
    init(_ status: HTTPResponseStatus, _ value: JSONValue) {
        self.init(status: status, text: value.encoded)
    }

    /// The body of an error that clients parse (`Spec/Protocol.md`, section 1.1).
    init(_ error: HTTPError) {
        self.init(
            error.status, ["error": .string(error.message), "error_code": .string(error.code), "link": ""])
    }
}

extension EndpointRequest {
    /// The body, which has to be a JSON object.
    func object() throws(HTTPError) -> [String: JSONValue] {
        guard let object = (try? JSONValue(parsing: bytes))?.object else {
            throw .badRequest("the body is not a JSON object")
        }
        return object
    }
}

extension [String: JSONValue] {
    /// A member that has to be a string of 1 to `bytesMax` bytes, without a NUL, at which a database may end a text.
    func text(_ name: String, bytesMax: Int = 255) throws(HTTPError) -> String {
        guard let text = self[name]?.string, (1...bytesMax).contains(text.utf8.count), !text.utf8.contains(0) else {
            throw HTTPError(
                status: .badRequest, code: "InvalidParameter", message: "\(name) must be a text, and not too long")
        }
        return text
    }

    /// A member that has to be a positive integer.
    func number(_ name: String) throws(HTTPError) -> UInt64 {
        guard let number = self[name]?.integer, number > 0 else {
            throw .badRequest("\(name) has to be a number above 0")
        }
        return UInt64(number)
    }
}

import AnabranchCore

extension HTTPExchangeRequest {
    /// The body; it has to be a JSON object.
    func object() throws(HTTPRefusal) -> [String: JSONValue] {
        do {
            guard let object = try JSONValue(parsing: body).object else {
                throw HTTPRefusal.badRequest("no JSON object")
            }
            return object
        } catch {
            throw .badRequest("the body is not a JSON object")
        }
    }
}

extension [String: JSONValue] {
    /// A member that has to be a text of 1 to `bytesMax` bytes.
    func text(_ name: String, bytesMax: Int = 255) throws(HTTPRefusal) -> String {
        guard let text = self[name]?.string, (1...bytesMax).contains(text.utf8.count) else {
            throw HTTPRefusal(
                status: .badRequest, code: "InvalidParameter", message: "\(name) must be a text, and not too long")
        }
        return text
    }
}

import AnabranchCore

/// A JSON object under construction; it covers all the JSON that a server of this protocol has to write.
struct JSONObject {
    private var text = ""

    var bytes: [UInt8] { Array(encoded.utf8) }

    private var encoded: String { "{\(text)}" }

    mutating func add(_ key: StaticString, _ value: String) {
        add(key, encoded: JSONText.quoted(value))
    }

    mutating func add(_ key: StaticString, _ value: Bool) {
        add(key, encoded: value ? "true" : "false")
    }

    mutating func add(_ key: StaticString, _ value: some FixedWidthInteger) {
        add(key, encoded: String(value))
    }

    mutating func add(_ key: StaticString, _ value: [JSONObject]) {
        add(key, encoded: "[\(value.map(\.encoded).joined(separator: ","))]")
    }

    private mutating func add(_ key: StaticString, encoded value: String) {
        if !text.isEmpty { text += "," }
        text += "\"\(key)\":\(value)"
    }
}

/// A JSON object under construction: all the JSON that a server of this protocol has to write.
struct JSONObject {
    private var text = ""

    var bytes: [UInt8] { Array(encoded.utf8) }

    private var encoded: String { "{\(text)}" }

    mutating func add(_ key: StaticString, _ value: String) {
        add(key, encoded: Self.quoted(value))
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

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\":
                quoted += "\\\(scalar)"
            case "\u{0}"..."\u{1F}":
                let hexadecimal = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - hexadecimal.count) + hexadecimal
            default:
                quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}

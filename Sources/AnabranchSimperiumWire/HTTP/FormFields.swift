import AnabranchCore

/// The fields of a form, or of the query of a URL. A name may stand there several times.
struct FormFields {
    private var values: [String: [String]] = [:]

    /// - Returns: nil if an escape is malformed, or the text is not UTF-8.
    init?(_ bytes: some Collection<UInt8>) {
        for field in bytes.split(separator: UInt8(ascii: "&")) {
            let parts = field.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.text(parts[0]), let value = parts.count > 1 ? Self.text(parts[1]) : "" else {
                return nil
            }
            values[name, default: []].append(value)
        }
    }

    /// The last value of each name.
    var last: [String: String] { values.compactMapValues(\.last) }

    /// The last value of a name; nil if there is none.
    subscript(name: String) -> String? { values[name]?.last }

    func all(_ name: String) -> [String] { values[name] ?? [] }

    /// True if a switch is on.
    func isSet(_ name: String) -> Bool { ["1", "true"].contains(self[name]) }

    /// A text of a form: `+` is a space, and escapes are bytes.
    private static func text(_ bytes: some Collection<UInt8>) -> String? {
        let spaced = bytes.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
        return Hex.percentDecoded(spaced).flatMap { String(validating: $0, as: UTF8.self) }
    }
}

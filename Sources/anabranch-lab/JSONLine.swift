import Foundation

extension Encodable {
    /// The value as JSON on one line, with the keys in alphabetical order.
    func jsonLine(inSnakeCase: Bool = false) throws -> String {
        let encoder = JSONEncoder()
        if inSnakeCase { encoder.keyEncodingStrategy = .convertToSnakeCase }
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }
}

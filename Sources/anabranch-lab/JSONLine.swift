import Foundation

extension Encodable {
    /// The value as JSON on one line, with the keys in snake case and in alphabetical order.
    func jsonLine() throws -> String {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }
}

import AnabranchCore

/// What is wrong with a file, in words for the person who named it.
package struct InputError: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

extension Hex {
    /// The bytes of a text that has to be hexadecimal digits.
    package static func bytes(of text: String) throws(InputError) -> [UInt8] {
        guard let bytes = decode(text) else { throw InputError(description: "not hexadecimal digits") }
        return bytes
    }
}

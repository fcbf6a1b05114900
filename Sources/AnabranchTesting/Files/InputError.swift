import AnabranchCore

/// An error in an input file, described for the person who named the file.
package struct InputError: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

extension Hex {
    /// The bytes of a text, which has to consist of hexadecimal digits.
    package static func bytes(of text: String) throws(InputError) -> [UInt8] {
        guard let bytes = decode(text) else { throw InputError(description: "not hexadecimal digits") }
        return bytes
    }
}

import AnabranchCore

extension Hex {
    /// The bytes of a text that has to be hexadecimal digits.
    static func bytes(_ text: String) throws(InputError) -> [UInt8] {
        guard let bytes = decode(text) else { throw InputError(description: "not hexadecimal digits") }
        return bytes
    }
}

/// Bytes as hexadecimal digits.
enum Hex {
    /// The bytes of hexadecimal digits; white space between them counts for nothing.
    static func bytes(_ text: String) -> [UInt8] {
        let digits = text.filter { !$0.isWhitespace }.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    static func text(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

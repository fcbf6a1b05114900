import AnabranchCore

/// Random text for idents and secrets.
enum RandomText {
    /// A text with two hexadecimal digits for each byte. The randomness is that of the system, which cannot be guessed.
    static func hexadecimal(bytes count: Int) -> String {
        Hex.encode((0..<count).map { _ in UInt8.random(in: 0...255) })
    }
}

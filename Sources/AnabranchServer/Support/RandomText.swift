import AnabranchCore

/// Text that nobody can guess.
enum RandomText {
    static func hexadecimal(bytes count: Int) -> String {
        Hex.encode((0..<count).map { _ in UInt8.random(in: 0...255) })
    }
}

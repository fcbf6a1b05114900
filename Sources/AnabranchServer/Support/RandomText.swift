/// Text that nobody can guess.
enum RandomText {
    static func hexadecimal(bytes count: Int) -> String {
        hexadecimal((0..<count).map { _ in UInt8.random(in: 0...255) })
    }

    static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

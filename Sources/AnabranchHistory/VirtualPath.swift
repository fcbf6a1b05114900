/// The name of a synced file: whatever bytes the client sent (a partition value, for instance). Stores use it as a key
/// and never as the name of a file on disk.
public struct VirtualPath: Hashable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    public init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    public init(_ text: String) { self.init(text.utf8) }

    /// The path as one printable word: visible ASCII as it is, every other byte and `%` as `%xx`.
    public var description: String {
        let digits = Array("0123456789abcdef")
        var text = ""
        for byte in bytes {
            if byte > 0x20, byte < 0x7f, byte != UInt8(ascii: "%") {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                text += ["%", digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return text
    }

    /// The path that a printable word stands for; nil if a `%` in it is not followed by two hexadecimal digits.
    public init?(description word: some StringProtocol) {
        var bytes: [UInt8] = []
        var rest = Array(word.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2).compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
            guard digits.count == 2 else { return nil }
            bytes.append(UInt8(digits[0] << 4 | digits[1]))
            rest = rest.dropFirst(2)
        }
        self.bytes = bytes
    }
}

/// Bytes as hexadecimal text.
enum Hex {
    /// Nil if the text is not an even number of hexadecimal digits.
    static func decode(_ text: String) -> [UInt8]? {
        var bytes: [UInt8] = []
        var high: UInt8?
        bytes.reserveCapacity(text.utf8.count / 2)
        for character in text.utf8 {
            guard let digit = digit(character) else { return nil }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        return high == nil ? bytes : nil
    }

    /// The same for text that has to be so.
    static func bytes(_ text: String) throws(InputError) -> [UInt8] {
        guard let bytes = decode(text) else { throw InputError(description: "not hexadecimal digits") }
        return bytes
    }

    static func encode<Bytes: Sequence>(_ bytes: Bytes) -> String where Bytes.Element == UInt8 {
        var text: [UInt8] = []
        text.reserveCapacity(2 * bytes.underestimatedCount)
        for byte in bytes {
            text.append(character(byte >> 4))
            text.append(character(byte & 15))
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func digit(_ character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    private static func character(_ digit: UInt8) -> UInt8 {
        digit + (digit < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10)
    }
}

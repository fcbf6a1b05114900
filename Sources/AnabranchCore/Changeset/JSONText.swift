/// The little JSON that is written here: text is bytes, and one text has one form.
package enum JSONText {
    /// Appends a string with its quotes. Only `"`, `\` and the characters below U+0020 are escaped, the latter as
    /// `\u00xx` in lower case; all other bytes stand as they are, also those that are not UTF-8.
    package static func append<Bytes: Sequence>(string: Bytes, to text: inout [UInt8]) where Bytes.Element == UInt8 {
        text.append(UInt8(ascii: "\""))
        for byte in string {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                text.append(UInt8(ascii: "\\"))
                text.append(byte)
            case 0..<0x20:
                text.append(contentsOf: "\\u00".utf8)
                append(hex: CollectionOfOne(byte), to: &text)
            default: text.append(byte)
            }
        }
        text.append(UInt8(ascii: "\""))
    }

    /// Appends two lower-case hexadecimal digits a byte.
    package static func append<Bytes: Sequence>(hex bytes: Bytes, to text: inout [UInt8]) where Bytes.Element == UInt8 {
        for byte in bytes {
            text.append(digit(byte >> 4))
            text.append(digit(byte & 0xF))
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value + (value < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10)
    }
}

/// How the project writes JSON by hand: text is bytes, and one text has one form.
package enum JSONText {
    /// The string with its quotation marks.
    package static func quoted(_ string: String) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(string.utf8.count + 2)
        append(string: string.utf8, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends a string with its quotation marks. `"`, `\` and the characters below U+0020 are escaped, the latter as
    /// `\u00xx` in lower case. All other bytes stand as they are, also those that are not UTF-8.
    package static func append(string: some Sequence<UInt8>, to text: inout [UInt8]) {
        text.append(UInt8(ascii: "\""))
        for byte in string {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                text.append(UInt8(ascii: "\\"))
                text.append(byte)
            case 0..<0x20:
                text.append(contentsOf: "\\u00".utf8)
                Hex.append(CollectionOfOne(byte), to: &text)
            default: text.append(byte)
            }
        }
        text.append(UInt8(ascii: "\""))
    }

    /// Appends an array of texts that are JSON already.
    package static func append(array elements: some Sequence<[UInt8]>, to text: inout [UInt8]) {
        text.append(UInt8(ascii: "["))
        for (position, element) in elements.enumerated() {
            if position > 0 { text.append(UInt8(ascii: ",")) }
            text += element
        }
        text.append(UInt8(ascii: "]"))
    }
}

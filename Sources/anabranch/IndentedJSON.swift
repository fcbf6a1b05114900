extension String {
    /// JSON with each member and element on a line of its own, and otherwise no blanks. Strings stay as they are.
    init(indenting json: [UInt8]) {
        var text: [UInt8] = [], depth = 0, isInText = false, isEscaped = false, isOpened = false
        func breakLine() { text += [UInt8(ascii: "\n")] + [UInt8](repeating: UInt8(ascii: " "), count: 2 * depth) }
        for byte in json {
            if isInText {
                text.append(byte)
                isInText = isEscaped || byte != UInt8(ascii: "\"")
                isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
                continue
            }
            let isEnd = byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]")
            if isEnd { depth -= 1 }
            if isOpened != isEnd { breakLine() }
            isOpened = byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[")
            if isOpened { depth += 1 }
            isInText = byte == UInt8(ascii: "\"")
            if byte == UInt8(ascii: ":") { text += " : ".utf8 } else { text.append(byte) }
            if byte == UInt8(ascii: ",") { breakLine() }
        }
        self.init(decoding: text, as: UTF8.self)
    }
}

import Foundation

/// Text that people read. Much of it comes from somebody else: a server, a client, a file.
package enum TerminalText {
    /// The text with everything that a terminal would obey rather than show written as JSON does, `\u001b`: all control
    /// characters but line ends and tabs, and the marks that change the direction of the text after them.
    package static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isObeyed) else { return text }
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            guard isObeyed(scalar) else {
                result.append(scalar)
                continue
            }
            let digits = String(scalar.value, radix: 16)
            result += ("\\u" + String(repeating: "0", count: 4 - digits.count) + digits).unicodeScalars
        }
        return String(result)
    }

    private static func isObeyed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x09, 0x0A: false
        case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

/// The messages of the process, apart from its output.
package enum StandardError {
    /// Writes text, with everything escaped that a terminal would obey.
    package static func write(_ text: String) {
        FileHandle.standardError.write(Data(TerminalText.escaped(text).utf8))
    }
}

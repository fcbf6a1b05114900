import Foundation

/// Writes the log to standard error, one line an entry. Control and format characters are escaped: text that a client
/// sent can neither begin a line of its own nor send escape sequences to the operator's terminal.
struct LogStream: TextOutputStream, Sendable {
    func write(_ entry: String) {
        let line = Self.escaped(entry.last == "\n" ? entry.dropLast() : entry[...]) + "\n"
        try? FileHandle.standardError.write(contentsOf: Data(line.utf8))
    }

    /// The text with everything escaped that a terminal would obey.
    static func escaped(_ text: Substring) -> String {
        var line = ""
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator:
                line += "\\u{\(String(scalar.value, radix: 16))}"
            default:
                line.unicodeScalars.append(scalar)
            }
        }
        return line
    }
}

import Foundation

/// Standard error, where each entry of the log is one line: whatever clients have put into it makes no further lines,
/// moves no cursor and rings no bell.
struct LogStream: TextOutputStream, Sendable {
    func write(_ entry: String) {
        let line = Self.escaped(entry.last == "\n" ? entry.dropLast() : entry[...]) + "\n"
        try? FileHandle.standardError.write(contentsOf: Data(line.utf8))
    }

    private static func escaped(_ text: Substring) -> String {
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

import AnabranchTesting
import Foundation

/// Reports on standard error how far a long run is: on a terminal in one line that changes, elsewhere in lines.
enum RunProgress {
    private static let isTerminal = isatty(STDERR_FILENO) == 1

    /// The time between two reports.
    static let interval: Duration = isTerminal ? .milliseconds(500) : .seconds(5)

    /// - Parameter share: the share of the run that is done, from 0 to 1; nil if it is not known.
    static func report(_ done: String, share: Double? = nil, after elapsed: Duration) {
        let text = line(done, share: share, after: elapsed)
        // To the beginning of the line, whose text is deleted.
        write(isTerminal && share != nil ? "\r\u{1b}[2K" + text : text + "\n")
    }

    /// Ends the line that changes, before something else is printed.
    static func end() {
        if isTerminal { write("\r\u{1b}[2K") }
    }

    /// Writes a line that is not a report of progress.
    static func say(_ text: String) { write(text + "\n") }

    static func line(_ done: String, share: Double?, after elapsed: Duration) -> String {
        var text = done + String(format: ", %.0f s", elapsed.inSeconds)
        if let share, share > 0, share < 1 {
            text += String(format: ", about %.0f s left", elapsed.inSeconds * (1 - share) / share)
        }
        return text
    }

    private static func write(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}

import AnabranchTesting
import Foundation

/// Tells on standard error how far a long run has come: on a terminal in one line that changes, elsewhere in lines.
enum RunProgress {
    private static let isTerminal = isatty(STDERR_FILENO) == 1

    /// How much time is between two reports.
    static let interval: Duration = isTerminal ? .milliseconds(500) : .seconds(5)

    /// - Parameter share: how much of the run is done, from 0 to 1; nil if nobody knows.
    static func report(_ done: String, share: Double? = nil, after elapsed: Duration) {
        let text = line(done, share: share, after: elapsed)
        // The beginning of the line, and what stands in it deleted.
        write(isTerminal && share != nil ? "\r\u{1b}[2K" + text : text + "\n")
    }

    /// Ends the line that changes, before something else is printed.
    static func end() {
        if isTerminal { write("\r\u{1b}[2K") }
    }

    /// A line that is no report of progress.
    static func note(_ text: String) { write(text + "\n") }

    static func line(_ done: String, share: Double?, after elapsed: Duration) -> String {
        var text = done + String(format: ", %.0f s", elapsed.inSeconds)
        if let share, share > 0, share < 1 {
            text += String(format: ", about %.0f s left", elapsed.inSeconds * (1 - share) / share)
        }
        return text
    }

    private static func write(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}

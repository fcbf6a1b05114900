import CommandSupport
import Foundation

/// Reports progress on standard error once a second: on a terminal in one line that changes, elsewhere in lines.
struct ProgressLine {
    private static let isTerminal = isatty(STDERR_FILENO) == 1

    private let isTold: Bool
    private var last: ContinuousClock.Instant?

    /// - Parameter isAsked: true if lines are wanted where there is no terminal.
    init(isAsked: Bool) { isTold = isAsked || Self.isTerminal }

    mutating func tell(atOnce: Bool = false, _ text: () -> String) {
        guard isTold else { return }
        let now = ContinuousClock.now
        if !atOnce, let last, last.duration(to: now) < .seconds(1) { return }
        last = now
        // To the beginning of the line, whose text is deleted.
        Self.write(Self.isTerminal ? "\r\u{1b}[2K" + text() : text() + "\n")
    }

    /// Ends the line that changes, before something else is printed.
    func end() {
        if isTold, Self.isTerminal { Self.write("\r\u{1b}[2K") }
    }

    private static func write(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}

/// Prints text with everything escaped that a terminal would obey, in place of the function of the standard library.
func print(_ item: some Any, terminator: String = "\n") {
    Swift.print(TerminalText.escaped("\(item)"), terminator: terminator)
}

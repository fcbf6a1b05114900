import AnabranchSQLite
import Foundation

/// Tells on standard error how far the copy of a store is: on a terminal in one line that changes, elsewhere in lines.
struct CopyProgress {
    private static let isTerminal = isatty(STDERR_FILENO) == 1

    private let isTold: Bool
    private let start: ContinuousClock.Instant
    private var step = StoreCopyProgress.Step.copying
    private var stepStart: ContinuousClock.Instant
    private var last: ContinuousClock.Instant?

    /// - Parameter isAsked: for lines where there is no terminal.
    init(isAsked: Bool) {
        isTold = isAsked || Self.isTerminal
        start = .now
        stepStart = start
    }

    /// From the beginning, in seconds.
    var seconds: Int { Int(start.duration(to: .now) / .seconds(1)) }

    mutating func note(_ progress: StoreCopyProgress) {
        let now = ContinuousClock.now
        if progress.step != step { (step, stepStart, last) = (progress.step, now, nil) }
        guard isTold else { return }
        if let last, last.duration(to: now) < .seconds(1) { return }
        last = now
        let text = Self.line(progress, after: stepStart.duration(to: now))
        // The beginning of the line, and what stands in it deleted.
        Self.write(Self.isTerminal ? "\r\u{1b}[2K" + text : text + "\n")
    }

    /// Ends the line that changes, before something else is printed.
    func end() {
        if isTold, Self.isTerminal { Self.write("\r\u{1b}[2K") }
    }

    static func line(_ progress: StoreCopyProgress, after elapsed: Duration) -> String {
        let total = max(progress.total, progress.done)
        let sum =
            switch progress.step {
            case .copying: "copied \(size(progress.done)) of \(size(total))"
            case .comparing: "compared \(size(progress.done)) of \(size(total)) with the base"
            case .checking: "checked \(progress.done) of \(total) files"
            }
        let share = Double(progress.done) / Double(max(1, total)), seconds = elapsed / .seconds(1)
        guard share > 0, share < 1, seconds >= 1 else { return sum }
        return sum + String(format: ", about %.0f s left", seconds * (1 - share) / share)
    }

    /// As people read it.
    static func size(_ bytes: Int) -> String {
        switch bytes {
        case ..<1024: "\(bytes) B"
        case ..<(1 << 20): String(format: "%.1f KiB", Double(bytes) / 1024)
        case ..<(1 << 30): String(format: "%.1f MiB", Double(bytes) / Double(1 << 20))
        default: String(format: "%.1f GiB", Double(bytes) / Double(1 << 30))
        }
    }

    private static func write(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}

import AnabranchSQLite
import AnabranchServer
import Foundation

/// Reports on standard error how far the copy of a store is.
struct CopyProgress {
    private var line: ProgressLine
    private let start: ContinuousClock.Instant
    private var step = StoreCopyProgress.Step.copying
    private var stepStart: ContinuousClock.Instant

    /// - Parameter isAsked: true if lines are wanted where there is no terminal.
    init(isAsked: Bool) {
        line = ProgressLine(isAsked: isAsked)
        start = .now
        stepStart = start
    }

    /// The time since the beginning, in seconds.
    var seconds: Int { Int(start.duration(to: .now) / .seconds(1)) }

    mutating func show(_ progress: StoreCopyProgress) {
        let now = ContinuousClock.now
        let isNewStep = progress.step != step
        if isNewStep { (step, stepStart) = (progress.step, now) }
        line.tell(atOnce: isNewStep) { Self.line(progress, after: stepStart.duration(to: now)) }
    }

    /// Ends the line that changes, before something else is printed.
    func end() { line.end() }

    static func line(_ progress: StoreCopyProgress, after elapsed: Duration) -> String {
        let total = max(progress.total, progress.done)
        let sum =
            switch progress.step {
            case .copying: "copied \(progress.done.inBytes) of \(total.inBytes)"
            case .comparing: "compared \(progress.done.inBytes) of \(total.inBytes) with the base"
            case .checking: "checked \(progress.done) of \(total) files"
            }
        let share = Double(progress.done) / Double(max(1, total)), seconds = elapsed / .seconds(1)
        guard share > 0, share < 1, seconds >= 1 else { return sum }
        return sum + String(format: ", about %.0f s left", seconds * (1 - share) / share)
    }
}

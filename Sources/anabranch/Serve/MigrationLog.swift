import AnabranchSQLite
import Logging

/// Tells the log about every second how far the migration of a store is.
struct MigrationLog {
    private let logger: Logger
    private var last: ContinuousClock.Instant?
    private var hasEnded = false

    init(_ logger: Logger) { self.logger = logger }

    mutating func note(_ progress: StoreMigrationProgress) {
        let isDone = progress.fileCount == progress.fileTotal
        guard !hasEnded else { return }
        if let last, !isDone, last.duration(to: .now) < .seconds(1) { return }
        (last, hasEnded) = (.now, isDone)
        // Of a damaged store they can be anything.
        let share = progress.byteTotal == 0 ? 1 : min(1, Double(progress.bytes) / Double(progress.byteTotal))
        let percent = Int(share * 100)
        logger.notice(
            isDone ? "every file is in the new format" : "bringing the store to a new format",
            metadata: ["files": "\(progress.fileCount) of \(progress.fileTotal)", "percent": "\(percent)"])
    }
}

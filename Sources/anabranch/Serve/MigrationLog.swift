import AnabranchSQLite
import Logging

/// Tells the log about every second how far the migration of a store is.
struct MigrationLog {
    private let logger: Logger
    private let now: () -> ContinuousClock.Instant
    private var last: ContinuousClock.Instant?
    private var hasEnded = false

    init(_ logger: Logger, now: @escaping () -> ContinuousClock.Instant = { .now }) {
        self.logger = logger
        self.now = now
    }

    mutating func note(_ progress: StoreMigrationProgress) {
        let isDone = progress.isDone
        guard !hasEnded else { return }
        let now = now()
        if let last, !isDone, last.duration(to: now) < .seconds(1) { return }
        (last, hasEnded) = (now, isDone)
        // Of a damaged store the totals can be anything.
        let share = isDone ? 1 : min(1, Double(progress.bytes) / Double(max(1, progress.byteTotal)))
        let percent = Int(share * 100), fileTotal = max(progress.fileCount, progress.fileTotal)
        logger.notice(
            isDone ? "every file is in the new format" : "bringing the store to a new format",
            metadata: ["files": "\(progress.fileCount) of \(fileTotal)", "percent": "\(percent)"])
    }
}

import AnabranchHistory
import AnabranchTesting

/// The counts of events in runs.
package struct HistoryTally: RunTally {
    package var runs = 0, merges = 0, generationDownloads = 0
    package var sealed: UInt64 = 0, trimmed: UInt64 = 0, archived: UInt64 = 0
    package var generations: UInt64 = 0, dropped: UInt64 = 0
    /// The client files that have expired, and the clients that had to start over.
    package var expired = 0, resets = 0
    /// The seeds of the runs that failed, with the reasons.
    package var failures: [(seed: UInt64, reason: String)] = []

    package init() {}

    package var hasFailed: Bool { !failures.isEmpty }

    mutating func add(_ report: MaintenanceReport) {
        sealed += report.sealedEntries
        trimmed += report.trimmedEntries
        generations += report.generationsMade
        dropped += report.generationsDropped
        expired += report.expired.count
    }

    package mutating func add(_ other: Self) {
        runs += other.runs
        merges += other.merges
        generationDownloads += other.generationDownloads
        sealed += other.sealed
        trimmed += other.trimmed
        archived += other.archived
        generations += other.generations
        dropped += other.dropped
        expired += other.expired
        resets += other.resets
        failures += other.failures
    }
}

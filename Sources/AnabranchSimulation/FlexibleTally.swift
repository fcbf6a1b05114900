import AnabranchTesting

/// The counts of events in runs of flexible sync.
package struct FlexibleTally: RunTally {
    package var rounds = 0, uploads = 0, refusedObjects = 0, compensations = 0
    /// The uploads of which a part was integrated when the server ended.
    package var cutUploads = 0
    package var queries = 0, refusedQueries = 0, bootstraps = 0
    /// The parts of bootstraps of several messages, without the last ones; and the bootstraps that were interrupted, so
    /// that the client had to begin its session again.
    package var parts = 0, interruptedBootstraps = 0
    /// The DOWNLOADs that were made before their sessions asked, and those among them that were dropped on the way; and
    /// the commits that were forgotten.
    package var news = 0, droppedNews = 0, failedCommits = 0
    package var disconnections = 0, restarts = 0, ruleChanges = 0
    package var trimmed = 0, expired = 0, resets = 0, ingested = 0
    /// The seeds of the rounds that failed, with the reasons.
    package var failures: [(seed: UInt64, reason: String)] = []

    package init() {}

    package var hasFailed: Bool { !failures.isEmpty }

    package mutating func add(_ other: Self) {
        rounds += other.rounds
        uploads += other.uploads
        cutUploads += other.cutUploads
        refusedObjects += other.refusedObjects
        compensations += other.compensations
        queries += other.queries
        refusedQueries += other.refusedQueries
        bootstraps += other.bootstraps
        parts += other.parts
        interruptedBootstraps += other.interruptedBootstraps
        news += other.news
        droppedNews += other.droppedNews
        failedCommits += other.failedCommits
        disconnections += other.disconnections
        restarts += other.restarts
        trimmed += other.trimmed
        expired += other.expired
        resets += other.resets
        ingested += other.ingested
        ruleChanges += other.ruleChanges
        failures += other.failures
    }
}

import AnabranchHistory
import AnabranchProtocol
import Metrics

/// The counters of the sync protocol; labels begin with `anabranch_`.
struct SyncMetrics: Sendable {
    private let factory: any MetricsFactory
    let sessionsOpened: Counter
    let messagesReceived: Counter
    let bytesReceived: Counter
    let messagesSent: Counter
    let bytesSent: Counter
    let uploadsReceived: Counter
    let downloadsMade: Counter
    /// The bodies of DOWNLOADs that were not shared with another reader.
    let bodiesEncoded: Counter
    /// Steps after which a merge was not finished.
    let mergeSteps: Counter
    /// Long merges that began again, because all of them together needed too much memory.
    let mergesDropped: Counter
    /// Steps of the maintenance of synced files.
    let maintenanceSteps: Counter
    /// Rounds of maintenance that were not finished.
    let maintenanceFailures: Counter
    private let sealedEntries: Counter
    private let sealedBytes: Counter
    private let generationsMade: Counter
    private let generationBytes: Counter
    private let generationsDropped: Counter
    private let trimmedEntries: Counter
    private let trimmedBytes: Counter
    private let archivedEntries: Counter
    private let archivedBytes: Counter
    private let storeFailures: Counter
    private let storeDamages: Counter
    private let commits: Counter
    /// Transactions of the store: commits that come while their shard waits or is flushed are stored together, in one.
    let transactions: Counter
    let commitConflicts: Counter
    /// Entries of other nodes that were taken in.
    let followedEntries: Counter
    private let versionsMade: Counter
    private let entriesVisited: Counter
    private let skippedInstructions: Counter
    /// In flexible sync: queries that were accepted, evaluations of commits for views, and objects whose writes were
    /// undone.
    let queriesTaken: Counter
    let viewEvaluations: Counter
    let compensatedObjects: Counter
    /// Sessions of clients whose clocks are wrong.
    let clientClocksWrong: Counter
    private let commitDuration: Timer
    private let scanDuration: Timer

    /// - Parameter factory: makes the counters.
    init(factory: any MetricsFactory = MetricsSystem.factory) {
        self.factory = factory
        sessionsOpened = Counter(label: "anabranch_sessions_opened_total", factory: factory)
        messagesReceived = Counter(label: "anabranch_messages_received_total", factory: factory)
        bytesReceived = Counter(label: "anabranch_received_bytes_total", factory: factory)
        messagesSent = Counter(label: "anabranch_messages_sent_total", factory: factory)
        bytesSent = Counter(label: "anabranch_sent_bytes_total", factory: factory)
        uploadsReceived = Counter(label: "anabranch_uploads_received_total", factory: factory)
        downloadsMade = Counter(label: "anabranch_downloads_made_total", factory: factory)
        bodiesEncoded = Counter(label: "anabranch_download_bodies_encoded_total", factory: factory)
        mergeSteps = Counter(label: "anabranch_long_merge_steps_total", factory: factory)
        mergesDropped = Counter(label: "anabranch_long_merges_dropped_total", factory: factory)
        maintenanceSteps = Counter(label: "anabranch_maintenance_steps_total", factory: factory)
        maintenanceFailures = Counter(label: "anabranch_maintenance_failures_total", factory: factory)
        sealedEntries = Counter(label: "anabranch_log_entries_sealed_total", factory: factory)
        sealedBytes = Counter(label: "anabranch_log_bytes_sealed_total", factory: factory)
        generationsMade = Counter(label: "anabranch_generations_made_total", factory: factory)
        generationBytes = Counter(label: "anabranch_generation_bytes_total", factory: factory)
        generationsDropped = Counter(label: "anabranch_generations_dropped_total", factory: factory)
        trimmedEntries = Counter(label: "anabranch_log_entries_trimmed_total", factory: factory)
        trimmedBytes = Counter(label: "anabranch_log_bytes_trimmed_total", factory: factory)
        archivedEntries = Counter(label: "anabranch_log_entries_archived_total", factory: factory)
        archivedBytes = Counter(label: "anabranch_log_bytes_archived_total", factory: factory)
        storeFailures = Counter(label: "anabranch_store_failures_total", factory: factory)
        storeDamages = Counter(label: "anabranch_store_damages_total", factory: factory)
        transactions = Counter(label: "anabranch_transactions_total", factory: factory)
        commitConflicts = Counter(label: "anabranch_commit_conflicts_total", factory: factory)
        followedEntries = Counter(label: "anabranch_log_entries_followed_total", factory: factory)
        commits = Counter(label: "anabranch_commits_total", factory: factory)
        versionsMade = Counter(label: "anabranch_versions_made_total", factory: factory)
        entriesVisited = Counter(label: "anabranch_log_entries_visited_total", factory: factory)
        skippedInstructions = Counter(label: "anabranch_moot_instructions_total", factory: factory)
        queriesTaken = Counter(label: "anabranch_queries_total", factory: factory)
        viewEvaluations = Counter(label: "anabranch_view_evaluations_total", factory: factory)
        clientClocksWrong = Counter(label: "anabranch_client_clocks_wrong_total", factory: factory)
        compensatedObjects = Counter(label: "anabranch_compensated_objects_total", factory: factory)
        commitDuration = Timer(label: "anabranch_commit_duration", factory: factory)
        scanDuration = Timer(label: "anabranch_scan_duration", factory: factory)
        // From the beginning, with 0: an alert sees the first refusal as an increase.
        for refusal in SessionRefusal.allCases { refusals(refusal).increment(by: 0) }
        for reason in ExpiryReason.allCases { count(expiry: reason, by: 0) }
    }

    func committed(_ report: IntegrationReport, in duration: Duration) {
        commits.increment()
        commitDuration.record(duration: duration)
        versionsMade.increment(by: report.outcomes.reduce(0) { $0 + $1.newVersions })
        entriesVisited.increment(by: report.entriesVisited)
        skippedInstructions.increment(by: report.outcomes.reduce(0) { $0 + $1.skippedInstructions.count })
    }

    /// Counts the work of one commit of a round of maintenance.
    /// - Parameter before: the report of the round before the commit.
    func maintained(_ report: MaintenanceReport, since before: MaintenanceReport) {
        sealedEntries.increment(by: report.sealedEntries - before.sealedEntries)
        sealedBytes.increment(by: report.sealedBytes - before.sealedBytes)
        generationsMade.increment(by: report.generationsMade - before.generationsMade)
        generationBytes.increment(by: report.generationBytes - before.generationBytes)
        generationsDropped.increment(by: report.generationsDropped - before.generationsDropped)
        trimmedEntries.increment(by: report.trimmedEntries - before.trimmedEntries)
        trimmedBytes.increment(by: report.trimmedBytes - before.trimmedBytes)
        archivedEntries.increment(by: report.archivedEntries - before.archivedEntries)
        archivedBytes.increment(by: report.archivedBytes - before.archivedBytes)
        for file in report.expired[before.expired.count...] { count(expiry: file.reason) }
    }

    private func count(expiry reason: ExpiryReason, by number: Int = 1) {
        Counter(
            label: "anabranch_client_files_expired_total", dimensions: [("reason", reason.rawValue)], factory: factory
        ).increment(by: number)
    }

    func refusedSession(because refusal: SessionRefusal) {
        refusals(refusal).increment()
    }

    private func refusals(_ refusal: SessionRefusal) -> Counter {
        Counter(
            label: "anabranch_sessions_refused_total", dimensions: [("limit", refusal.rawValue)], factory: factory)
    }

    func failed(_ error: HistoryError) {
        storeFailures.increment()
        if error.code == .storeDamaged { storeDamages.increment() }
    }

    func scanned(in duration: Duration) { scanDuration.record(duration: duration) }

    func failed(_ code: ErrorCode) {
        count("anabranch_errors_total", [("code", "\(code.rawValue)")])
    }

    /// Counts a message that no client of today sends.
    func receivedObsolete(_ type: String) {
        count("anabranch_obsolete_messages_total", [("type", type)])
    }

    /// Counts a WebSocket that is closed with this code because of its input.
    func failedFraming(_ code: UInt16) {
        count("anabranch_framing_errors_total", [("code", "\(code)")])
    }

    private func count(_ label: String, _ dimensions: [(String, String)]) {
        Counter(label: label, dimensions: dimensions, factory: factory).increment()
    }
}

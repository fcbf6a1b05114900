import AnabranchHistory
import AnabranchProtocol
import Metrics

/// The counters of the sync protocol; labels begin with `anabranch_`.
struct WireMetrics: Sendable {
    let sessionsOpened = Counter(label: "anabranch_sessions_opened_total")
    let messagesReceived = Counter(label: "anabranch_messages_received_total")
    let bytesReceived = Counter(label: "anabranch_received_bytes_total")
    let messagesSent = Counter(label: "anabranch_messages_sent_total")
    let bytesSent = Counter(label: "anabranch_sent_bytes_total")
    let uploadsReceived = Counter(label: "anabranch_uploads_received_total")
    let downloadsSent = Counter(label: "anabranch_downloads_sent_total")
    let storeFailures = Counter(label: "anabranch_store_failures_total")
    private let commits = Counter(label: "anabranch_commits_total")
    private let versionsMade = Counter(label: "anabranch_versions_made_total")
    private let entriesVisited = Counter(label: "anabranch_log_entries_visited_total")
    private let commitDuration = Timer(label: "anabranch_commit_duration")

    func committed(_ reports: [IntegrationReport], in duration: Duration) {
        commits.increment()
        commitDuration.record(duration: duration)
        for report in reports {
            versionsMade.increment(by: report.outcomes.reduce(0) { $0 + $1.newVersions })
            entriesVisited.increment(by: report.entriesVisited)
        }
    }

    func failed(_ code: ErrorCode) {
        Counter(label: "anabranch_errors_total", dimensions: [("code", "\(code.rawValue)")]).increment()
    }
}

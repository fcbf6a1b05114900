import Metrics
import NIOHTTP1
import Synchronization

/// The counters of sockets, HTTP and handshakes. Their labels begin with `anabranch_` (`Spec/Admin.md`, section 4).
struct ConnectionMetrics: Sendable {
    private let factory: any MetricsFactory
    let connectionsAccepted: Counter
    /// Connections that were closed because their clients did not read.
    let connectionsStalled: Counter
    /// Connections that ended because TLS could not be agreed on, or was broken.
    private let tlsFailures: Counter
    /// Times that a client had to wait because it sent more frames than its share.
    let readingsDelayed: Counter
    let refused = RefusedConnections()
    let refusalLines = RefusalLines()

    /// The labels of what comes of handshakes.
    private static let handshakeOutcomes = ["admitted", "token_refused", "unavailable", "user_refused"]

    init(factory: any MetricsFactory = MetricsSystem.factory) {
        self.factory = factory
        connectionsAccepted = Counter(label: "anabranch_connections_accepted_total", factory: factory)
        connectionsStalled = Counter(label: "anabranch_connections_stalled_total", factory: factory)
        tlsFailures = Counter(label: "anabranch_tls_failures_total", factory: factory)
        readingsDelayed = Counter(label: "anabranch_readings_delayed_total", factory: factory)
        // From the beginning, with 0: an alert sees the first refusal as an increase.
        for limit in ["address", "connections", "user"] { refusals(limit).increment(by: 0) }
        for outcome in Self.handshakeOutcomes { count("anabranch_handshakes_total", [("outcome", outcome)], by: 0) }
        for budget in ["bodies", "messages", "texts", "uploads"] {
            count("anabranch_memory_waits_total", [("budget", budget)], by: 0)
        }
    }

    func answered(_ status: HTTPResponseStatus) {
        count("anabranch_http_answers_total", [("status", "\(status.code)")])
    }

    func failedTLS() { tlsFailures.increment() }

    /// Counts a handshake by its outcome.
    func decided(outcome: String) {
        count("anabranch_handshakes_total", [("outcome", outcome)])
    }

    /// Counts a connection refused because of a limit: `connections`, `address` or `user`.
    func turnedAway(_ limit: String) {
        refusals(limit).increment()
        refused.add(limit)
    }

    private func refusals(_ limit: String) -> Counter {
        Counter(label: "anabranch_connections_refused_total", dimensions: [("limit", limit)], factory: factory)
    }

    /// Counts connections that were closed because their logins had ended.
    func ended(_ connections: Int) {
        Counter(label: "anabranch_logins_ended_connections_total", factory: factory).increment(by: connections)
    }

    /// Counts a wait for memory of a budget: `bodies`, `messages`, `texts` or `uploads`.
    func waitedForMemory(of budget: String) {
        count("anabranch_memory_waits_total", [("budget", budget)])
    }

    private func count(_ label: String, _ dimensions: [(String, String)], by number: Int = 1) {
        Counter(label: label, dimensions: dimensions, factory: factory).increment(by: number)
    }
}

/// The numbers of refused connections that have not been logged yet, by the limit that was reached.
final class RefusedConnections: Sendable {
    private let counts = Mutex<[String: Int]>([:])

    func add(_ limit: String) { counts.withLock { $0[limit, default: 0] += 1 } }

    func take() -> [String: Int] {
        counts.withLock { counts in
            defer { counts = [:] }
            return counts
        }
    }
}

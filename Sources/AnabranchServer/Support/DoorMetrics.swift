import Metrics
import NIOHTTP1

/// The counters of sockets, HTTP and handshakes; labels begin with `anabranch_`.
struct DoorMetrics: Sendable {
    private let factory: any MetricsFactory
    let connectionsAccepted: Counter

    /// - Parameter factory: what the process counts with.
    init(factory: any MetricsFactory = MetricsSystem.factory) {
        self.factory = factory
        connectionsAccepted = Counter(label: "anabranch_connections_accepted_total", factory: factory)
    }

    func answered(_ status: HTTPResponseStatus) {
        count("anabranch_http_answers_total", [("status", "\(status.code)")])
    }

    func decided(_ admission: Admission) {
        let outcome =
            switch admission {
            case .admitted: "admitted"
            case .tokenRefused: "token_refused"
            case .userRefused: "user_refused"
            case .unavailable: "unavailable"
            }
        count("anabranch_handshakes_total", [("outcome", outcome)])
    }

    /// A limit of connections was reached: `connections`, `address` or `user`.
    func turnedAway(_ limit: String) {
        count("anabranch_connections_refused_total", [("limit", limit)])
    }

    /// A login by which connections had come in is over.
    func ended(_ connections: Int) {
        Counter(label: "anabranch_logins_ended_connections_total", factory: factory).increment(by: connections)
    }

    private func count(_ label: String, _ dimensions: [(String, String)]) {
        Counter(label: label, dimensions: dimensions, factory: factory).increment()
    }
}

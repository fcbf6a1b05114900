import Logging

/// Notices for the operator that are logged once, although many clients cause them.
struct ServerNotices {
    /// The shortest time between two lines about refused connections, or about tokens, in seconds.
    static let refusalSeconds: Int64 = 60

    private let logger: Logger
    private var shortage: SpaceReserve.Shortage?
    private var lastRefusals: Int64?
    private var lastTokens: Int64?
    private var lastOmitted: Int64?

    init(logger: Logger) { self.logger = logger }

    /// The store has room or has none.
    mutating func tell(_ now: SpaceReserve.Shortage?) {
        defer { shortage = now }
        if let now, shortage == nil {
            logger.warning("changes of clients and new files wait", metadata: ["reason": "\(now.reason)"])
        } else if now == nil, shortage != nil {
            logger.notice("there is room again: nothing waits any more")
        }
    }

    /// - Parameters:
    ///   - refusals: counts the refusals that were not logged yet; those that are logged now are subtracted.
    ///   - second: of the server's time.
    mutating func tell(_ refusals: RefusedConnections, at second: Int64) {
        if let lastRefusals, second - lastRefusals < Self.refusalSeconds { return }
        let counts = refusals.take()
        for (limit, count) in counts.sorted(by: { $0.key < $1.key }) {
            logger.warning(
                "connections refused: a limit was reached", metadata: ["limit": "\(limit)", "count": "\(count)"])
        }
        if !counts.isEmpty { lastRefusals = second }
    }

    /// The same for lines about refused clients that were left out.
    mutating func tell(_ lines: [RefusalLines], at second: Int64) {
        if let lastOmitted, second - lastOmitted < Self.refusalSeconds { return }
        let count = lines.reduce(0) { $0 + $1.takeOmitted() }
        guard count > 0 else { return }
        lastOmitted = second
        logger.warning(
            "lines about refused clients are not here: an address had too many", metadata: ["count": "\(count)"])
    }

    /// The same for requests to the admin interface without its token.
    mutating func tell(_ refusals: RefusedTokens, at second: Int64) {
        if let lastTokens, second - lastTokens < Self.refusalSeconds { return }
        guard let count = refusals.take() else { return }
        lastTokens = second
        logger.warning(
            "requests to the admin interface refused: no token, or a wrong one",
            metadata: [
                "missing": "\(count.missing)", "wrong": "\(count.wrong)", "last": "\(count.address ?? "unknown")",
            ])
    }
}

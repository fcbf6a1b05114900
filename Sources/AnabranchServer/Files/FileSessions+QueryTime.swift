import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// In flexible sync each user has so much time of a processor in a minute for queries: to find what enters and leaves a
/// view, and what commits mean for it.
extension FileSessions {
    func isQueryTimeUsedUp(by user: String) -> Bool {
        environment.options.queryTime.isUsedUp(by: user, now: now)
    }

    /// The sessions of a user that has used it up end, and their clients come back later.
    func failForQueryTime(_ key: SessionKey) {
        environment.metrics.refusedSession(because: .queries)
        fail(key, SessionRefusal.queries.message)
    }

    /// What is less than a millisecond is counted when there is more.
    func charge(_ user: String, _ time: Duration) {
        let sum = uncounted[user, default: .zero] + time, milliseconds = Int(sum / .milliseconds(1))
        uncounted[user] = milliseconds > 0 ? nil : sum
        if milliseconds > 0 { environment.options.queryTime.count(user, milliseconds, now: now) }
    }

    private var now: Int64 { Int64(clamping: environment.unixSeconds()) }

    /// Begins the session of a view; nil if the file has none.
    func identifyView(
        _ claim: IdentRequest, of user: Principal, hasRestarted: Bool
    ) throws(HistoryError) -> ViewSession? {
        guard let flexible else { return nil }
        let start = ContinuousClock.now
        defer { if let user = user.user { charge(user, ContinuousClock.now - start) } }
        return try flexible.identify(claim, user: user.user, rules: rules(of: user), hasRestarted: hasRestarted)
    }
}

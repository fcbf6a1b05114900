/// A limit per user and minute, over all synced files.
struct UserQuota: Sendable {
    private let counter = RateCounter()
    private let perMinuteMax: Int

    /// - Parameter perMinuteMax: the limit; none by default.
    init(perMinuteMax: Int = .max) {
        self.perMinuteMax = perMinuteMax
    }

    /// True if the user has used up this minute's share.
    /// - Parameter now: seconds since 1970.
    func isUsedUp(by user: String, now: Int64) -> Bool { counter.current(user, now: now) >= perMinuteMax }

    /// Counts one more for the user, or `amount` more.
    func count(_ user: String, _ amount: Int = 1, now: Int64) { counter.count(user, amount, now: now) }
}

/// What each user may have a limited number of within a minute, in all synced files.
struct UserQuota: Sendable {
    private let counter = RateCounter()
    private let perMinuteMax: Int

    /// - Parameter perMinuteMax: how many; no limit if nothing is said.
    init(perMinuteMax: Int = .max) {
        self.perMinuteMax = perMinuteMax
    }

    /// Whether the user has had all of this minute.
    /// - Parameter now: seconds since 1970.
    func isUsedUp(by user: String, now: Int64) -> Bool { counter.current(user, now: now) >= perMinuteMax }

    /// The user has had one more, or so many.
    func count(_ user: String, _ amount: Int = 1, now: Int64) { counter.count(user, amount, now: now) }
}

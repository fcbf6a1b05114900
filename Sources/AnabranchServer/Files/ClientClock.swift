import AnabranchCore

/// What the times of a client's changes tell of its clock, in one session. A change that is dated later than now was
/// made by a clock that is fast. One that knows what the session has downloaded was made in the session: dated earlier,
/// its clock is slow. About what was written while the client was away nothing can be said.
struct ClientClock {
    /// When the session began, and what the client knew.
    private let start: ChangesetTime
    private let version: ServerVersion
    /// Whether it was told that the clock is wrong.
    private var isKnown = false

    init(start: ChangesetTime, version: ServerVersion) {
        self.start = start
        self.version = version
    }

    /// By how many seconds the clock is fast, or slow if they are negative, at least; nil unless these are more than
    /// `limit` and nobody was told before.
    mutating func difference(
        in changesets: [UploadedChangeset], at now: ChangesetTime, beyondSeconds limit: Int
    ) -> Int64? {
        guard !isKnown else { return nil }
        let seconds = changesets.map { Int64(difference(of: $0, at: now)) }.first { abs($0) > limit }
        isKnown = seconds != nil
        return seconds
    }

    private func difference(of changeset: UploadedChangeset, at now: ChangesetTime) -> Double {
        let time = changeset.timestamp.secondsSince1970
        if changeset.timestamp > now { return time - now.secondsSince1970 }
        guard changeset.cursor.serverVersion > version, changeset.timestamp < start else { return 0 }
        return time - start.secondsSince1970
    }
}

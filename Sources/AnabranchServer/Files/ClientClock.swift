import AnabranchCore
import AnabranchHistory

/// The evidence about a client's clock in the times of its changes, in one session. A change that is dated later than
/// now was made by a clock that is fast. The clock is slow if the change is dated earlier than something that its
/// author knew: a download of the session, an earlier change of its own, or an entry that the server made by its own
/// clock. Time 0 is before there was any client. Nothing more can be said of changes written while the client was away,
/// and an entry of another client proves nothing: its clock may be the wrong one.
struct ClientClock {
    /// The time when the session began, and the version that the client knew then.
    private let start: ChangesetTime
    private let version: ServerVersion
    /// The time of the last change of the session.
    private var last: ChangesetTime?
    /// True once the clock was found to be wrong.
    private var isKnown = false

    init(start: ChangesetTime, version: ServerVersion) {
        self.start = start
        self.version = version
    }

    /// The least number of seconds by which the clock is fast, or slow if it is negative; nil unless it is more than
    /// `limit` and was not reported before.
    /// - Parameter known: the latest time, by the log, before which the author cannot have made a change; asked only
    ///   for changes dated more than `limit` before the start of the session.
    mutating func difference(
        in changesets: [UploadedChangeset], at now: ChangesetTime, beyondSeconds limit: Int,
        known: (UploadedChangeset) throws(HistoryError) -> ChangesetTime?
    ) throws(HistoryError) -> Int64? {
        guard !isKnown else { return nil }
        for changeset in changesets {
            let time = changeset.timestamp.secondsSince1970
            func difference(from other: ChangesetTime) -> Int64 { Int64(time - other.secondsSince1970) }
            var seconds: Int64 = 0
            if changeset.timestamp > now || changeset.timestamp == 0 {
                seconds = difference(from: now)
            } else if changeset.timestamp < start, changeset.cursor.serverVersion > version {
                seconds = difference(from: start)
            } else if difference(from: start) < -Int64(limit) {
                // An earlier change from the future has been reported: now the clock is perhaps right.
                let earlier = if let last { last } else { try known(changeset) }
                if let earlier, earlier <= now { seconds = min(0, difference(from: earlier)) }
            }
            last = changeset.timestamp
            isKnown = seconds.magnitude > limit
            if isKnown { return seconds }
        }
        return nil
    }
}

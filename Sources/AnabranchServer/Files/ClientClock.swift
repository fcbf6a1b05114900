import AnabranchCore
import AnabranchHistory

/// What the times of a client's changes tell of its clock, in one session. A change that is dated later than now was
/// made by a clock that is fast. It is slow if the change is dated earlier than something that its author knew: what
/// the session has downloaded, an earlier change of its own, or an entry that the server made by its own clock. Time 0
/// is before there was any client. Of what was written while the client was away no more can be said, and an entry of
/// another client says nothing: its clock may be the wrong one.
struct ClientClock {
    /// When the session began, and what the client knew.
    private let start: ChangesetTime
    private let version: ServerVersion
    /// When the last change of the session was made.
    private var last: ChangesetTime?
    /// Whether it was told that the clock is wrong.
    private var isKnown = false

    init(start: ChangesetTime, version: ServerVersion) {
        self.start = start
        self.version = version
    }

    /// By how many seconds the clock is fast, or slow if they are negative, at least; nil unless these are more than
    /// `limit` and nobody was told before.
    /// - Parameter known: the time of what the author of a change knew, as the log has it; it is asked for changes
    ///   alone that are that old.
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
                // An earlier one from the future was told of then: now the clock is perhaps right.
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

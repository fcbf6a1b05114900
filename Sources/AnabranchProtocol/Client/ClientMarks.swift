import AnabranchCore

/// The MARKs of a client's session (`Spec/Protocol.md`, sections 5.3 and 8.4). Only the latest request matters: an
/// earlier one waits for less.
struct ClientMarks: Sendable {
    /// The latest request that somebody waits for, and the latest that was answered.
    private var wanted: UInt64 = 0
    private var answered: UInt64 = 0
    /// The requests that were sent on this connection and are not answered, each with the last QUERY before it.
    private var sent: [(request: UInt64, query: QueryVersion)] = []

    mutating func request() -> UInt64 {
        wanted += 1
        return wanted
    }

    /// True while somebody waits for an answer.
    var isAwaited: Bool { wanted > answered }

    /// True once the server has answered a request.
    var wasAnswered: Bool { answered > 0 }

    /// The request of the next MARK; nil if none is due.
    mutating func next(after query: QueryVersion) -> UInt64? {
        guard wanted > max(answered, sent.last?.request ?? 0) else { return nil }
        sent.append((wanted, query))
        return wanted
    }

    /// The server answers.
    ///
    /// - Returns: the last QUERY before the MARK; nil if nobody waits for the answer.
    mutating func answer(_ request: UInt64) -> QueryVersion? {
        guard let last = sent.last, answered < request, request <= last.request else { return nil }
        answered = request
        let query = sent.last { $0.request <= request }?.query ?? 0
        sent.removeAll { $0.request <= request }
        return query
    }

    /// The session ends, or begins again: unanswered requests have to be sent again.
    mutating func sessionEnded() { sent = [] }
}

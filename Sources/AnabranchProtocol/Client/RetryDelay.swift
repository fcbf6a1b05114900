/// The time that a client waits before it tries again (`Spec/Protocol.md`, section 13): the delay grows as long as the
/// same thing happens again and again. It outlives connections, for which there is one `RetryDelay` for each server,
/// and sessions, each of which has its own.
///
/// A connection that is opened resets nothing, because it may end at once, for the same reason; one that holds does.
public struct RetryDelay<Reason: Hashable & Sendable>: Sendable {
    private enum State {
        case fresh
        /// The reason, the law by which the delay grows, and the seconds of the last delay.
        case growing(Reason, BackOff, seconds: Int)
        case forbidden
    }

    private var state = State.fresh

    /// Nothing has happened yet.
    public init() {}

    /// The delay before the next try, in milliseconds; nil if there must be none before `reset`.
    ///
    /// - Parameters:
    ///   - reason: the reason why the last try failed. Another reason than before starts again with the first delay.
    ///   - advice: the server's numbers, in place of the client's.
    ///   - randomness: subtracts up to a quarter, so that many clients do not come at the same time.
    public mutating func next(
        after reason: Reason, advice: BackOff? = nil, using randomness: inout some RandomNumberGenerator
    ) -> Int64? {
        let law = (advice ?? .ofClients).sensible
        let seconds: Int
        switch state {
        case .forbidden: return nil
        case .growing(reason, law, let last):
            let (product, isTooLarge) = last.multipliedReportingOverflow(by: law.multiplier)
            seconds = isTooLarge ? law.maxSeconds : min(product, law.maxSeconds)
        case .fresh, .growing: seconds = min(law.firstSeconds, law.maxSeconds)
        }
        state = .growing(reason, law, seconds: seconds)
        let milliseconds = Int64(seconds) * 1000
        return milliseconds - Int64.random(in: 0...milliseconds / 4, using: &randomness)
    }

    /// A connection has ended that was open for this long. If that is longer than the longest delay, it did not end for
    /// the earlier reason.
    public mutating func connectionHeld(milliseconds: Int64) {
        if case .growing(_, let law, _) = state, milliseconds > Int64(law.maxSeconds) * 1000 { reset() }
    }

    /// Forbids another try, as a connection-level error can demand.
    public mutating func forbid() { state = .forbidden }

    /// There is a new token, the network is another one, or somebody wants a connection now.
    public mutating func reset() { state = .fresh }
}

extension RetryDelay<ErrorCode> {
    /// The delay in milliseconds before a session that an error has suspended goes on: always a second after 200.
    public mutating func next(
        after error: ErrorMessage, using randomness: inout some RandomNumberGenerator
    ) -> Int64? {
        error.code == .sessionClosed ? 1000 : next(after: error.code, advice: error.backOff, using: &randomness)
    }
}

extension BackOff {
    /// The client's own numbers.
    public static let ofClients = BackOff(firstSeconds: 1, maxSeconds: 300, multiplier: 2)

    /// Longest delay in seconds that a client takes from a server.
    static let adviceSecondsMax = 86_400

    /// Shortest delay in seconds that a client takes from a server.
    static let adviceSecondsMin = 1

    /// The server's numbers within the bounds that a client accepts.
    fileprivate var sensible: BackOff {
        func clamped(_ seconds: Int) -> Int { min(max(seconds, Self.adviceSecondsMin), Self.adviceSecondsMax) }
        return BackOff(
            firstSeconds: clamped(firstSeconds), maxSeconds: clamped(maxSeconds), multiplier: max(multiplier, 1))
    }
}

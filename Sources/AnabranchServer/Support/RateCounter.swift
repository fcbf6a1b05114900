import Synchronization

/// Counts what somebody does within a minute. Who is counted is a text: an address, a user's ident.
final class RateCounter: Sendable {
    fileprivate struct State {
        var minute: Int64 = 0
        var counts: [String: Int] = [:]
    }

    /// Different texts counted within one minute; more are counted together, so that memory is bounded.
    static let namesMax = 100_000

    private let state = Mutex(State())

    /// - Parameter now: seconds since 1970.
    /// - Returns: how often it has happened within this minute, this time included.
    @discardableResult
    func count(_ name: String, now: Int64) -> Int {
        state.withLock { state in
            state.turn(to: now)
            state.counts[state.key(name), default: 0] += 1
            return state.counts[state.key(name), default: 0]
        }
    }

    /// How often it has happened within this minute.
    func current(_ name: String, now: Int64) -> Int {
        state.withLock { state in
            state.turn(to: now)
            return state.counts[state.key(name), default: 0]
        }
    }
}

extension RateCounter.State {
    mutating func turn(to now: Int64) {
        guard minute != now / 60 else { return }
        minute = now / 60
        counts = [:]
    }

    func key(_ name: String) -> String {
        counts[name] != nil || counts.count < RateCounter.namesMax ? name : ""
    }
}

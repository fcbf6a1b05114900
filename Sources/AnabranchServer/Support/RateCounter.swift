import Synchronization

/// Counts events within the current minute, by the name of an address or a user.
final class RateCounter: Sendable {
    fileprivate struct State {
        var minute: Int64 = 0
        var counts: [String: Int] = [:]
    }

    /// Different names that are counted within one minute. Further ones are counted together, which bounds the memory.
    static let namesMax = 100_000

    private let state = Mutex(State())

    /// - Parameters:
    ///   - amount: how many at once.
    ///   - now: seconds since 1970.
    /// - Returns: how many events of the name there were within this minute, these included.
    @discardableResult
    func count(_ name: String, _ amount: Int = 1, now: Int64) -> Int {
        state.withLock { state in
            state.turn(to: now)
            state.counts[state.key(name), default: 0] += amount
            return state.counts[state.key(name), default: 0]
        }
    }

    /// How many events of the name there were within this minute.
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

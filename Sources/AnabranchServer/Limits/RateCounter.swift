import AnabranchCore
import Synchronization

/// Counts events within the current minute, or another period, by the name of an address or a user.
final class RateCounter: Sendable {
    fileprivate struct State {
        var period: Int64 = 0
        var counts: [ExactString: Int] = [:]
    }

    /// The most names that are counted separately within one period. Further ones are counted together, which bounds
    /// the memory.
    static let namesMax = 100_000

    private let state = Mutex(State())
    private let seconds: Int64

    /// - Parameter seconds: the length of a period.
    init(seconds: Int64 = 60) { self.seconds = seconds }

    /// - Parameters:
    ///   - amount: the number of events.
    ///   - now: seconds since 1970.
    /// - Returns: the number of events of the name within this period, these included.
    @discardableResult
    func count(_ name: String, _ amount: Int = 1, now: Int64) -> Int {
        state.withLock { state in
            state.turn(to: now / seconds)
            state.counts[state.key(name), default: 0] += amount
            return state.counts[state.key(name), default: 0]
        }
    }

    /// The number of events of the name within this period.
    func current(_ name: String, now: Int64) -> Int {
        state.withLock { state in
            state.turn(to: now / seconds)
            return state.counts[state.key(name), default: 0]
        }
    }
}

extension RateCounter.State {
    mutating func turn(to new: Int64) {
        guard period != new else { return }
        period = new
        counts = [:]
    }

    func key(_ name: String) -> ExactString {
        let name = ExactString(name)
        return counts[name] != nil || counts.count < RateCounter.namesMax ? name : ""
    }
}

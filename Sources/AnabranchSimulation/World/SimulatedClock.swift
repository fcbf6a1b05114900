import AnabranchCore
import AnabranchTesting
import Synchronization

/// The time of a simulation, which advances only when the simulation says so. Each machine has a clock of its own,
/// which may be wrong.
final class SimulatedClock: Sendable {
    private let state = Mutex((milliseconds: Int64(0), serverOffset: Int64(0)))

    /// 2025-01-01, in seconds since 1970.
    static let start: Int64 = 1_735_689_600

    /// The milliseconds since the start of the run, which never decrease.
    var now: Int64 { state.withLock { $0.milliseconds } }

    func advance(milliseconds: Int64) { state.withLock { $0.milliseconds += milliseconds } }

    /// The error of the server's clock, in seconds.
    var serverOffset: Int64 {
        get { state.withLock { $0.serverOffset } }
        set { state.withLock { $0.serverOffset = newValue } }
    }

    /// The time that the server's clock shows.
    var serverTime: ChangesetTime {
        state.withLock {
            ChangesetTime(secondsSince1970: Double((Self.start + $0.serverOffset) * 1000 + $0.milliseconds) / 1000)
        }
    }

    var monotonicSeconds: UInt64 { UInt64(now / 1000) }
}

/// The clock of a device, which may be wrong, jump or stand still, and become right again.
struct DeviceClock {
    /// The error of the clock, in milliseconds.
    private var offset: Int64
    /// The time at which it stopped, in milliseconds since the start of the run; nil while it runs.
    private var stoppedAt: Int64?

    private static let year: Int64 = 31_536_000_000

    init(offset: Int64) { self.offset = offset }

    var isRight: Bool { offset == 0 && stoppedAt == nil }

    /// Returns the time that the clock shows at `now`, in milliseconds since the start of the run.
    func time(at now: Int64) -> ChangesetTime {
        let sinceEpoch = (SimulatedClock.start - 1_420_070_400) * 1000
        return ChangesetTime(rawValue: UInt64(max(1, sinceEpoch + (stoppedAt ?? now) + offset)))
    }

    mutating func goWrong(at now: Int64, using random: inout SeededRandom) {
        switch random.below(4) {
        case 0: stoppedAt = stoppedAt ?? now
        case 1: offset += random.pick([-3_600_000, -6_000, -4_000, -1, 1, 4_000, 6_000, 3_600_000])
        default: offset = (Int64(random.below(150_001)) - 50_000) * (Self.year / 1_000)
        }
    }

    mutating func setRight() { self = DeviceClock(offset: 0) }
}

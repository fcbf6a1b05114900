import AnabranchCore
import Synchronization

/// Time goes on when the simulation says so. Each machine has a clock of its own, which may be wrong.
final class SimulatedClock: Sendable {
    private let state = Mutex((milliseconds: Int64(0), serverOffset: Int64(0)))

    /// 2025-01-01, in seconds since 1970.
    static let start: Int64 = 1_735_689_600

    /// Milliseconds since the start of the run: a clock that only goes on.
    var now: Int64 { state.withLock { $0.milliseconds } }

    func advance(milliseconds: Int64) { state.withLock { $0.milliseconds += milliseconds } }

    /// By how many seconds the server's clock is wrong.
    var serverOffset: Int64 {
        get { state.withLock { $0.serverOffset } }
        set { state.withLock { $0.serverOffset = newValue } }
    }

    /// What the server's clock shows.
    var serverTime: ChangesetTime {
        state.withLock {
            ChangesetTime(secondsSince1970: Double((Self.start + $0.serverOffset) * 1000 + $0.milliseconds) / 1000)
        }
    }

    var monotonicSeconds: UInt64 { UInt64(now / 1000) }
}

import AnabranchHistory
import Synchronization

/// The synced files whose logs are full, whether they are open or not.
final class FullFiles: Sendable {
    private struct State {
        var lastRound: UInt64?
        var isNoted = false
    }

    private let states = Mutex<[VirtualPath: State]>([:])

    /// The time until a full log is looked at again for entries that can go, in seconds.
    static let roundSeconds: UInt64 = 60

    /// True if a round that looks for entries to trim is due now, because a client tries to add to the full log.
    /// - Parameter time: in seconds since 1970.
    func isRoundDue(for path: VirtualPath, at time: UInt64) -> Bool {
        states.withLock { states in
            var state = states[path] ?? State()
            if let last = state.lastRound, last <= time, time - last < Self.roundSeconds { return false }
            state.lastRound = time
            states[path] = state
            return true
        }
    }

    /// Records the result of a round of maintenance.
    /// - Returns: whether the log has become full.
    func record(_ path: VirtualPath, isFull: Bool) -> Bool {
        states.withLock { states in
            guard isFull else {
                states[path] = nil
                return false
            }
            defer { states[path, default: State()].isNoted = true }
            return !(states[path]?.isNoted ?? false)
        }
    }
}

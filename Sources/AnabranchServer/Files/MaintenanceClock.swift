import AnabranchHistory
import Logging
import Synchronization

/// The clock by which client files expire: none does while it may have jumped (`ClockWatch`).
final class MaintenanceClock: Sendable {
    private struct State {
        var watch: ClockWatch
        /// The time that the store remembers, in seconds since 1970.
        var remembered: UInt64
    }

    /// The age at which the time that the store remembers is replaced, in seconds. It is compared with a tolerance of a
    /// day.
    private static let rememberedSeconds: UInt64 = 3_600

    private let store: any HistoryStore
    private let secondsOff: UInt64
    private let logger: Logger
    private let unixSeconds: @Sendable () -> UInt64
    private let monotonicSeconds: @Sendable () -> UInt64
    private let state = Mutex<State?>(nil)

    /// - Parameters:
    ///   - store: remembers the time.
    ///   - monotonicSeconds: a clock that never goes back.
    init(
        _ store: any HistoryStore, _ policy: HistoryPolicy, logger: Logger,
        unixSeconds: @escaping @Sendable () -> UInt64, monotonicSeconds: (@Sendable () -> UInt64)? = nil
    ) {
        self.store = store
        secondsOff = policy.offlineDays &* 86_400
        self.logger = logger
        self.unixSeconds = unixSeconds
        let start = ContinuousClock.now
        self.monotonicSeconds =
            monotonicSeconds ?? { UInt64(clamping: start.duration(to: .now).components.seconds) }
    }

    /// Looks at the clocks: what they have shown a minute ago says nothing of a jump since.
    /// - Returns: the time by which client files may expire, in seconds since 1970; nil if none may.
    func expiryTime() -> UInt64? {
        // Nothing can be said of the clock before the remembered time is known.
        guard state.withLock({ $0 != nil }) else { return nil }
        return compare(nil)
    }

    /// The time at which a client is there, in seconds since 1970: never before the newest one that was trusted. Who
    /// comes while the clock is behind would otherwise have been away for long once it is right.
    var seenTime: UInt64 { max(unixSeconds(), state.withLock { $0?.remembered ?? 0 }) }

    /// The number of seconds by which the clock has jumped; 0 if there is no evidence that it has.
    var jump: Int64 { state.withLock { $0?.watch.jump ?? 0 } }

    /// Looks at the clocks, and has the store remember the time from time to time. It may wait for the disk.
    func record() {
        do throws(HistoryError) {
            let isFirst = state.withLock { $0 == nil }
            let remembered = isFirst ? try store.recordedTime() : nil
            if let time = compare(remembered), isToBeRemembered(time) { try store.recordTime(time) }
        } catch {
            logger.warning("the time cannot be remembered", metadata: ["error": "\(error)"])
        }
    }

    /// - Returns: the time, if it is trusted.
    private func compare(_ remembered: UInt64?) -> UInt64? {
        let (before, after, time) = state.withLock { state in
            // They are read in here, so that no other thread comes between with a later reading.
            let wall = unixSeconds()
            var next = state ?? State(watch: ClockWatch(remembered: remembered), remembered: remembered ?? 0)
            let before = next.watch.jump
            next.watch.record(wall: wall, monotonic: monotonicSeconds(), trustedAfter: secondsOff)
            state = next
            return (before, next.watch.jump, next.watch.rememberedTime(wall: wall))
        }
        if let after, after != before {
            logger.warning(
                """
                the clock has jumped, or the server was off for long: no client file expires until \
                `anabranch admin maintain --trust-clock` says that it is right, or until clients had as long to come \
                back as they may be away
                """, metadata: ["seconds": "\(after)"])
        } else if before != nil, after == nil {
            logger.notice("the clock is trusted again")
        }
        return time
    }

    private func isToBeRemembered(_ time: UInt64) -> Bool {
        state.withLock { state in
            let remembered = state?.remembered ?? 0
            if time >= remembered, time - remembered < Self.rememberedSeconds { return false }
            state?.remembered = time
            return true
        }
    }

    /// Trusts the clock, because the operator says that it is right.
    /// - Returns: the number of seconds by which it had jumped.
    func trust() -> Int64 {
        record()
        defer { record() }
        return state.withLock { state in
            defer { state?.watch.trust() }
            return state?.watch.jump ?? 0
        }
    }
}

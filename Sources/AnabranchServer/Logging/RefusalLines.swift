import Logging
import Synchronization

/// The lines of the log about clients that are not let in. Anybody can cause them: an address causes no more than some
/// within a minute, and the others are counted.
final class RefusalLines: Sendable {
    private struct State {
        var minute: Int64 = 0
        /// The lines of this minute, by address.
        var counts: [String: Int] = [:]
        var omittedCount = 0
    }

    /// The most lines of one address within a minute.
    static let perMinuteMax = 300
    /// The most addresses that are counted separately within a minute.
    private static let addressesMax = 10_000

    private let state = Mutex(State())
    private let seconds: @Sendable () -> Int64

    /// - Parameter seconds: a clock that never goes back; nil for the machine's.
    init(seconds: (@Sendable () -> Int64)? = nil) {
        let start = ContinuousClock.now
        self.seconds = seconds ?? { start.duration(to: .now).components.seconds }
    }

    /// - Parameter address: that of the client; nil if it is not known.
    func log(
        _ message: Logger.Message, level: Logger.Level = .notice, from address: String?, _ metadata: Logger.Metadata,
        to logger: Logger
    ) {
        if isLogged(address ?? "") { logger.log(level: level, message, metadata: metadata) }
    }

    private func isLogged(_ address: String) -> Bool {
        let minute = seconds() / 60
        return state.withLock { state in
            if state.minute != minute { (state.minute, state.counts) = (minute, [:]) }
            let isSeparate = state.counts[address] != nil || state.counts.count < Self.addressesMax
            let count = state.counts[isSeparate ? address : "", default: 0] + 1
            state.counts[isSeparate ? address : ""] = count
            if count > Self.perMinuteMax { state.omittedCount += 1 }
            return count <= Self.perMinuteMax
        }
    }

    /// The number of lines that were left out since the last call.
    func takeOmitted() -> Int {
        state.withLock { state in
            defer { state.omittedCount = 0 }
            return state.omittedCount
        }
    }
}

import AnabranchProtocol
import Crypto
import NIOCore
import Synchronization

/// The expired tokens that clients of forks have come with, or were still connected with. A client that comes again
/// with the same token has no other one (`Spec/Forks.md`, section 5).
final class ExpiredTokens: Sendable {
    /// The time for which a token is remembered, in seconds.
    static let secondsMax: UInt64 = 600
    /// The most tokens that are remembered. They are genuine, so there are not many; beyond this number, each counts as
    /// seen.
    static let countMax = 10_000

    /// The work that is due when the token of a connection expires.
    struct Expiry: Sendable {
        /// The time until then, from now.
        let delay: TimeAmount
        /// Call this at that time: the close code informs the client.
        let record: @Sendable () -> Void
    }

    private let unixSeconds: @Sendable () -> UInt64
    private let monotonicSeconds: @Sendable () -> UInt64
    /// The times at which tokens were last seen, by digest.
    private let seen = Mutex<[SHA256.Digest: UInt64]>([:])

    /// - Parameters:
    ///   - unixSeconds: the clock by which tokens expire.
    ///   - monotonicSeconds: a clock that never goes back.
    init(
        unixSeconds: @escaping @Sendable () -> UInt64 = { 0 },
        monotonicSeconds: @escaping @Sendable () -> UInt64 = { NIODeadline.now().uptimeNanoseconds / 1_000_000_000 }
    ) {
        self.unixSeconds = unixSeconds
        self.monotonicSeconds = monotonicSeconds
    }

    /// Refuses a client that comes with an expired token.
    /// - Returns: nil for the close code 4001, upon which clients fetch another token and reconnect immediately. For a
    ///   client that would reconnect with the same token for ever: a message that it passes on to its app, and after
    ///   which it waits longer each time.
    func refusal(of token: String, because reason: String) -> ErrorMessage? {
        guard !record(token) else { return nil }
        var message = ErrorMessage(.otherError, reason)
        message.action = .warning
        return message
    }

    /// - Returns: whether it is the first time in the last minutes.
    @discardableResult
    private func record(_ token: String) -> Bool {
        let digest = SHA256.hash(data: Array(token.utf8)), now = monotonicSeconds()
        return seen.withLock { seen in
            // Another thread may have read the clock later, and come first.
            if seen.count >= Self.countMax { seen = seen.filter { now < $0.value + Self.secondsMax } }
            let isKnown = seen[digest].map { now < $0 + Self.secondsMax } ?? false
            guard isKnown || seen.count < Self.countMax else { return false }
            seen[digest] = now
            return !isKnown
        }
    }

    /// - Parameter time: in seconds since 1970.
    func expiry(of token: String, at time: Int64) -> Expiry {
        let seconds = max(0, time - Int64(clamping: unixSeconds()))
        // A deadline has no room for centuries.
        return Expiry(delay: .seconds(min(seconds, 100 * 365 * 86_400))) { self.record(token) }
    }
}

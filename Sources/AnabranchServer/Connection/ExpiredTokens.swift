import AnabranchProtocol
import Crypto
import NIOCore
import Synchronization

/// The tokens that clients of forks have come with, or were connected with, after they had expired. A client that comes
/// again with the same has no other one (`Spec/Forks.md`, section 5).
final class ExpiredTokens: Sendable {
    /// How long one is remembered, in seconds.
    static let secondsMax: UInt64 = 600
    /// How many are remembered. They are genuine, so there are not many; beyond it, each counts as seen.
    static let countMax = 10_000

    /// What is to be done when the token of a connection expires.
    struct Expiry: Sendable {
        /// From now.
        let delay: TimeAmount
        /// To be called then: the client is told by the close code.
        let note: @Sendable () -> Void
    }

    private let unixSeconds: @Sendable () -> UInt64
    private let monotonicSeconds: @Sendable () -> UInt64
    /// By digest, when each was last seen.
    private let seen = Mutex<[SHA256.Digest: UInt64]>([:])

    /// - Parameters:
    ///   - unixSeconds: the clock by which tokens expire.
    ///   - monotonicSeconds: one that only goes on.
    init(
        unixSeconds: @escaping @Sendable () -> UInt64 = { 0 },
        monotonicSeconds: @escaping @Sendable () -> UInt64 = { NIODeadline.now().uptimeNanoseconds / 1_000_000_000 }
    ) {
        self.unixSeconds = unixSeconds
        self.monotonicSeconds = monotonicSeconds
    }

    /// A client comes with an expired token.
    /// - Returns: nil if the close code is to be 4001, upon which clients fetch another one and come back at once; or,
    ///   for one that would come back with the same for ever, what it tells its app, and upon which it waits longer
    ///   each time.
    func refusal(of token: String, because reason: String) -> ErrorMessage? {
        guard !note(token) else { return nil }
        var message = ErrorMessage(.otherError, reason)
        message.action = .warning
        return message
    }

    /// - Returns: whether it is the first time in the last minutes.
    @discardableResult
    private func note(_ token: String) -> Bool {
        let digest = SHA256.hash(data: Array(token.utf8)), now = monotonicSeconds()
        return seen.withLock { seen in
            if seen.count >= Self.countMax { seen = seen.filter { now - $0.value < Self.secondsMax } }
            let isKnown = seen[digest].map { now - $0 < Self.secondsMax } ?? false
            guard isKnown || seen.count < Self.countMax else { return false }
            seen[digest] = now
            return !isKnown
        }
    }

    /// - Parameter time: in seconds since 1970.
    func expiry(of token: String, at time: Int64) -> Expiry {
        let seconds = max(0, time - Int64(clamping: unixSeconds()))
        // A deadline has no room for centuries.
        return Expiry(delay: .seconds(min(seconds, 100 * 365 * 86_400))) { self.note(token) }
    }
}

import AnabranchCore
import Synchronization

/// The last refusals of sessions and log-ins whose user is known, in memory: an operator sees them who asks about the
/// user.
package final class RecentRefusals: Sendable {
    package struct Refusal: Sendable {
        /// The time, in seconds since 1970.
        package let time: UInt64
        fileprivate let user: String
        /// The synced file of the session, as the log has it; nil for a log-in.
        package let path: String?
        /// The number of the error of sync, or the name of the error of App Services.
        package let code: String
        /// The reason, in words.
        package let reason: String
    }

    /// The most refusals that are kept, of all users.
    static let countMax = 1_000
    /// The most refusals of one user that are kept: they push out no others.
    static let ofUserMax = 10
    private let refusals = Mutex<[Refusal]>([])
    private let unixSeconds: @Sendable () -> UInt64

    /// - Parameter unixSeconds: the clock, in seconds since 1970.
    init(unixSeconds: @escaping @Sendable () -> UInt64) { self.unixSeconds = unixSeconds }

    func record(of user: String, path: String? = nil, code: String, reason: String) {
        let refusal = Refusal(time: unixSeconds(), user: user, path: path, code: code, reason: reason)
        refusals.withLock { refusals in
            let own = refusals.indices.filter { refusals[$0].user.hasBytes(of: user) }
            if own.count == Self.ofUserMax {
                refusals.remove(at: own[0])
            } else if refusals.count == Self.countMax {
                refusals.removeFirst()
            }
            refusals.append(refusal)
        }
    }

    /// The last refusals of a user, the newest one last.
    func last(_ count: Int, of user: String) -> [Refusal] {
        refusals.withLock { $0.filter { $0.user.hasBytes(of: user) }.suffix(count) }
    }
}

import AnabranchClient
package import AnabranchCore
import Synchronization

/// The clock of a replica whose transactions are parts of steps that a database knows of: shows the time of the step
/// that is made, so that after a crash the time of the replica's last transaction says whether it was made.
package final class StepTime: Sendable {
    private let step = Mutex<ChangesetTime?>(nil)

    package init() {}

    /// - Parameter time: the time of the step; nil after it.
    package func set(_ time: ChangesetTime?) { step.withLock { $0 = time } }

    package var now: ChangesetTime { step.withLock { $0 } ?? .now }

    /// The time of the next step, which no earlier one has.
    package static func next(after last: ChangesetTime) -> ChangesetTime {
        let time = ChangesetTime.now.following(last)
        return time == last ? ChangesetTime(rawValue: last.rawValue &+ 1) : time
    }
}

import AnabranchCore
import Foundation

extension Date {
    /// The date in the form of log entries.
    var changesetTime: ChangesetTime { ChangesetTime(secondsSince1970: timeIntervalSince1970) }
}

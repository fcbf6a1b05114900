import AnabranchCore
import Foundation

extension Date {
    /// As entries of a log have it.
    var changesetTime: ChangesetTime { ChangesetTime(secondsSince1970: timeIntervalSince1970) }
}

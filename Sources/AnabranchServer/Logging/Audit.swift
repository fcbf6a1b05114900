import Logging

extension Logger {
    /// Logs something that changes permissions, or takes something away. By the member `audit`, a host can keep these
    /// lines apart, as `anabranch serve` does (`Spec/Admin.md`, section 7).
    /// - Parameter what: a word for the action.
    func audit(_ what: String, _ message: Logger.Message, _ metadata: Logger.Metadata) {
        notice(message, metadata: metadata.merging(["audit": "\(what)"]) { $1 })
    }
}

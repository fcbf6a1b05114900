import Logging

extension Logger {
    /// Logs what changes who may do what, or takes something away. With the member `audit` a host can keep these lines
    /// apart, as `anabranch serve` does (`Spec/Admin.md`, section 7).
    /// - Parameter what: a word for what is done.
    func audit(_ what: String, _ message: Logger.Message, _ metadata: Logger.Metadata) {
        notice(message, metadata: metadata.merging(["audit": "\(what)"]) { $1 })
    }
}

/// A mistake in a file of an app's configuration, and its place.
package struct RuleError: Error, Hashable, Sendable {
    /// The file's path in the app.
    package let file: String
    /// The path through the JSON, such as `roles[0].apply_when`, or the line and column where it is not JSON; empty for
    /// the file as a whole.
    package let place: String
    /// The mistake, in words.
    package let reason: String

    /// An error at a place of a file.
    package init(file: String, place: String, reason: String) {
        self.file = file
        self.place = place
        self.reason = reason
    }
}

extension RuleError: CustomStringConvertible {
    /// File, place and reason, for people.
    package var description: String {
        [file, place, reason].filter { !$0.isEmpty }.joined(separator: ": ")
    }
}

/// A notice for an operator about an app's configuration that can be used nevertheless.
package struct AppNotice: Hashable, Sendable {
    /// The kind of a notice.
    package enum Kind: String, Sendable {
        /// A file or a key that is not known; it has no effect.
        case unknown
        /// The app asks for a feature that does not exist here.
        case notHere
        /// A role gives less than its author may think.
        case incomplete
    }

    /// The kind of the notice.
    package let kind: Kind
    /// The file's path in the app.
    package let file: String
    /// The key and its consequence, in words.
    package let text: String

    /// A notice about a file.
    package init(_ kind: Kind, _ file: String, _ text: String) {
        self.kind = kind
        self.file = file
        self.text = text
    }
}

extension AppNotice: CustomStringConvertible {
    /// One line for people.
    package var description: String { "\(file): \(text)" }
}

/// Gathers notices while files are read.
final class NoticeList {
    private(set) var notices: [AppNotice] = []

    func add(_ kind: AppNotice.Kind, _ file: String, _ text: String) { notices.append(AppNotice(kind, file, text)) }
}

import AnabranchCore

/// The reason why a diff is refused, as the sender of a change sees it.
package struct JSONDiffError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The wire's number for it (`Spec/Simperium.md`, section 3).
    package enum Code: Int, Sendable {
        /// It is not a valid diff, whatever it is applied to.
        case malformed = 400
        /// The outcome would be larger, or nested deeper, than is allowed.
        case tooLarge = 413
        /// It names an object that is not there.
        case noTarget = 417
        /// It is a diff, but of something else.
        case doesNotApply = 440
    }

    package let code: Code
    /// The names of members, and the indexes of elements, that lead to the place; empty for the whole.
    package private(set) var place: [String] = []
    package let reason: String

    package init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// The same error, seen from the value that has the place as a member or element of this name.
    package func within(_ name: String) -> JSONDiffError {
        var error = self
        error.place.insert(String(excerptOf: name.utf8), at: 0)
        return error
    }

    package var description: String { place.isEmpty ? reason : "\(place.joined(separator: "/")): \(reason)" }
}

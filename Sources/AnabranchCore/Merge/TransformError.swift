/// The reason why two lists of changesets cannot be merged (`Spec/Transform.md`, section 7.6). On the wire: error 212.
public struct TransformError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The reason why a merge is refused.
    public enum Code: String, Sendable {
        /// Both sides declare a class or a column, in ways that contradict each other.
        case incompatibleSchema
        /// Two instructions on one list disagree about its size.
        case sizesDiffer
        /// An index lies beyond the size that its instruction states.
        case indexOutOfRange
        /// A list and a dictionary are addressed at the same place.
        case inconsistentPaths
        /// More pairs would have to be visited than one merge may (`Spec/Limits.md`).
        case tooManyPairs
    }

    /// The reason why the merge is refused.
    public let code: Code
    /// The same in words, with kinds and numbers.
    public let reason: String

    init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// Errors are equal when their codes are.
    public static func == (left: TransformError, right: TransformError) -> Bool { left.code == right.code }

    /// For example `changesets cannot be merged: ArrayErase at 3 of 2 elements`.
    public var description: String { "changesets cannot be merged: \(reason)" }
}

/// The reason why objects of an application's types cannot be read or written. Two errors are equal if their codes are.
public struct ObjectError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Sendable {
        /// A type cannot be synchronized as it is declared.
        case badClass
        /// The store has a class or a property of that name that is of another kind.
        case mismatch
        /// A stored value has no counterpart in the type, or a value of the type cannot be stored.
        case badValue
        /// There is no object with that key.
        case notFound
        /// There is an object with that key.
        case exists
        /// A query makes no sense.
        case badQuery
        /// The call is not allowed here.
        case notAllowed
        /// The store cannot be read or written.
        case storeFailed
    }

    /// The kind of the error.
    public let code: Code
    /// The place and the reason, for people.
    public internal(set) var reason: String

    init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// The error with a place in front of its reason.
    func at(_ place: String) -> ObjectError { ObjectError(code, "\(place): \(reason)") }

    /// True if both have the same code.
    public static func == (left: ObjectError, right: ObjectError) -> Bool { left.code == right.code }

    /// The reason.
    public var description: String { reason }
}

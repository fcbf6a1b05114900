import AnabranchCore

/// The reason why a query cannot be answered, and its place (`Spec/Query.md`, section 10). Two errors are equal if
/// their kinds are.
public struct QueryError: Error, Sendable {
    /// The kind of error.
    public enum Kind: String, Sendable {
        /// The text is not of the language.
        case syntax
        /// The text asks for something that the class does not have or that makes no sense.
        case query
        /// The text is larger or deeper, or answering it takes longer, than `QueryLimits` allows.
        case limit
        /// Flexible sync does not allow it (`Spec/Query.md`, section 9).
        case refused
        /// Not the query's fault: objects that it names cannot be read.
        case unavailable
    }

    /// The kind of error.
    public let kind: Kind
    /// The place, in bytes from the start of the text; 0 for errors that are found only when objects are looked at.
    public let offset: Int
    /// The reason, in words.
    public let reason: String
    /// As `ApplyError.isOutdated`, where objects cannot be read.
    package private(set) var isOutdated = false

    /// Creates an error at a place of a text.
    public init(_ kind: Kind, at offset: Int, _ reason: String) {
        self.kind = kind
        self.offset = offset
        self.reason = reason
    }

    /// Reports that objects cannot be read.
    init(_ error: ApplyError, at offset: Int = 0) {
        self.init(.unavailable, at: offset, error.reason)
        isOutdated = error.isOutdated
    }
}

extension QueryError: Equatable {
    public static func == (left: QueryError, right: QueryError) -> Bool { left.kind == right.kind }
}

extension QueryError: CustomStringConvertible {
    /// The reason and the place, for people.
    public var description: String { "\(reason) (\(kind.rawValue) error at byte \(offset))" }
}

/// The limits of a query's cost (`Spec/Query.md`, section 10).
public enum QueryLimits {
    /// The longest text, in bytes.
    public static let textBytesMax = 262_144
    /// The largest depth to which subqueries, `not`, and parts joined in parentheses may be nested; each calculation of
    /// a comparison is one level more.
    public static let depthMax = 100
    /// The largest number of corners in a ring of a polygon: each edge is compared with each other.
    public static let cornerCountMax = 1_000
    /// The number of times that values of one object, and of those that it leads to, may be looked at to find out
    /// whether it matches.
    public static let looksMax = 100_000_000
}

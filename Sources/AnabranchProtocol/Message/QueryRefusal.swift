public import AnabranchCore

/// The content of QUERY_ERROR, for a client of flexible sync: a subscription set cannot be served, and the active one
/// stays (`Spec/FlexibleSync.md`, section 1.6).
public struct QueryRefusal: Equatable, Sendable {
    /// The set, which came with QUERY.
    public var version: QueryVersion
    /// Text for the application.
    public var message: String
    /// The code of the error, which clients do not look at.
    public var code: ErrorCode

    /// The refusal of one set.
    public init(version: QueryVersion, message: String, code: ErrorCode = .badQuery) {
        self.version = version
        self.message = message
        self.code = code
    }
}

public import AnabranchCore

/// What QUERY_ERROR tells a client of flexible sync: a subscription set cannot be served, and the active one stays
/// (`Spec/FlexibleSync.md`, section 1.6).
public struct QueryRefusal: Equatable, Sendable {
    /// The set, which came with QUERY.
    public var version: QueryVersion
    /// Text for the application.
    public var message: String
    /// Clients do not look at it.
    public var code: ErrorCode

    /// Puts the parts together.
    public init(version: QueryVersion, message: String, code: ErrorCode = .badQuery) {
        self.version = version
        self.message = message
        self.code = code
    }
}

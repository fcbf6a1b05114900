/// The number of a subscription set in a client's file, its "query version" (`Spec/FlexibleSync.md`, section 2.1). 0 is
/// the empty set of a new file; later ones grow, with gaps. At most 2^63−1.
public struct QueryVersion: TypedNumber {
    /// The number.
    public var rawValue: UInt64

    /// Takes any number.
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// What an application subscribes to: a query for each class, as IDENT and QUERY of flexible sync say it
/// (`Spec/FlexibleSync.md`, section 1.8).
public struct SubscriptionSet: Hashable, Sendable {
    /// The number that the client gave it. A client reset gives the same set another one.
    public var version: QueryVersion
    /// A JSON object from the names of classes to predicates, as it came: nobody has parsed it.
    public var query: [UInt8]

    /// Puts the parts together.
    public init(version: QueryVersion, query: [UInt8]) {
        self.version = version
        self.query = query
    }

    /// The predicates by the names of their classes; nil if the text is no JSON object of texts.
    package var predicates: [String: String]? {
        guard let members = try? JSONValue(parsing: query).object else { return nil }
        let texts = members.compactMapValues(\.string)
        return texts.count == members.count ? texts : nil
    }

    /// Of a new file: it has no subscriptions.
    public static let none = SubscriptionSet(version: 0, query: Array("{}".utf8))
}

/// The number of a subscription set in a client's file, its "query version" (`Spec/FlexibleSync.md`, section 2.1). 0 is
/// the empty set of a new file; later ones grow, with gaps. At most 2^63−1.
public struct QueryVersion: TypedNumber {
    /// The number.
    public var rawValue: UInt64

    /// Takes any number.
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// The queries of a client by the names of their classes. They are the same if their bytes are: `name == "é"` asks for
/// other objects than the same with "e\u{301}".
package typealias Predicates = [ExactString: ExactString]

extension Predicates {
    /// Nil if the value is not an object of texts.
    package init?(_ value: JSONValue) {
        guard let members = value.members else { return nil }
        self = members.compactMapValues(\.string).mapValues { ExactString($0) }
        guard count == members.count else { return nil }
    }

    package var json: JSONValue { .object(mapValues { .string($0.text) }) }

    package var byteCount: Int { reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count } }
}

/// The subscriptions of an application: a query for each class, as IDENT and QUERY of flexible sync carry them
/// (`Spec/FlexibleSync.md`, section 1.8).
public struct SubscriptionSet: Hashable, Sendable {
    /// The number that the client gave it. A client reset gives the same set another one.
    public var version: QueryVersion
    /// A JSON object from the names of classes to predicates, as it was received: it has not been parsed.
    public var query: [UInt8]

    /// Creates a set from its number and its queries.
    public init(version: QueryVersion, query: [UInt8]) {
        self.version = version
        self.query = query
    }

    /// The predicates by the names of their classes; nil if the text is not a JSON object of texts.
    package var predicates: Predicates? { (try? JSONValue(parsing: query)).flatMap { Predicates($0) } }

    /// The set of a new file, which has no subscriptions.
    public static let none = SubscriptionSet(version: 0, query: Array("{}".utf8))
}

/// The options that change the meaning of a query.
public struct QueryOptions: Sendable {
    /// The meaning of a link.
    public enum Links: Sendable {
        /// The object that it leads to; null if that does not exist.
        case followed
        /// Its class and key alone, so that whether an object matches depends on nothing but itself: the meaning in
        /// flexible sync (`Spec/Query.md`, section 9).
        case keys
    }

    /// The meaning of links.
    public var links: Links

    /// Creates options; by default with the meaning in an app.
    public init(links: Links = .followed) { self.links = links }
}

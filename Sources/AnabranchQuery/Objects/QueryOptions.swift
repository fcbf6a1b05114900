/// How a query looks at links.
public struct QueryOptions: Sendable {
    /// What a link stands for.
    public enum Links: Sendable {
        /// The object that it leads to; null if that does not exist.
        case followed
        /// Its class and key alone, so that whether an object matches depends on nothing but itself: the meaning in
        /// flexible sync (`Spec/Query.md`, section 9).
        case keys
    }

    /// What a link stands for.
    public var links: Links

    /// The meaning in an app, unless another one is asked for.
    public init(links: Links = .followed) { self.links = links }
}

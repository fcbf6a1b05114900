/// When and where a changeset was made: the tie-break of every merge rule (`Spec/Transform.md`, section 1).
public struct OriginTag: Equatable, Hashable, Comparable, Sendable {
    /// Milliseconds since 2015-01-01T00:00:00Z, as the author wrote them; never corrected.
    public var timestamp: UInt64
    /// The client file in which the change was made; 1 is the server's own file.
    public var ident: UInt64

    public init(timestamp: UInt64, ident: UInt64) {
        self.timestamp = timestamp
        self.ident = ident
    }

    /// Older comes first; at equal times the smaller file ident counts as older.
    @inlinable
    public static func < (left: OriginTag, right: OriginTag) -> Bool {
        left.timestamp != right.timestamp ? left.timestamp < right.timestamp : left.ident < right.ident
    }
}

/// When and where a changeset was made: the tie-break of every merge rule (`Spec/Transform.md`, section 1).
public struct OriginTag: Equatable, Hashable, Comparable, Sendable {
    /// The time at which the change was made, by its author's clock; never corrected.
    public var timestamp: ChangesetTime
    /// The client file in which the change was made; 1 is the server's own file.
    public var ident: ClientFileID

    /// A tag of a time and a client file.
    public init(timestamp: ChangesetTime, ident: ClientFileID) {
        self.timestamp = timestamp
        self.ident = ident
    }

    /// Older comes first; at equal times the smaller file ident counts as older.
    @inlinable
    public static func < (left: OriginTag, right: OriginTag) -> Bool {
        left.timestamp != right.timestamp ? left.timestamp < right.timestamp : left.ident < right.ident
    }
}

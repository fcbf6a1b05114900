// A server counts the entries of its log, a client the commits to its file. The cursors of the protocol are made of one
// number of each kind, and not always in the same order; so the two kinds are two types.

/// The number of an entry in the server's log of a synced file: the n-th entry produces version n, and 0 is before all
/// entries (`Spec/History.md`, section 1). At most 2^63−1.
public struct ServerVersion: TypedNumber {
    /// The number.
    public var rawValue: UInt64

    /// Takes any number.
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// The number of a commit in a client's file (`Spec/History.md`, section 1). Those of uploaded changesets have gaps
/// between them, since commits that are not uploaded count as well; the first one that can be uploaded is 2. At most
/// 2^63−1.
public struct ClientVersion: TypedNumber {
    /// The number.
    public var rawValue: UInt64

    /// Takes any number.
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// A server version with its salt: both are 0 before the first entry of the log.
public struct SaltedVersion: Hashable, Sendable {
    /// The number of the log entry.
    public var version: ServerVersion
    /// The salt that the version was given when it was made.
    public var salt: Salt

    /// Creates a version with its salt.
    public init(version: ServerVersion = 0, salt: Salt = 0) {
        self.version = version
        self.salt = salt
    }
}

/// The versions above `base` up to and including `last`: a piece of a log as cursors cut it.
public struct VersionRange: Equatable, Sendable {
    /// The version before the piece.
    public var base: ServerVersion
    /// The last version of the piece. It is empty if this is not above `base`.
    public var last: ServerVersion

    /// Creates the piece that begins after `base`.
    public init(after base: ServerVersion, through last: ServerVersion) {
        self.base = base
        self.last = last
    }

    /// True if the piece has the version.
    public func contains(_ version: ServerVersion) -> Bool { base < version && version <= last }

    /// True if the piece has no version.
    public var isEmpty: Bool { base >= last }
}

import AnabranchCore

/// One entry of a synced file's log (`Spec/History.md`, section 2.2). Entries never change after their commit.
public struct LogEntry: Equatable, Sendable {
    /// The server version that the entry produced; the first is 1.
    public var version: ServerVersion
    /// 1 … 2^63−1; proves that two parties mean the same version.
    public var salt: Salt
    /// The client file that uploaded the changeset; 0 if the server itself made it.
    public var origin: ClientFileID
    /// The version that the changeset produced on the uploading client; 0 for the server's own entries.
    public var clientVersion: ClientVersion
    /// As received, never corrected.
    public var timestamp: ChangesetTime
    /// Sum of the changeset sizes up to and including this entry, in bytes.
    public var cumulativeSize: UInt64
    /// The transformed changeset, encoded; no bytes if no instruction survived.
    public var changeset: [UInt8]

    public init(
        version: ServerVersion, salt: Salt, origin: ClientFileID, clientVersion: ClientVersion,
        timestamp: ChangesetTime,
        cumulativeSize: UInt64, changeset: [UInt8]
    ) {
        self.version = version
        self.salt = salt
        self.origin = origin
        self.clientVersion = clientVersion
        self.timestamp = timestamp
        self.cumulativeSize = cumulativeSize
        self.changeset = changeset
    }

    /// The origin as it is said on the wire and as the merge rules see it: the server's own entries have ident 1 there.
    public var originOnWire: ClientFileID { origin == 0 ? .server : origin }

    /// When and where the changeset was made, as the merge rules see it.
    public var tag: OriginTag { OriginTag(timestamp: timestamp, ident: originOnWire) }
}

/// A log entry as one client file has to see it: after it was merged past changes of that client
/// (`Spec/History.md`, section 2.3). An empty changeset is something else than no reciprocal changeset.
public struct ReciprocalChangeset: Equatable, Sendable {
    /// The version of the log entry.
    public var version: ServerVersion
    public var changeset: [UInt8]

    public init(version: ServerVersion, changeset: [UInt8]) {
        self.version = version
        self.changeset = changeset
    }
}

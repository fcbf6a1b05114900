/// A changeset as a client uploads it (`Spec/Protocol.md`, section 4.4).
public struct UploadedChangeset: Equatable, Sendable {
    /// The client version that the changeset produced, and the last server version that the client had integrated
    /// before. The latter is the changeset's base: the state on which it was made.
    public var cursor: UploadCursor
    /// The time at which it was made, by the client's clock.
    public var timestamp: ChangesetTime
    /// The file in which it was made: 0 for that of the client that uploads it. Other numbers are refused at
    /// integration.
    public var origin: ClientFileID
    /// The changeset, encoded.
    public var changeset: [UInt8]

    /// Creates a changeset as an UPLOAD carries it.
    public init(cursor: UploadCursor, timestamp: ChangesetTime, origin: ClientFileID = 0, changeset: [UInt8]) {
        self.cursor = cursor
        self.timestamp = timestamp
        self.origin = origin
        self.changeset = changeset
    }
}

/// The content of one UPLOAD.
public struct Upload: Equatable, Sendable {
    /// How far the client's scan of its own log has come.
    public var progress: UploadCursor
    /// The client needs no history at or below the lower of this and `progress.serverVersion`.
    public var lockedVersion: ServerVersion
    /// The changesets in the order of the client's log.
    public var changesets: [UploadedChangeset]
    /// The client's program; the message itself does not name it.
    public var uploader: Uploader
    /// Classes and columns that are not taken over with it, since its user may only read: changesets, encoded. The
    /// server keeps them for the time when the user may write.
    package var withheldSchemas: [[UInt8]] = []

    /// Creates the content of an UPLOAD. One without changesets still reports progress.
    public init(
        progress: UploadCursor, lockedVersion: ServerVersion = 0, changesets: [UploadedChangeset] = [],
        uploader: Uploader = .unknown
    ) {
        self.progress = progress
        self.lockedVersion = lockedVersion
        self.changesets = changesets
        self.uploader = uploader
    }
}

/// A changeset as a client uploads it (`Spec/Protocol.md`, section 4.4).
public struct UploadedChangeset: Equatable, Sendable {
    /// The client version that the changeset produced, and the last server version that the client had integrated
    /// before. The latter is the changeset's base: the state on which it was made.
    public var cursor: UploadCursor
    /// When it was made, as the client's clock says.
    public var timestamp: ChangesetTime
    /// 0: made by the client that uploads it. Other numbers are refused at integration.
    public var origin: ClientFileID
    /// The changeset, encoded.
    public var changeset: [UInt8]

    /// Puts the parts together.
    public init(cursor: UploadCursor, timestamp: ChangesetTime, origin: ClientFileID = 0, changeset: [UInt8]) {
        self.cursor = cursor
        self.timestamp = timestamp
        self.origin = origin
        self.changeset = changeset
    }
}

/// What one UPLOAD says.
public struct Upload: Equatable, Sendable {
    /// How far the client's scan of its own log has come.
    public var progress: UploadCursor
    /// The client needs no history at or below the lower of this and `progress.serverVersion`.
    public var lockedVersion: ServerVersion
    /// In the order of the client's log.
    public var changesets: [UploadedChangeset]
    /// The client's program; the message itself does not tell.
    public var uploader: Uploader
    /// Classes and columns that are not taken over with it, since its user may only read: changesets, encoded. The
    /// server keeps them for the time when the user may write.
    package var withheldSchemas: [[UInt8]] = []

    /// Puts the parts together. An upload without changesets still reports progress.
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

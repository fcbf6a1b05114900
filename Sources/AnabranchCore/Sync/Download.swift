/// A changeset as a client downloads it (`Spec/Protocol.md`, section 5.2).
public struct DownloadedChangeset: Equatable, Sendable {
    /// Where the reader stands behind the changeset: the version of its log entry, and the newest of the reader's own
    /// client versions that precede it in the log. The reader merges the changeset with precisely its own changes after
    /// the latter, which is the only part that differs between readers.
    public var cursor: DownloadCursor
    /// The changeset's origin; the server's own changesets have the number 1, none has 0.
    public var tag: OriginTag
    /// The changeset, encoded. The bytes are shared by all readers of one process, not copied for each.
    public var changeset: [UInt8]
    /// The size in bytes before any compaction of the log, for displays of progress only.
    public var originalBytes: Int

    /// Puts the parts together.
    /// - Parameter originalBytes: nil if the changeset has not been compacted.
    public init(cursor: DownloadCursor, tag: OriginTag, changeset: [UInt8], originalBytes: Int? = nil) {
        self.cursor = cursor
        self.tag = tag
        self.changeset = changeset
        self.originalBytes = originalBytes ?? changeset.count
    }
}

/// The progress that a DOWNLOAD reports: its header (`Spec/Protocol.md`, section 5.2).
public struct DownloadProgress: Equatable, Sendable {
    /// Where the reader stands behind the message.
    public var cursor: DownloadCursor
    /// The newest version when the message was made.
    public var latest: SaltedVersion
    /// How far the reader's own uploads have been integrated: their acknowledgement.
    public var upload: UploadCursor
    /// An estimate of the bytes still to come after the message; 0 exactly if nothing is.
    public var downloadableBytes: UInt64

    /// Puts the parts together.
    public init(cursor: DownloadCursor, latest: SaltedVersion, upload: UploadCursor, downloadableBytes: UInt64) {
        self.cursor = cursor
        self.latest = latest
        self.upload = upload
        self.downloadableBytes = downloadableBytes
    }

    /// Whether the reader has everything there was.
    public var isComplete: Bool { cursor.serverVersion == latest.version }
}

/// What one DOWNLOAD says.
public struct Download: Equatable, Sendable {
    /// Where the reader stands behind it.
    public var progress: DownloadProgress
    /// In the order of the server's log, none of the reader's own and none empty.
    public var changesets: [DownloadedChangeset]

    /// Puts the parts together. A download without changesets still reports progress.
    public init(progress: DownloadProgress, changesets: [DownloadedChangeset] = []) {
        self.progress = progress
        self.changesets = changesets
    }
}

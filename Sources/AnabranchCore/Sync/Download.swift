/// A changeset as a client downloads it (`Spec/Protocol.md`, section 5.2).
public struct DownloadedChangeset: Equatable, Sendable {
    /// The reader's position after the changeset: the version of its log entry, and the newest of the reader's own
    /// client versions that precede it in the log. The reader merges the changeset with precisely its own changes after
    /// the latter, which is the only part that differs between readers.
    public var cursor: DownloadCursor
    /// The changeset's origin; the server's own changesets have the number 1, none has 0.
    public var tag: OriginTag
    /// The changeset, encoded. The bytes are shared by all readers of one process, not copied for each.
    public var changeset: [UInt8]
    /// The size in bytes before any compaction of the log, for displays of progress only.
    public var originalBytes: Int

    /// Creates a changeset as a DOWNLOAD carries it.
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
    /// The reader's position after the message.
    public var cursor: DownloadCursor
    /// The newest version when the message was made.
    public var latest: SaltedVersion
    /// How far the reader's own uploads have been integrated: their acknowledgement.
    public var upload: UploadCursor
    /// An estimate of the bytes still to come after the message; 0 exactly if nothing is.
    public var downloadableBytes: UInt64

    /// Creates the progress that a DOWNLOAD reports.
    public init(cursor: DownloadCursor, latest: SaltedVersion, upload: UploadCursor, downloadableBytes: UInt64) {
        self.cursor = cursor
        self.latest = latest
        self.upload = upload
        self.downloadableBytes = downloadableBytes
    }

    /// True if the reader has everything up to the newest version.
    public var isComplete: Bool { cursor.serverVersion == latest.version }
}

/// The content of one DOWNLOAD.
public struct Download: Equatable, Sendable {
    /// The reader's progress after the message.
    public var progress: DownloadProgress
    /// The changesets in the order of the server's log, none of the reader's own and none empty.
    public var changesets: [DownloadedChangeset]

    /// Creates the content of a DOWNLOAD. One without changesets still reports progress.
    public init(progress: DownloadProgress, changesets: [DownloadedChangeset] = []) {
        self.progress = progress
        self.changesets = changesets
    }
}

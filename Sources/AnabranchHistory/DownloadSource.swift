import AnabranchCore

/// One changeset of a DOWNLOAD (`Spec/Protocol.md`, section 5.2).
public struct DownloadEntry: Equatable, Sendable {
    public var serverVersion: UInt64
    /// The newest client version of the reader that precedes the entry in the log: the reader merges the entry against
    /// precisely its own changes after this one.
    public var clientVersion: UInt64
    public var timestamp: UInt64
    /// The origin as said on the wire: never 0.
    public var origin: UInt64
    /// The size before any compaction of the log, in bytes; for progress displays only.
    public var originalSize: Int
    public var changeset: [UInt8]

    public init(
        serverVersion: UInt64, clientVersion: UInt64, timestamp: UInt64, origin: UInt64, originalSize: Int,
        changeset: [UInt8]
    ) {
        self.serverVersion = serverVersion
        self.clientVersion = clientVersion
        self.timestamp = timestamp
        self.origin = origin
        self.originalSize = originalSize
        self.changeset = changeset
    }
}

/// The contents of one DOWNLOAD.
public struct DownloadBatch: Equatable, Sendable {
    /// The reader's cursor after the batch.
    public var cursor: DownloadCursor
    /// The newest version when the batch was made, and its salt.
    public var latestVersion: UInt64
    public var latestVersionSalt: UInt64
    /// How far the reader's own uploads have been integrated: the acknowledgement.
    public var uploadCursor: UploadCursor
    /// An estimate of what is still to come after the batch; 0 exactly if nothing is.
    public var downloadableBytes: UInt64
    public var entries: [DownloadEntry]

    public init(
        cursor: DownloadCursor, latestVersion: UInt64, latestVersionSalt: UInt64, uploadCursor: UploadCursor,
        downloadableBytes: UInt64, entries: [DownloadEntry]
    ) {
        self.cursor = cursor
        self.latestVersion = latestVersion
        self.latestVersionSalt = latestVersionSalt
        self.uploadCursor = uploadCursor
        self.downloadableBytes = downloadableBytes
        self.entries = entries
    }

    /// Whether the reader has everything there was.
    public var isComplete: Bool { cursor.serverVersion == latestVersion }
}

/// What a session sends to its client. The scan of a synced file's log is one source; others may filter the log or make
/// entries up.
public protocol DownloadSource {
    /// The batch that follows `cursor`. It ends with the entry that makes its changesets exceed `byteBudget` bytes, so
    /// it brings at least one entry while there is one.
    func batch(after cursor: DownloadCursor, byteBudget: Int) throws(HistoryError) -> DownloadBatch
}

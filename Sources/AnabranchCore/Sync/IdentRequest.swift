/// The statement of a client about its file when a session begins: IDENT (`Spec/Protocol.md`, section 4.3).
public struct IdentRequest: Equatable, Sendable {
    /// The file, with the salt that the server gave it.
    public var file: SaltedFileID
    /// The place at which downloading resumes.
    public var download: DownloadCursor
    /// The newest version that a DOWNLOAD has announced to this file; 0 if there was none.
    public var latest: SaltedVersion
    /// The active subscription set; nil in partition-based sync.
    public var subscriptions: SubscriptionSet?

    /// Creates the content of an IDENT. A new file has downloaded nothing.
    public init(
        file: SaltedFileID, download: DownloadCursor = DownloadCursor(), latest: SaltedVersion = SaltedVersion(),
        subscriptions: SubscriptionSet? = nil
    ) {
        self.file = file
        self.download = download
        self.latest = latest
        self.subscriptions = subscriptions
    }
}

/// The client's file as a session sees it (`Spec/History.md`, section 12): a replica conforms, and the session's state
/// machine (`AnabranchProtocol`) knows nothing else of it.
///
/// The driver of the session passes on to the file what the server sends: an ident, downloads, refused queries.
public protocol SessionFile {
    /// The number and the salt that the server gave the file; nil for one that has never been connected.
    var file: SaltedFileID? { get }
    /// The progress reported by the last DOWNLOAD that was integrated; all 0 for a new file.
    var progress: DownloadProgress { get }
    /// The newest version of the file's own log.
    var version: ClientVersion { get }
    /// The subscription set whose bootstrap was integrated last, for IDENT; nil in partition-based sync.
    var activeSubscriptions: SubscriptionSet? { get }

    /// The oldest subscription set after `version` and after the active one that the client has to send by QUERY, and
    /// the version of the file at which it was committed: earlier writes are uploaded before the QUERY, later ones
    /// after it. Nil in partition-based sync.
    func unsentSubscriptions(after version: QueryVersion) -> UnsentSubscriptions?

    /// True if a MARK may have been answered without the answer having been stored: that the file has everything there
    /// was, or the objects of a subscription set. False by default.
    var needsMark: Bool { get }

    /// Begins a session: what was uploaded and is not acknowledged is uploaded again.
    mutating func startUploading()

    /// True if all changes up to a version were uploaded in this session.
    func hasUploaded(through version: ClientVersion) -> Bool

    /// The next UPLOAD; nil if there is nothing to report. It ends at `version` at the latest.
    ///
    /// - Throws: if the log cannot be read.
    mutating func nextUpload(through version: ClientVersion) throws -> Upload?
}

extension SessionFile {
    /// False: no answer to a MARK is missing.
    public var needsMark: Bool { false }
}

/// A subscription set that the client has to send.
public struct UnsentSubscriptions: Equatable, Sendable {
    /// The queries, with the number of their set.
    public var set: SubscriptionSet
    /// The version of the file at which it was committed.
    public var snapshot: ClientVersion

    /// Creates a set to send.
    public init(set: SubscriptionSet, snapshot: ClientVersion) {
        self.set = set
        self.snapshot = snapshot
    }
}

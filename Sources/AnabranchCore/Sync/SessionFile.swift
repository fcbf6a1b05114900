/// What a session needs to know of the client's file that it syncs (`Spec/History.md`, section 12): a replica is one,
/// and the machine of the session (`AnabranchProtocol`) knows nothing else of it.
///
/// Whoever drives the session passes on to the file what the server says: an ident, downloads, refused queries.
public protocol SessionFile {
    /// What the server called the file; nil for one that has never been connected.
    var file: SaltedFileID? { get }
    /// What the last DOWNLOAD said that was integrated; all 0 for a new file.
    var progress: DownloadProgress { get }
    /// The newest version of the file's own log.
    var version: ClientVersion { get }
    /// The subscription set whose bootstrap was integrated last, for IDENT; nil in partition-based sync.
    var activeSubscriptions: SubscriptionSet? { get }

    /// The oldest subscription set behind `version` and behind the active one that the server has to be told of by
    /// QUERY, and the version of the file at which it was committed: what was written before is uploaded before the
    /// QUERY, what was written later behind it. Nil in partition-based sync.
    func unsentSubscriptions(after version: QueryVersion) -> UnsentSubscriptions?

    /// Whether a MARK may have been answered of which nothing was stored: that everything is here that there was, or
    /// the objects of a subscription set. The default is that none was.
    var needsMark: Bool { get }

    /// A session begins: what was uploaded and is not acknowledged is uploaded again.
    mutating func startUploading()

    /// Whether all changes up to a version were uploaded in this session.
    func hasUploaded(through version: ClientVersion) -> Bool

    /// The next UPLOAD; nil if there is nothing to say. It ends with the last version that it names, at the latest.
    ///
    /// - Throws: if the log cannot be read.
    mutating func nextUpload(through version: ClientVersion) throws -> Upload?
}

extension SessionFile {
    /// None was.
    public var needsMark: Bool { false }
}

/// A subscription set that the server has to be told of.
public struct UnsentSubscriptions: Equatable, Sendable {
    /// The set.
    public var set: SubscriptionSet
    /// The version of the file at which it was committed.
    public var snapshot: ClientVersion

    /// Puts the parts together.
    public init(set: SubscriptionSet, snapshot: ClientVersion) {
        self.set = set
        self.snapshot = snapshot
    }
}

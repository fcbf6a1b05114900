import AnabranchCore

/// Everything that one transaction changes in one synced file. Integration computes it without touching anything; a
/// store applies it entirely or not at all.
///
/// A new kind of stored thing (records of another wire) is one more list here and one more promise of
/// `HistoryStore.commit`.
public struct Commit: Sendable {
    public var file: SyncedFileID
    public var lease: Lease
    /// The head that the file has before the commit; a store compares the version.
    public var head: FileHead
    /// New log entries with the versions `head.version + 1`, `+ 2` ….
    public var entries: [LogEntry] = []
    /// Under which hashes the new entries are found later, in the order of the entries.
    public var postings: [Posting] = []
    /// Client files as they are afterwards, in ascending order of ident; an ident not stored yet is a new row and has
    /// to be the next one. Reciprocal changesets up to the row's `uploadCursor.serverVersion` go away, and all of them
    /// if the row is expired.
    public var clientFiles: [ClientFile] = []
    /// Reciprocal changesets that are new or replace a stored one, sorted by client file and version.
    public var reciprocals: [ReciprocalChange] = []
    /// What becomes of the stored state; nil if it stays as it is.
    public var state: StateUpdate?
    /// The key of the server's own write that this is.
    public var writeKey: WriteKey?

    public init(file: SyncedFileID, lease: Lease, head: FileHead) {
        self.file = file
        self.lease = lease
        self.head = head
    }

    /// The head that the file has after the commit.
    public var newHead: FileHead {
        var result = head
        if let last = entries.last {
            result.version = last.version
            result.versionSalt = last.salt
            result.cumulativeSize = last.cumulativeSize
        }
        if let state { result.stateVersion = state.version }
        if let last = clientFiles.last { result.nextIdent = max(result.nextIdent, last.ident + 1) }
        return result
    }

    public var isEmpty: Bool {
        entries.isEmpty && clientFiles.isEmpty && reciprocals.isEmpty && state == nil && writeKey == nil
    }
}

/// An entry of the touch index: the log entry `version` is found under `hash` (`ConflictKeys.writes`).
public struct Posting: Equatable, Sendable {
    public var hash: UInt64
    public var version: ServerVersion
    /// The entry's origin: a reader's own entries are never its candidates.
    public var origin: ClientFileID

    public init(hash: UInt64, version: ServerVersion, origin: ClientFileID) {
        self.hash = hash
        self.version = version
        self.origin = origin
    }
}

/// A changeset to be stored in the reciprocal history of client file `ident`.
public struct ReciprocalChange: Equatable, Sendable {
    public var ident: ClientFileID
    public var reciprocal: ReciprocalChangeset

    public init(ident: ClientFileID, reciprocal: ReciprocalChangeset) {
        self.ident = ident
        self.reciprocal = reciprocal
    }
}

/// Under which name a write of the server itself was made, and the version that it made.
public struct WriteKey: Equatable, Sendable {
    /// Of a file's keys a store keeps at least so many, the newest ones.
    public static let countMax = 10_000

    /// A text in UTF-8, compared byte by byte.
    public var key: [UInt8]
    public var version: ServerVersion

    public init(key: [UInt8], version: ServerVersion) {
        self.key = key
        self.version = version
    }
}

public import AnabranchCore

/// The storage of a replica: its state, the log of changes that the server has not confirmed, and its place in the
/// server's log (`Spec/Replica.md`, section 2). One replica at a time works on a store.
///
/// All functions are synchronous, and `commit` is atomic. A replica changes nothing in memory before `commit` has
/// returned, so a store that throws has to be as it was before.
public protocol ReplicaStore {
    /// Loads what was committed last; a new replica if nothing was.
    func load() throws -> StoredReplica

    /// A changeset of the log as it was made, which is the form that is uploaded.
    func changeset(of version: ClientVersion) throws -> [UInt8]

    /// The changeset as the server has to see it, after the entries that were merged with it; nil if no merge has
    /// changed it.
    func reciprocal(of version: ClientVersion) throws -> [UInt8]?

    /// The digests of the elements of lists that a changeset of the log has changed or erased, by which they are found
    /// again after a client reset; none if they were not stored, which is the default.
    func changedElements(of version: ClientVersion) throws -> [UInt64]

    /// The parts of the bootstrap received so far, in order.
    func bootstrapParts() throws -> [DownloadedChangeset]

    /// Makes a commit durable, or throws and changes nothing.
    mutating func commit(_ commit: ReplicaCommit) throws

    /// Calls `body`, which reads the state many times and commits nothing. The default does no more.
    func readTogether<Value>(_ body: () throws -> Value) throws -> Value

    /// The slots of the properties whose former values the store has to know when a commit changes the object. Empty by
    /// default.
    func recordedSlots(of object: ObjectReference) -> Set<Int>
}

extension ReplicaStore {
    /// Calls `body`, and prepares nothing.
    public func readTogether<Value>(_ body: () throws -> Value) throws -> Value { try body() }

    /// None, since they are not stored.
    public func changedElements(of version: ClientVersion) -> [UInt64] { [] }

    /// None.
    public func recordedSlots(of object: ObjectReference) -> Set<Int> { [] }
}

/// The contents of a store when a replica is opened on it. The bytes of the log stay where they are.
public struct StoredReplica: Sendable {
    /// The numbers and cursors.
    public var record: ReplicaRecord
    /// The log, ascending.
    public var log: [LocalVersion]
    /// The state, whose objects are read when they are needed.
    public var state: ObjectGraph

    /// A replica with these parts; by default a new one.
    public init(
        record: ReplicaRecord = ReplicaRecord(), log: [LocalVersion] = [], state: ObjectGraph = ObjectGraph()
    ) {
        self.record = record
        self.log = log
        self.state = state
    }
}

/// The numbers of a replica (`Spec/History.md`, section 12.1).
public struct ReplicaRecord: Equatable, Sendable {
    /// The ident that the server has given the file, with its salt; nil before the first connection.
    public var file: SaltedFileID?
    /// The newest version of the replica's own log. A new file is at version 1.
    public var version: ClientVersion = 1
    /// The progress in the last integrated DOWNLOAD. Its upload cursor is what the server has acknowledged.
    public var progress = DownloadProgress(
        cursor: DownloadCursor(), latest: SaltedVersion(), upload: UploadCursor(), downloadableBytes: 0)
    /// The time of the last local write.
    public var lastWritten: ChangesetTime = 0
    /// The subscriptions; nil in partition-based sync.
    public var subscriptions: SubscriptionSets?
    /// True once everything was here that the server had; in flexible sync, the objects of the newest subscriptions.
    public var hasSynced = false
    /// True from a client reset that has made changes again until upload and download are complete (`Spec/History.md`,
    /// section 12.6).
    public var isRecovering = false

    /// The record of a new replica.
    public init() {}
}

/// An entry of a replica's log, without its bytes.
public struct LocalVersion: Equatable, Sendable {
    /// The version of the replica that it produced.
    public var number: ClientVersion
    /// The last server version that was integrated before.
    public var base: ServerVersion
    /// The time when it was made.
    public var timestamp: ChangesetTime
    /// The size of the changeset in bytes; 0 if an integration or an empty transaction made the version.
    public var bytes: Int

    /// An entry with these properties.
    public init(number: ClientVersion, base: ServerVersion, timestamp: ChangesetTime, bytes: Int) {
        self.number = number
        self.base = base
        self.timestamp = timestamp
        self.bytes = bytes
    }
}

/// The changes that a store makes durable in one transaction. They are carried out in the order of the members.
public struct ReplicaCommit: Sendable {
    /// True if the state is emptied first.
    public var erasesState = false
    /// The rows of the state that change.
    public var state = RowWrites()
    /// The version up to which the log is trimmed.
    public var trimmedVersion: ClientVersion = 0
    /// Entries of the log without changes that are removed, because a newer one says the same.
    public var removed: [ClientVersion] = []
    /// New entries, with their changesets; an entry that exists is replaced.
    public var written: [(version: LocalVersion, changeset: [UInt8])] = []
    /// The digests of the elements of lists that new entries have changed or erased.
    public var changedElements: [(version: ClientVersion, digests: [UInt64])] = []
    /// The forms that merges have given to entries of the log.
    public var reciprocals: [(version: ClientVersion, changeset: [UInt8])] = []
    /// The change to the stored parts of a bootstrap.
    public var bootstrap = BootstrapParts.stay
    /// The numbers and cursors.
    public var record: ReplicaRecord
    /// The number of entries that the log has after the commit.
    package var logCount = 0

    /// A change to the stored parts of a bootstrap.
    public enum BootstrapParts: Sendable {
        /// They stay.
        case stay
        /// They are dropped.
        case go
        /// They are dropped, and these parts of another bootstrap are stored.
        case begin([DownloadedChangeset])
        /// These parts are added.
        case come([DownloadedChangeset])
    }

    /// A commit that changes only the numbers.
    public init(_ record: ReplicaRecord) { self.record = record }
}

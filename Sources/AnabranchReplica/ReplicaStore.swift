public import AnabranchCore

/// Where a replica is kept: its state, the log of what the server has not confirmed, and its place in the server's log
/// (`Spec/Replica.md`, section 2). One replica at a time works on a store.
///
/// All functions are synchronous, and `commit` is atomic. A replica changes nothing in memory before `commit` has
/// returned, so a store that throws has to be as it was before.
public protocol ReplicaStore {
    /// What was committed last; a new replica if nothing was.
    func load() throws -> StoredReplica

    /// A changeset of the log as it was made, which is the form that is uploaded.
    func changeset(of version: ClientVersion) throws -> [UInt8]

    /// The same as the server has to see it, behind the entries that were merged with it; nil if no merge has changed
    /// it.
    func reciprocal(of version: ClientVersion) throws -> [UInt8]?

    /// The digests of the elements of lists that a changeset of the log has changed or erased, by which they are found
    /// again after a client reset; none if they were not stored. The default is that they are not.
    func changedElements(of version: ClientVersion) throws -> [UInt64]

    /// The parts of the bootstrap that have come, in order.
    func bootstrapParts() throws -> [DownloadedChangeset]

    /// Makes a commit durable, or throws and has done nothing.
    mutating func commit(_ commit: ReplicaCommit) throws

    /// Calls `body`, which reads the state many times and commits nothing. The default is to do no more.
    func readTogether<Value>(_ body: () throws -> Value) throws -> Value

    /// The properties of which the store has to know what an object held before a commit that changes it, by their
    /// slots. The default is that it need not.
    func notedSlots(of object: ObjectReference) -> Set<Int>
}

extension ReplicaStore {
    /// Calls `body`, and prepares nothing.
    public func readTogether<Value>(_ body: () throws -> Value) throws -> Value { try body() }

    /// They are not stored.
    public func changedElements(of version: ClientVersion) -> [UInt64] { [] }

    /// It need not.
    public func notedSlots(of object: ObjectReference) -> Set<Int> { [] }
}

/// What a store knows of a replica when it is opened. The bytes of the log stay where they are.
public struct StoredReplica: Sendable {
    /// Numbers and cursors.
    public var record: ReplicaRecord
    /// The log, ascending.
    public var log: [LocalVersion]
    /// The state, whose objects are read when they are needed.
    public var state: ObjectGraph

    /// Puts the parts together; the default is a new replica.
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
    /// What the server calls the file; nil before the first connection.
    public var file: SaltedFileID?
    /// The newest version of the replica's own log. A new file is at version 1.
    public var version: ClientVersion = 1
    /// What the last DOWNLOAD said that was integrated. Its upload cursor is what the server has acknowledged.
    public var progress = DownloadProgress(
        cursor: DownloadCursor(), latest: SaltedVersion(), upload: UploadCursor(), downloadableBytes: 0)
    /// The time of what was written here last.
    public var lastWritten: ChangesetTime = 0
    /// The subscriptions; nil in partition-based sync.
    public var subscriptions: SubscriptionSets?
    /// Everything was once here that the server had; in flexible sync the objects of the newest subscriptions.
    public var hasSynced = false
    /// A client reset was made, and upload and download have not been complete since (`Spec/History.md`, section
    /// 12.6).
    public var isRecovering = false

    /// Of a new replica.
    public init() {}
}

/// An entry of a replica's log, without its bytes.
public struct LocalVersion: Equatable, Sendable {
    /// Which version of the replica it produced.
    public var number: ClientVersion
    /// The last server version that was integrated before.
    public var base: ServerVersion
    /// When it was made.
    public var timestamp: ChangesetTime
    /// The size of the changeset in bytes; 0 if an integration or an empty transaction made the version.
    public var bytes: Int

    /// Puts the parts together.
    public init(number: ClientVersion, base: ServerVersion, timestamp: ChangesetTime, bytes: Int) {
        self.number = number
        self.base = base
        self.timestamp = timestamp
        self.bytes = bytes
    }
}

/// What a store makes durable in one transaction. It is carried out in the order of the members.
public struct ReplicaCommit: Sendable {
    /// The state is emptied first.
    public var erasesState = false
    /// The rows of the state that change.
    public var state = RowWrites()
    /// The entries of the log up to this one go.
    public var trimmedVersion: ClientVersion = 0
    /// Entries of the log without changes that go, because a newer one says the same.
    public var removed: [ClientVersion] = []
    /// New entries, with their changesets; one that is there is replaced.
    public var written: [(version: LocalVersion, changeset: [UInt8])] = []
    /// The digests of the elements of lists that new entries have changed or erased.
    public var changedElements: [(version: ClientVersion, digests: [UInt64])] = []
    /// What merges have made of entries of the log.
    public var reciprocals: [(version: ClientVersion, changeset: [UInt8])] = []
    /// What happens to the parts of a bootstrap.
    public var bootstrap = BootstrapParts.stay
    /// The numbers.
    public var record: ReplicaRecord
    /// How many entries the log has behind the commit.
    package var logCount = 0

    /// What happens to the parts of a bootstrap.
    public enum BootstrapParts: Sendable {
        /// Nothing.
        case stay
        /// They are dropped.
        case go
        /// They are dropped, and those of another one come.
        case begin([DownloadedChangeset])
        /// More have come.
        case come([DownloadedChangeset])
    }

    /// A commit that changes the numbers alone.
    public init(_ record: ReplicaRecord) { self.record = record }
}

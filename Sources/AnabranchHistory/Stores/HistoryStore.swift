public import AnabranchCore

/// A store's own name for a synced file: a shard, and a number that is unique in it.
public struct SyncedFileID: Hashable, Sendable {
    /// The part of the store that the file is in: only commits within one are made in one transaction.
    public var shard: Int
    /// A number whose meaning only the store knows.
    public var number: Int64

    /// Creates an id from numbers of the store; some stores have one shard only.
    public init(_ number: Int64, shard: Int = 0) {
        self.shard = shard
        self.number = number
    }
}

/// A fencing number: each opening of a file gets a higher one, and from then on commits under lower ones are refused.
/// So at most one party writes a file; except in a shared store (`HistoryStore.isShared`), which gives all openings of
/// a file the same lease, and another one after it was restored.
public struct Lease: Hashable, Comparable, Sendable {
    /// Higher than that of every earlier lease of the file.
    public var number: UInt64

    /// Creates a lease from a number of the store.
    public init(_ number: UInt64) { self.number = number }

    /// True if the left lease has been replaced by the right one.
    public static func < (left: Lease, right: Lease) -> Bool { left.number < right.number }
}

/// The end of a synced file's log, and its beginning (`Spec/History.md`, section 2.1).
public struct FileHead: Equatable, Sendable {
    /// The current version E: `baseVersion` plus the number of entries.
    public var version: ServerVersion
    /// The salt of version E; 0 for version 0.
    public var versionSalt: Salt
    /// The cumulative size at version E, in bytes.
    public var cumulativeSize: UInt64
    /// The version B before the first entry; raised only by trimming.
    public var baseVersion: ServerVersion
    /// The salt of version B; 0 exactly while B is 0.
    public var baseSalt: Salt
    /// The cumulative size at version B, in bytes.
    public var baseCumulativeSize: UInt64
    /// The next client file ident: the number of rows, reserved ones included.
    public var nextIdent: ClientFileID
    /// The version whose state is stored: `version`, unless the file was written without keeping its state.
    public var stateVersion: ServerVersion
    /// In a shared store, a number from 1 on that each trim, sealing and change of a generation raises. Otherwise 0.
    public var bounds: UInt64

    /// The size of the changesets in the log, in bytes.
    public var logBytes: UInt64 { cumulativeSize - min(baseCumulativeSize, cumulativeSize) }

    /// The number of client files that have been allocated, including expired ones.
    public var clientFileCount: UInt64 { nextIdent.rawValue - UInt64(ClientFile.reserved.count) }

    /// Creates a head; by default that of an empty file.
    public init(
        version: ServerVersion = 0, versionSalt: Salt = 0, cumulativeSize: UInt64 = 0, baseVersion: ServerVersion = 0,
        baseSalt: Salt = 0, baseCumulativeSize: UInt64 = 0, nextIdent: ClientFileID = 2,
        stateVersion: ServerVersion = 0, bounds: UInt64 = 0
    ) {
        self.version = version
        self.versionSalt = versionSalt
        self.cumulativeSize = cumulativeSize
        self.baseVersion = baseVersion
        self.baseSalt = baseSalt
        self.baseCumulativeSize = baseCumulativeSize
        self.nextIdent = nextIdent
        self.stateVersion = stateVersion
        self.bounds = bounds
    }

    /// True if the logs are the same, and all that belongs to the log: not only where they end.
    package func isSame(as other: FileHead) -> Bool {
        version == other.version && versionSalt == other.versionSalt && bounds == other.bounds
    }
}

/// A place where synced files are kept. Calls are synchronous and block until they are done; they may come from several
/// threads at once, but those about one file come from one thread at a time, or from one of each node if it is shared.
///
/// Promises of every store, checked by one conformance suite:
/// 1. A commit takes effect entirely or not at all, even across a crash, and so do all commits of one call that are of
///    files in one shard.
/// 2. When `commit` returns, what it wrote survives the end of the process (and, for a store on disk, of the machine).
/// 3. When `commit` throws, nothing was changed, unless the error came so late that the store cannot know; the caller
///    then reads the head again before it goes on. Repeating the integration is harmless (`SyncedFile.integrate`).
/// 4. A read sees one state between two commits, the newest one.
/// 5. Only a commit with the newest lease and the current versions of log and state is accepted; otherwise `leaseLost`.
///    A shared store accepts each commit with the lease if what it depends on (`Commit.dependencies`) is as its author
///    has read it, and so is every client file that it writes; otherwise it throws `conflict`, with the file whose
///    commit does not fit (`Spec/Nodes.md`).
/// 6. The state is stored with the log entries that made it so: after every commit it is that of
///    `FileHead.stateVersion`.
/// 7. The newest `IdempotencyKey.countMax` keys of a file's writes are found again.
/// 8. Errors are `HistoryError`s about the store itself (`storeFailed`, `leaseLost`, `storeDamaged`), never a refusal
///    of a client.
/// 9. Logs, client files and reciprocal changesets are read exactly as they were written; otherwise `storeDamaged`.
/// 10. A trim of entries that an unexpired client file may still need (`ClientFile.pin`) is refused with `storeFailed`.
/// 11. A generation is visible as a whole or not at all, and stays while an unexpired client file has it as lineage.
/// 12. A store whose views have a `sealedEnd` answers after a commit that seals entries as before.
/// 13. Entries that move from a log to the archive are in it after the same commit, unchanged, until the file is
///     deleted.
/// 14. The records of a commit are stored exactly if its entries are. `maintain` erases expired ones.
public protocol HistoryStore: Sendable {
    /// Opens a synced file. A new one has an empty log and the reserved client files, and its first commit creates it.
    /// The lease of an earlier opening ends.
    func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile

    /// Ends a lease, unless it has ended already. Uncommitted changes are lost; a file without a commit is gone.
    func close(_ file: SyncedFileID, _ lease: Lease)

    /// True if there is a synced file at the path, or it is open. Opens and creates nothing.
    func contains(_ path: VirtualPath) throws(HistoryError) -> Bool

    /// Runs `body` over the newest state of a file. The view must not be kept.
    func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result

    /// The state of the file's newest commit. It may read objects lazily, also from within `read`; so it is valid until
    /// the next commit, and after that only as that commit's `StateUpdate.after`.
    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph

    /// A snapshot of the state of the file's newest commit, which later commits do not change; nil if the store has no
    /// snapshots. While it exists, the store keeps what is overwritten.
    func frozenState(of file: SyncedFileID) throws(HistoryError) -> FrozenState?

    /// Applies commits of different files of one shard in one transaction.
    func commit(_ commits: [Commit]) throws(HistoryError)

    /// Frees data that need not be kept any longer: old `ReceivedChangeset`s, and what `freeDeleted` frees. Called once
    /// a day, from any thread; it can take long.
    /// - Parameters:
    ///   - time: seconds since 1970.
    ///   - shouldContinue: called repeatedly; false stops the work. The rest is freed another time.
    /// - Throws: `storeFailed`, `storeDamaged`: the first failure, after all that could be freed was.
    func maintain(at time: UInt64, while shouldContinue: () -> Bool) throws(HistoryError)

    /// Frees the space of deleted files (`Commit.deletesFile`). Called from any thread; it can take long.
    /// - Parameter shouldContinue: called repeatedly; false stops the work. The rest is freed another time.
    /// - Returns: whether all is freed.
    func freeDeleted(while shouldContinue: () -> Bool) throws(HistoryError) -> Bool

    /// The time that was recorded last, in seconds since 1970; nil if none was. It outlives the process if the store
    /// does.
    func recordedTime() throws(HistoryError) -> UInt64?

    /// Remembers a time, in seconds since 1970.
    func recordTime(_ time: UInt64) throws(HistoryError)

    /// The number of parts of the store that can be written at the same time: the shards of its files are numbered from
    /// 0.
    var shardCount: Int { get }

    /// True if several nodes, each with an opening of its own, write the same files: opening a file does not end other
    /// leases.
    var isShared: Bool { get }

    /// Calls `wake` whenever other nodes may have written a file, from any thread, until the store is closed. A call is
    /// a hint, which may be lost or come for nothing.
    /// - Parameter wake: called with the path of a file that is open; nil stands for all of them.
    func listen(_ wake: @escaping @Sendable (VirtualPath?) -> Void)

    /// The open files that other nodes may have changed. Asked once a second about all that are open.
    /// - Parameter heads: the files, and their heads as they are known.
    func changed(since heads: [SyncedFileID: FileHead]) throws(HistoryError) -> [SyncedFileID]

    /// True if reading costs next to nothing, so that nothing that was read or written need be kept a second time.
    var isInMemory: Bool { get }

    /// The folder that the store is in, for messages; nil if it is in none.
    var location: String? { get }

    /// The room that is left where the store is, in bytes; nil if it does not know.
    var freeBytes: Int? { get }

    /// The size of the store's data in use, in bytes; it shrinks when something is deleted. Nil if it does not know.
    var usedBytes: Int? { get }

    /// The record of uploads that may have crashed a process; nil if the store keeps none.
    var suspects: (any UploadSuspects)? { get }
}

/// One state of a synced file, to be read within `HistoryStore.read`.
public protocol FileView {
    /// The end and the beginning of the log.
    func head() throws(HistoryError) -> FileHead

    /// The row of a client file, reserved rows included; nil if there is none.
    func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile?

    /// The rows of client files with idents above `ident`, in their order, reserved ones included; `countMax` at most.
    func clientFiles(after ident: ClientFileID, countMax: Int) throws(HistoryError) -> [ClientFile]

    /// A client file whose pin is below `version` (`ClientFile.pin`); nil if there is none.
    func clientFile(pinnedBelow version: ServerVersion) throws(HistoryError) -> ClientFileID?

    /// The bootstrap generations, the newest one last.
    func generations() throws(HistoryError) -> [Generation]

    /// Calls `body` with the entries of one of them, which must not be kept.
    /// - Throws: `storeDamaged` if there is no such generation; what `body` throws.
    func readGeneration<Result: Sendable>(
        _ version: ServerVersion, _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result

    /// A client file that has not expired and has a generation as lineage; nil if there is none.
    func clientFile(ofGeneration version: ServerVersion) throws(HistoryError) -> ClientFileID?

    /// The version of an unfinished or removed generation that still has entries; nil if there is none.
    func leftoverGeneration() throws(HistoryError) -> ServerVersion?

    /// The entry that produced `version`; nil outside the log.
    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry?

    /// The same entry with an empty changeset, which a store need not read for it; nil outside the log.
    func entryWithoutChangeset(_ version: ServerVersion) throws(HistoryError) -> LogEntry?

    /// The salt of `version`, as it is stored; nil outside the log. Unlike `entry`, it may be damaged without an error:
    /// if it is not the one that is expected, ask for the entry.
    func salt(of version: ServerVersion) throws(HistoryError) -> Salt?

    /// The changeset of the entry `version` as it was received; nil if merging has not changed it, or the store has
    /// forgotten it.
    func received(_ version: ServerVersion) throws(HistoryError) -> ReceivedChangeset?

    /// The entries of `range` that are not empty, in order, up to and including the one with which their sizes
    /// (`LogEntry.byteCount`) together exceed `byteBudget`. Skipping the others costs next to nothing.
    /// - Parameter excludingOrigin: leaves out entries received from this client file; nil leaves out none.
    func entries(
        in range: VersionRange, excludingOrigin: ClientFileID?, byteBudget: Int
    ) throws(HistoryError) -> [LogEntry]

    /// The versions in `range`, ascending, of the entries that were not received from `excludingOrigin` and are not
    /// empty. Their changesets are not read.
    func versions(in range: VersionRange, excludingOrigin: ClientFileID) throws(HistoryError) -> [ServerVersion]

    /// The receipts of changesets from `ident` in `range`, in order.
    func receipts(from ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [Receipt]

    /// The newest of `receipts` in `range` of each client file that has any.
    func newestReceipts(in range: VersionRange) throws(HistoryError) -> [ClientFileID: Receipt]

    /// The version at which a trim to `version` really ends: the newest possible one up to that, or else the oldest one
    /// up to `last`; nil if there is none. A segment is removed as a whole or not at all.
    func trimEnd(near version: ServerVersion, upTo last: ServerVersion) throws(HistoryError) -> ServerVersion?

    /// The newest entry at or below `version` that was received from `ident` (invariant I-21); nil if there is none.
    func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) throws(HistoryError) -> Receipt?

    /// The versions in `range`, ascending and each once, of entries not received from `excludingOrigin` that write one
    /// of the conflict keys. The cost depends on the entries found and the skipped ones of that origin, not on the
    /// length of the range.
    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion]

    /// The version of the server's own write with this key; nil if there is none, or it was forgotten.
    func version(ofWrite key: [UInt8]) throws(HistoryError) -> ServerVersion?

    /// The reciprocal changesets of a client file in `range`, in order.
    func reciprocals(of ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [ReciprocalChangeset]

    /// The classes and columns that a client file has and the log does not, since its user might only read when it
    /// uploaded them (`Commit.withheldSchemas`): one changeset, encoded; no bytes if there are none.
    func withheldSchema(of ident: ClientFileID) throws(HistoryError) -> [UInt8]

    /// A record of a door; nil if there is none.
    func record(at place: RecordPlace) throws(HistoryError) -> DoorRecord?

    /// The records of a range in the order of the bytes of their keys, or in the opposite one; `countMax` at most.
    func records(in range: RecordRange, countMax: Int, isReversed: Bool) throws(HistoryError) -> [DoorRecord]

    /// The place up to which the log is in segments, the beginning of the log if none of it is; nil if the store makes
    /// none.
    func sealedEnd() throws(HistoryError) -> LogPlace?

    /// The newest entries of the archive up to a version, in order: as many as one segment has, including empty ones;
    /// empty if there are none.
    func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry]

    /// The size of the archive, in bytes.
    func archivedBytes() throws(HistoryError) -> UInt64
}

/// For stores that make no segments, and so have no archive.
extension FileView {
    /// Nil: there are no segments.
    public func sealedEnd() throws(HistoryError) -> LogPlace? { nil }

    /// Empty: there is no archive.
    public func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry] { [] }

    /// Zero: there is no archive.
    public func archivedBytes() throws(HistoryError) -> UInt64 { 0 }
}

/// For stores that keep no schemas of readers: a client that may write later is refused if the log lacks its schema,
/// and starts over.
extension FileView {
    /// Empty: nothing is kept.
    public func withheldSchema(of ident: ClientFileID) throws(HistoryError) -> [UInt8] { [] }
}

extension FileView {
    /// Reads the whole entry.
    public func entryWithoutChangeset(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        try entry(version)?.withoutChangeset
    }

    /// Lets a trim end with every entry that has a row.
    public func trimEnd(near version: ServerVersion, upTo last: ServerVersion) throws(HistoryError) -> ServerVersion? {
        version
    }

}

/// For stores without generations.
extension FileView {
    /// Empty, for stores without generations.
    public func generations() throws(HistoryError) -> [Generation] { [] }

    /// Throws, for stores without generations.
    public func readGeneration<Result: Sendable>(
        _ version: ServerVersion, _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        throw HistoryError.noGeneration(version)
    }

    /// Nil, for stores without generations.
    public func clientFile(ofGeneration version: ServerVersion) throws(HistoryError) -> ClientFileID? { nil }

    /// Nil: nothing is left.
    public func leftoverGeneration() throws(HistoryError) -> ServerVersion? { nil }
}

extension HistoryError {
    package static func noGeneration(_ version: ServerVersion) -> HistoryError {
        HistoryError(.storeDamaged, "there is no generation of version \(version)")
    }
}

extension HistoryStore {
    /// Nil, for stores that cannot do it: their files get no bootstrap generations.
    public func frozenState(of file: SyncedFileID) throws(HistoryError) -> FrozenState? { nil }

    /// False: a file has one writer, and opening it takes it from the last one.
    public var isShared: Bool { false }

    /// Does nothing, for stores without other nodes, or without wakes.
    public func listen(_ wake: @escaping @Sendable (VirtualPath?) -> Void) {}

    /// All of them.
    public func changed(since heads: [SyncedFileID: FileHead]) throws(HistoryError) -> [SyncedFileID] {
        Array(heads.keys)
    }

    /// False: reading costs something.
    public var isInMemory: Bool { false }

    /// 1: by default a store commits one transaction at a time.
    public var shardCount: Int { 1 }

    /// Nil: not in a folder.
    public var location: String? { nil }

    /// Nil: not known.
    public var freeBytes: Int? { nil }

    /// Nil: not known.
    public var usedBytes: Int? { nil }

    /// Nil: none was noted.
    public func recordedTime() throws(HistoryError) -> UInt64? { nil }

    /// Does nothing: the time is forgotten.
    public func recordTime(_ time: UInt64) throws(HistoryError) {}

    /// Nil: nothing is remembered.
    public var suspects: (any UploadSuspects)? { nil }

    /// Does nothing, for stores that keep nothing for open files.
    public func close(_ file: SyncedFileID, _ lease: Lease) {}

    /// Does nothing, for stores without maintenance.
    public func maintain(at time: UInt64, while shouldContinue: () -> Bool) throws(HistoryError) {}

    /// True, for stores that free it at once.
    public func freeDeleted(while shouldContinue: () -> Bool) throws(HistoryError) -> Bool { true }

    /// Frees everything that need not be kept any longer.
    public func maintain(at time: UInt64) throws(HistoryError) { try maintain(at: time) { true } }
}

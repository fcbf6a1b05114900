public import AnabranchCore

/// The contents of a store, for its operator. Reading it ends no lease and makes no file. Lists come in pieces: each
/// call gives at most `countMax` elements, those that follow the last one known.
public protocol HistoryCatalog: Sendable {
    /// The synced files whose paths come after `path`, in the order of their bytes; from the first one on if it is nil.
    func files(after path: VirtualPath?, countMax: Int) throws(HistoryError) -> [CatalogFile]

    /// Calls `body` with the path of each synced file, in the order of their bytes. It takes the same memory for any
    /// number of them.
    func forEachPath(_ body: (VirtualPath) -> Void) throws(HistoryError)

    /// The synced files whose paths come after `path` in which a user has client files. All client files of the store
    /// are looked at for that, until there are `countMax`.
    func files(of user: String, after path: VirtualPath?, countMax: Int) throws(HistoryError) -> [UserFile]

    /// One synced file; nil if the store has none at the path.
    func file(_ path: VirtualPath) throws(HistoryError) -> CatalogFile?

    /// The store's number for a synced file, with which `HistoryStore.read` reads it though nobody has opened it; nil
    /// if the store has none at the path.
    func id(of path: VirtualPath) throws(HistoryError) -> SyncedFileID?

    /// The client files of a synced file with idents above `ident`, without the reserved ones; none if there is no such
    /// synced file.
    func clientFiles(
        of path: VirtualPath, after ident: ClientFileID, countMax: Int
    ) throws(HistoryError) -> [ClientFile]

    /// The log entries of a synced file with versions above `version`; none if there is no such synced file.
    func entries(
        of path: VirtualPath, after version: ServerVersion, countMax: Int
    ) throws(HistoryError) -> [CatalogEntry]

    /// The size of the state of a synced file as it is stored, in bytes; 0 if there is no such synced file.
    func stateBytes(of path: VirtualPath) throws(HistoryError) -> UInt64

    /// The sizes of the records of doors, by door and kind in ascending order. All records of the file, or store, are
    /// looked at.
    /// - Parameter path: one synced file; nil for all.
    func recordTotals(of path: VirtualPath?) throws(HistoryError) -> [RecordTotal]

    /// Commits as a change of a file does, without changing anything that is stored of one: in every part of the store,
    /// and as durably.
    /// - Throws: the error that a change would meet.
    func checkCommit() throws(HistoryError)

    /// The size of the store's write-ahead log, in bytes; 0 if it has none.
    var writeAheadLogBytes: Int { get }
}

extension HistoryCatalog {
    /// Takes the paths from what `files` lists.
    public func forEachPath(_ body: (VirtualPath) -> Void) throws(HistoryError) {
        var last: VirtualPath?
        repeat {
            let files = try files(after: last, countMax: Self.pageCount)
            for file in files { body(file.path) }
            last = files.count == Self.pageCount ? files.last?.path : nil
        } while last != nil
    }

    private static var pageCount: Int { 1_000 }
}

extension HistoryStore where Self: HistoryCatalog {
    /// True if the catalog has a synced file at the path.
    public func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try file(path) != nil }
}

/// A synced file in a catalog.
public struct CatalogFile: Equatable, Sendable {
    /// The name of the file.
    public var path: VirtualPath
    /// The end and the beginning of its log.
    public var head: FileHead
    /// The size of the file's archive, in bytes.
    public var archivedBytes: UInt64

    /// Creates the description of a synced file.
    public init(path: VirtualPath, head: FileHead, archivedBytes: UInt64 = 0) {
        self.path = path
        self.head = head
        self.archivedBytes = archivedBytes
    }
}

/// A synced file in which a user has client files.
public struct UserFile: Equatable, Sendable {
    /// The name of the file.
    public var path: VirtualPath
    /// The number of client files that the user has there, including expired ones.
    public var ownCount: Int
    /// The number of other client files: those of other users, and those whose users the server did not know.
    public var otherCount: Int

    /// Creates the description of a user's part in a synced file.
    public init(path: VirtualPath, ownCount: Int, otherCount: Int) {
        self.path = path
        self.ownCount = ownCount
        self.otherCount = otherCount
    }
}

/// A log entry in a catalog: everything but the changeset.
public struct CatalogEntry: Equatable, Sendable {
    /// The version that the entry produced.
    public var version: ServerVersion
    /// The client file that the entry came from; 0 if the server made it.
    public var origin: ClientFileID
    /// The version that the changeset produced on the client; 0 if the server made it.
    public var clientVersion: ClientVersion
    /// When the change was made, by its author's clock.
    public var timestamp: ChangesetTime
    /// The size of the changeset in bytes.
    public var changesetBytes: Int

    /// Creates the description of a log entry.
    public init(
        version: ServerVersion, origin: ClientFileID, clientVersion: ClientVersion, timestamp: ChangesetTime,
        changesetBytes: Int
    ) {
        self.version = version
        self.origin = origin
        self.clientVersion = clientVersion
        self.timestamp = timestamp
        self.changesetBytes = changesetBytes
    }
}

import AnabranchCore

/// What a store holds, for whoever looks after it. Reading it takes no lease away and makes no file. Lists come in
/// pieces: each call gives at most `countMax` elements, those that follow the last one known.
public protocol HistoryCatalog: Sendable {
    /// The synced files whose paths come after `path`, in the order of their bytes; from the first one on if it is nil.
    func files(after path: VirtualPath?, countMax: Int) throws(HistoryError) -> [CatalogFile]

    /// One synced file; nil if the store has none at the path.
    func file(_ path: VirtualPath) throws(HistoryError) -> CatalogFile?

    /// The client files of a synced file with idents above `ident`, without the reserved ones; none if there is no such
    /// synced file.
    func clientFiles(of path: VirtualPath, after ident: ClientFileID, countMax: Int) throws(HistoryError)
        -> [ClientFile]

    /// The log entries of a synced file with versions above `version`; none if there is no such synced file.
    func entries(of path: VirtualPath, after version: ServerVersion, countMax: Int) throws(HistoryError)
        -> [CatalogEntry]
}

/// A synced file in a catalog.
public struct CatalogFile: Equatable, Sendable {
    public var path: VirtualPath
    public var head: FileHead

    public init(path: VirtualPath, head: FileHead) {
        self.path = path
        self.head = head
    }
}

/// A log entry in a catalog: everything but the changeset.
public struct CatalogEntry: Equatable, Sendable {
    public var version: ServerVersion
    /// The client file that the entry came from; 0 if the server made it.
    public var origin: ClientFileID
    public var clientVersion: ClientVersion
    /// When the change was made, as its client says: milliseconds since 2015-01-01.
    public var timestamp: ChangesetTime
    /// The size of the changeset in bytes.
    public var changesetBytes: Int

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

import AnabranchCore

/// The server's side of one synced file: who takes part, the log, and the uploads that wait to enter it.
///
/// Not Sendable: it belongs to one thread, which may block. Nothing that a method returns speaks of anything that is not
/// durable yet.
public final class SyncedFile {
    public let path: VirtualPath
    let store: any HistoryStore
    let id: FileID
    let lease: Lease
    /// The end of the log as of the last commit: the exposed version.
    public internal(set) var head: FileHead
    /// The salt of the versions that this object makes.
    let versionSalt: UInt64
    var randomness: any RandomNumberGenerator
    var queue = UploadQueue()
    /// How uploads are merged; every pair is for comparison.
    package var mergeStrategy = MergeStrategy.indexed
    /// For the next integration.
    var decoded = DecodedEntries()
    /// How much may wait for integration, in bytes (contents and overhead).
    let backlogBytesMax: Int

    /// Opens the file and takes over its lease.
    /// - Parameters:
    ///   - randomness: source of the salts; must be hard to guess except in tests.
    ///   - backlogBytesMax: the limit of section 5, row 12.
    public init(
        path: VirtualPath, store: any HistoryStore, backlogBytesMax: Int = 256 << 20,
        randomness: any RandomNumberGenerator = SystemRandomNumberGenerator()
    ) throws(HistoryError) {
        let opened = try store.open(path)
        self.path = path
        self.store = store
        self.backlogBytesMax = backlogBytesMax
        self.randomness = randomness
        id = opened.id
        lease = opened.lease
        head = opened.head
        versionSalt = SyncedFile.salt(from: &self.randomness)
    }

    /// The exposed version E (`Spec/History.md`, section 3.3).
    public var version: UInt64 { head.version }

    static func salt(from randomness: inout any RandomNumberGenerator) -> UInt64 {
        UInt64.random(in: 1...UInt64(Int64.max), using: &randomness)
    }

    func read<Result: Sendable>(
        _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try store.read(id, body)
    }

    /// Commits changes of client files alone.
    func commit(_ clientFiles: [ClientFile], at head: FileHead) throws(HistoryError) {
        var commit = Commit(file: id, lease: lease, head: head)
        commit.clientFiles = clientFiles
        try store.commit([commit])
        self.head = commit.newHead
    }
}

/// A synced file as `HistoryStore.open` hands it out.
public struct OpenedFile: Equatable, Sendable {
    /// Names the file in further calls.
    public var id: SyncedFileID
    /// Allows its holder to write the file, until somebody else opens it.
    public var lease: Lease
    /// Its newest head.
    public var head: FileHead

    /// Creates the answer to an opening.
    public init(id: SyncedFileID, lease: Lease, head: FileHead) {
        self.id = id
        self.lease = lease
        self.head = head
    }
}

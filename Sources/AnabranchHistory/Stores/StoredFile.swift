package import AnabranchCore

/// A store that is only read, as it was at one moment. Servers may go on writing to it.
package protocol StoreSnapshot: AnyObject {
    /// The synced file at a path; nil if there is none.
    func file(_ path: VirtualPath) throws(HistoryError) -> StoredFile?

    /// Calls `body` with the synced files in the order of their paths. If a file's record is damaged, its head is the
    /// part that can be read, or that of an empty file.
    /// - Throws: the errors of `body`; `storeFailed` or `storeDamaged`.
    func forEachFile(_ body: (StoredFile) throws -> Void) throws

    /// The files of partitions whose value is spelled in another way. Only the names of files are read.
    func partitionNames() throws(HistoryError) -> PartitionNames

    /// Runs `body` over a file.
    func read<Result>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result

    /// The stored state of a file.
    func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph

    /// The oldest and the newest version in the archive of a file, which may lack some between them; nil if it is
    /// empty.
    func archivedVersions(of file: SyncedFileID) throws(HistoryError) -> ClosedRange<ServerVersion>?
}

/// A snapshot that can be checked as a whole.
package protocol CheckedSnapshot: StoreSnapshot {
    /// The damage in the store itself, besides that in its files.
    func checkStore() throws(HistoryError) -> [StoreDamage]

    /// Reads all that is kept of a file, and checks it.
    func check(_ file: StoredFile) throws(HistoryError) -> VerifiedFile
}

/// A synced file of a store that is only read.
package struct StoredFile {
    /// The name of the file.
    package let path: VirtualPath
    /// The end and the beginning of its log.
    package let head: FileHead
    /// The store's number for it.
    package let id: SyncedFileID
    private let snapshot: any StoreSnapshot

    /// Creates a file of a snapshot, which it keeps.
    package init(path: VirtualPath, head: FileHead, id: SyncedFileID, in snapshot: any StoreSnapshot) {
        (self.path, self.head, self.id, self.snapshot) = (path, head, id, snapshot)
    }

    /// The entry that produced `version`; nil if neither the log nor the archive has it.
    package func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        try withView { view throws(HistoryError) in
            if let entry = try view.entry(version) { return entry }
            return try view.archivedEntries(upTo: version).last { $0.version == version }
        }
    }

    /// The oldest and the newest version in the archive, which may lack some between them; nil if it is empty.
    package func archivedVersions() throws(HistoryError) -> ClosedRange<ServerVersion>? {
        try snapshot.archivedVersions(of: id)
    }

    /// Calls `body` with the newest entries of the log, the newest first, and then with those of the archive. Where the
    /// archive lacks some, the next one is older by more than one version.
    /// - Parameters:
    ///   - limit: the most entries; all unless it is given.
    ///   - last: the newest entry; that of the log unless it is given.
    /// - Throws: the errors of `body`; `storeFailed` or `storeDamaged`.
    package func forEachEntry(
        newest limit: Int = .max, upTo last: ServerVersion = .largest, _ body: (LogEntry) throws -> Void
    ) throws {
        var version = min(last, head.version), left = limit
        while left > 0, version > head.baseVersion, let entry = try entry(version) {
            try body(entry)
            version = version - 1
            left -= 1
        }
        while left > 0, version > 0 {
            let archived = try withView { view throws(HistoryError) in try view.archivedEntries(upTo: version) }
            guard let oldest = archived.first else { return }
            for entry in archived.reversed().prefix(left) { try body(entry) }
            version = oldest.version - 1
            left -= archived.count
        }
    }

    /// The state at a version: read from its rows if they are of this version, and made from older entries otherwise
    /// (`FileView.state(at:)`).
    /// - Throws: `badServerVersion` if what that needs is not there.
    package func state(at version: ServerVersion) throws(HistoryError) -> ObjectGraph {
        if version == head.stateVersion { return try snapshot.state(of: id) }
        return try withView { view throws(HistoryError) in try view.state(at: version) }
    }

    /// Runs `body` over the file as it is stored.
    package func withView<Result>(
        _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try snapshot.read(id, body)
    }
}

package import AnabranchHistory
import Foundation

/// Both sides of `StoreCopy`.
extension SQLiteStore {
    /// Opens the store in a directory, to be copied.
    /// - Throws: `storeUnusable` if there is no store, it has another format, or a process uses it.
    package convenience init(copiedFrom path: String) throws(HistoryError) {
        try self.init(existingIn: path, for: .copySource)
    }

    /// Makes a store in a directory that has none, or an interrupted copy, which is removed. No server starts on it
    /// before `finishCopy`.
    /// - Throws: `storeUnusable` if there is a store or a backup, or a process uses the directory.
    package convenience init(copyIn path: String, options: Options) throws(HistoryError) {
        let directory = try DataDirectory(path)
        try directory.removeCopy()
        try self.init(directory, options, for: .copyTarget)
        // All of it is flushed at the end.
        for shard in shards { try shard.setFlushing(false) }
    }

    /// Makes everything durable and ends all access of this object. Other processes are still kept away.
    /// - Throws: `storeFailed`.
    package func closeCopy() throws(HistoryError) {
        for shard in shards {
            try shard.setFlushing(true)
            try shard.close()
        }
    }

    /// Lets servers start on a copy that is closed.
    package func finishCopy() throws(HistoryError) {
        try setStage(.ready)
        directory.release()
    }
}

extension DataDirectory {
    /// Removes an interrupted copy. The manifest goes last: as long as it is there, the other files are known.
    fileprivate func removeCopy() throws(HistoryError) {
        try BackupRecord.refuseCopy(in: url)
        let names = BackupRecord.copiedNames
        guard try manifest()?.stage == .copying else {
            guard let name = names.sorted().first(where: { size(of: $0) != nil }) else { return }
            throw HistoryError(
                .storeUnusable, "\(url.path) has a store (\(name)): the copy needs a directory without one")
        }
        for name in names.subtracting([StoreManifest.fileName]) { remove(name) }
        remove(StoreManifest.fileName)
    }
}

extension StoreVerification {
    /// Opens a copy that is closed, and not finished.
    package init(ofCopy store: SQLiteStore) throws(HistoryError) {
        self.init(try StoreReader(store.directory, isVerifying: true, isCopy: true))
    }
}

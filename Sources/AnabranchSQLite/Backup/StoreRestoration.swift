package import AnabranchCore
package import AnabranchHistory
import Foundation
import GRDB

/// The result of `StoreRestoration` for one synced file.
package struct RestoredFile: Equatable, Sendable {
    /// The name of the file.
    package var path: VirtualPath
    /// The newest version of its log: it has another salt now.
    package var version: ServerVersion
    /// Client files that have expired, because the log has no version yet.
    package var expiredCount: Int
}

/// Prepares a copy of a store to be served in place of the store, which went on after the copy was made
/// (`Spec/Durability.md`, section 6): clients that may have seen versions that the copy lacks must not mistake the copy
/// for the store.
///
/// A client from before the copy cannot be told from one of the lost time by their cursors alone. But the first
/// DOWNLOAD of every session names the newest version. So only clients that name at least the newest version of the
/// copy can have received anything later; and these are refused, because that version gets another salt.
package struct StoreRestoration {
    private let store: SQLiteStore

    /// Opens the store in a directory. Its shards may be of different times.
    /// - Throws: `storeUnusable` if there is no store, or a process uses it; `storeDamaged`, `storeFailed`.
    package init(directory path: String) throws(HistoryError) {
        store = try SQLiteStore(existingIn: path, for: .restoration)
    }

    /// True if a directory is a whole backup that `StoreBackup` has made.
    /// - Throws: `storeUnusable` if that cannot be determined, or if the backup was interrupted or is incremental.
    package static func isBackup(_ path: String) throws(HistoryError) -> Bool {
        let url = URL(fileURLWithPath: path, isDirectory: true)
        try BackupRecord.refuseIncomplete(in: url)
        return try BackupRecord.read(in: url) != nil
    }

    /// True if some files may be changed and others not, so that no server starts before a run is complete.
    package var isUnfinished: Bool { store.isPartlyRestored }

    /// Gives the newest version of every file a new salt; where there is no version, all client files expire. All of it
    /// is durable when the call returns; a second call does no further harm until a server has run.
    /// - Parameters:
    ///   - randomness: source of the salts; must be hard to guess except in tests.
    ///   - report: called with each file in the order of their paths.
    /// - Throws: `storeDamaged` with the file's name if the end of a log is not what was written; then nothing was
    ///   changed. `storeFailed` when the disk fails in the middle: no server starts on the store until a later call has
    ///   succeeded.
    package func run(
        randomness: any RandomNumberGenerator = SystemRandomNumberGenerator(), _ report: (RestoredFile) -> Void
    ) throws(HistoryError) {
        try forEachFile { id, pool in try pool.read { db in try SQLiteFile(id: id, db: db).checkEnd() } }
        try store.setStage(.restoring)
        // From here on the manifest keeps servers away, and the directory is no longer a backup.
        store.removeBackupRecord()
        for shard in store.shards { try shard.setFlushing(false) }
        var randomness = randomness
        try forEachFile { id, pool in
            let salt = Salt.random(using: &randomness)
            report(try pool.write { db in try SQLiteFile(id: id, db: db).restore(salt) })
        }
        for shard in store.shards { try shard.setFlushing(true) }
        try StoreShard.beginEpoch(of: store.shards)
        try store.setStage(.ready)
    }

    private func forEachFile(_ body: (SyncedFileID, DatabasePool) throws -> Void) throws(HistoryError) {
        var listing = try FileListing(store.shards.map(\.pool))
        while let file = try listing.next() {
            do throws(HistoryError) {
                try translatingErrors { try body(file.id, store.shards[file.id.shard].pool) }
            } catch {
                throw HistoryError(error.code, "\(file.path): \(error.reason)")
            }
        }
    }

    /// Ends all access and lets others use the directory.
    /// - Throws: `storeFailed`.
    package func close() throws(HistoryError) { try store.close() }
}

extension SQLiteFile {
    /// - Throws: `storeDamaged` if `restore` could not do its work.
    fileprivate func checkEnd() throws {
        let head = try head()
        if head.version > head.baseVersion { _ = try entry(head.version) }
        if head.version == 0 {
            for number in 0..<head.nextIdent.rawValue { _ = try clientFile(ClientFileID(rawValue: number)) }
        }
    }

    fileprivate func restore(_ salt: Salt) throws -> RestoredFile {
        let record = try record(), version = record.head.version
        let expired = version == 0 ? try expireAll(record) : []
        if version > 0 { try renewSalt(of: record, salt) }
        return RestoredFile(path: record.path, version: version, expiredCount: expired.count)
    }

    private func renewSalt(of record: FileRecord, _ salt: Salt) throws {
        var record = record
        record.head.versionSalt = salt
        if var entry = try entry(record.head.version) {
            entry.salt = salt
            guard let chain = try checksum(before: entry.version)?.following(entry) else {
                throw HistoryError(.storeDamaged, "log entry \(entry.version) is not what was written")
            }
            record.chain = chain
            try execute(
                "UPDATE log_entry SET salt = ?, checksum = ? WHERE file = ? AND version = ?",
                [stored(salt), Data(chain.bytes), id.number, stored(entry.version)])
        } else {
            // The log begins and ends here.
            record.head.baseSalt = salt
        }
        try store(record)
    }

    /// - Returns: the client files that had not expired before.
    private func expireAll(_ record: FileRecord) throws -> [ClientFile] {
        var expired: [ClientFile] = []
        for number in UInt64(ClientFile.reserved.count)..<record.head.nextIdent.rawValue {
            guard var clientFile = try clientFile(ClientFileID(rawValue: number)), !clientFile.isExpired else {
                continue
            }
            clientFile.isExpired = true
            expired.append(clientFile)
        }
        var commit = Commit(file: id, lease: record.lease, head: record.head)
        commit.clientFiles = expired
        try apply(commit, to: record, nil)
        return expired
    }
}

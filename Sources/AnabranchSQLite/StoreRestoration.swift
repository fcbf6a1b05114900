public import AnabranchCore
public import AnabranchHistory
import Foundation
import GRDB

/// What `StoreRestoration` did to one synced file.
public struct RestoredFile: Equatable, Sendable {
    /// The name of the file.
    public var path: VirtualPath
    /// The newest version of its log: it has another salt now.
    public var version: ServerVersion
    /// Client files that have expired, because the log has no version yet.
    public var expiredCount: Int
}

/// Prepares a copy of a store to be served in place of the store, which went on after the copy was made
/// (`Spec/Durability.md`, section 6): clients that may have been told what the copy lacks must not take the one for the
/// other.
///
/// Nobody can tell a client from before the copy from one of the lost time by their cursors alone. But the first
/// DOWNLOAD of every session names the newest version. So only clients that name at least the newest version of the
/// copy can have been told anything later; and these are refused, because that version gets another salt.
public struct StoreRestoration {
    private let store: SQLiteStore

    /// Opens the store in a directory, and brings it to the current format.
    /// - Throws: `storeUnusable` if there is no store, or a process uses it; `storeDamaged`, `storeFailed`.
    public init(directory path: String) throws(HistoryError) {
        store = try SQLiteStore(existingIn: path)
    }

    /// Gives the newest version of every file a new salt; where there is no version, all client files expire. All of it
    /// is durable when the call returns; a second call does no further harm until a server has run.
    /// - Parameters:
    ///   - randomness: source of the salts; must be hard to guess except in tests.
    ///   - report: gets each file in the order of their paths.
    /// - Throws: `storeDamaged` with the file's name if the end of a log is not what was written; `storeFailed`. Then
    ///   nothing was changed.
    public func run(
        randomness: any RandomNumberGenerator = SystemRandomNumberGenerator(), _ report: (RestoredFile) -> Void
    ) throws(HistoryError) {
        var randomness = randomness
        try translatingErrors {
            try store.pool.write { db in
                let sql = "SELECT id, path FROM synced_file ORDER BY path"
                let files = try Row.fetchAll(db, sql: sql).map { row in
                    (id: SyncedFileID(Int64(bitPattern: try row.number(0))), path: VirtualPath(try row.bytes(1)))
                }
                for file in files {
                    report(try restore(SQLiteFile(id: file.id, db: db), file.path, Salt.random(using: &randomness)))
                }
            }
        }
    }

    private func restore(_ file: SQLiteFile, _ path: VirtualPath, _ salt: Salt) throws -> RestoredFile {
        do {
            let head = try file.head()
            var expired: [ClientFile] = []
            if head.version == 0 { expired = try file.expireAll(head) } else { try file.renewSalt(head, salt) }
            return RestoredFile(path: path, version: head.version, expiredCount: expired.count)
        } catch let error as HistoryError {
            throw HistoryError(error.code, "\(path): \(error.reason)")
        }
    }

    /// Ends all access and lets others use the directory.
    /// - Throws: `storeFailed`.
    public func close() throws(HistoryError) { try store.close() }
}

extension SQLiteFile {
    fileprivate func renewSalt(_ head: FileHead, _ salt: Salt) throws {
        let stored = Int64(bitPattern: salt.rawValue)
        guard var entry = try entry(head.version) else {
            // The log begins and ends here.
            let sql = "UPDATE synced_file SET version_salt = ?1, base_salt = ?1 WHERE id = ?2"
            return try db.execute(sql: sql, arguments: [stored, id.number])
        }
        entry.salt = salt
        guard let chain = try checksum(before: entry.version)?.following(entry) else {
            throw HistoryError(.storeDamaged, "log entry \(entry.version) is not what was written")
        }
        try db.execute(
            sql: "UPDATE log_entry SET salt = ?, checksum = ? WHERE file = ? AND version = ?",
            arguments: [stored, Data(chain.bytes), id.number, sought(head.version)])
        try db.execute(
            sql: "UPDATE synced_file SET version_salt = ?, chain = ? WHERE id = ?",
            arguments: [stored, Data(chain.bytes), id.number])
    }

    /// - Returns: those that had not expired before.
    fileprivate func expireAll(_ head: FileHead) throws -> [ClientFile] {
        var expired: [ClientFile] = []
        for number in UInt64(ClientFile.reserved.count)..<head.nextIdent.rawValue {
            guard var clientFile = try clientFile(ClientFileID(rawValue: number)), !clientFile.isExpired else {
                continue
            }
            clientFile.lastSeen = 0
            expired.append(clientFile)
        }
        var commit = Commit(file: id, lease: Lease(0), head: head)
        commit.clientFiles = expired
        try apply(commit, nil)
        return expired
    }
}

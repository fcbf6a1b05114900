import AnabranchCore
package import AnabranchHistory
import Foundation
import GRDB

/// Reads all of a store and checks it: the checksum chain of each log, the invariants of `Spec/History.md`, section 13,
/// about the stored data, and the state against the log. For the latter, the state that the log produces is held in
/// memory.
package struct StoreVerification {
    /// The copy of an incremental backup, until nobody needs it.
    private final class TemporaryCopy {
        let target: CopyTarget

        init(_ target: CopyTarget) { self.target = target }

        deinit { target.clear() }
    }

    private let reader: StoreReader
    private var copy: TemporaryCopy?
    /// The files of a backup that are not what was backed up.
    private var changedFiles: [StoreDamage] = []

    /// Opens the store in a directory. It may have been restored in part, and its shards may be of different times. In
    /// a backup it is checked first that each file is what was backed up; an incremental one is made whole in a
    /// temporary directory for that.
    /// - Parameters:
    ///   - bases: where the bases of an incremental backup may be.
    ///   - made: called with the temporary directory while it is empty, for callers that want it removed when a signal
    ///     ends the process; otherwise it is removed with this value.
    /// - Throws: `storeUnusable` if there is no store, or it has another format; or if it needs no bases.
    package init(
        directory path: String, bases: [String] = [], temporaryDirectory made: (String) -> Void = { _ in }
    ) throws(HistoryError) {
        try DataDirectory.checkReadable(path)
        let record = try BackupRecord.read(in: URL(fileURLWithPath: path, isDirectory: true))
        if let record, record.stage == .whole, record.base != nil {
            let copy = TemporaryCopy(try BackupRestoration.temporaryCopy(of: path, bases: bases, made))
            try self.init(StoreReader(copy.target.directory, isVerifying: true))
            self.copy = copy
        } else {
            guard bases.isEmpty else { throw HistoryError.needsNoBase(path) }
            let directory = try DataDirectory(existing: path, isForReading: true)
            let changed = try record.map { record throws(HistoryError) in
                try Self.changedFiles(of: record, in: directory)
            }
            try self.init(StoreReader(directory, isVerifying: true))
            changedFiles = changed ?? []
        }
    }

    /// The synced file at a path, for reading; nil if there is none.
    package func file(_ path: VirtualPath) throws(HistoryError) -> StoredFile? { try reader.file(path) }

    /// The partitions that have files whose value is spelled in another way.
    package func partitionNames() throws(HistoryError) -> PartitionNames { try reader.partitionNames() }

    private static func changedFiles(
        of record: BackupRecord, in directory: DataDirectory
    ) throws(HistoryError) -> [StoreDamage] {
        var damages: [StoreDamage] = []
        for file in record.files {
            guard directory.size(of: file.name) != nil else {
                damages.append(StoreDamage(kind: .continuity, place: file.name, finding: "it is missing"))
                continue
            }
            do throws(HistoryError) {
                let content = try BackupContent(file, in: directory.url, since: nil)
                while try content.next() != nil {}
            } catch {
                guard error.code == .storeDamaged else { throw error }
                let finding = "it is not what was backed up"
                damages.append(StoreDamage(kind: .checksum, place: file.name, finding: finding))
            }
        }
        return damages
    }

    init(_ reader: StoreReader) { self.reader = reader }

    /// The damage that SQLite itself finds in the databases, records of files that are gone, the reason why no server
    /// starts on them, and the files that are not as they were backed up.
    /// - Throws: `storeFailed` if the database cannot be read at all.
    package func checkDatabase() throws(HistoryError) -> [StoreDamage] {
        var damages = changedFiles
        if let refusal = reader.refusal {
            damages.append(StoreDamage(kind: .continuity, place: "the store", finding: refusal.reason))
        }
        for shard in reader.databases.indices { damages += try checkDatabase(shard) }
        return damages + checkAccounts()
    }

    private func checkAccounts() -> [StoreDamage] {
        let name = DataDirectory.accountsName
        guard reader.directory.size(of: name) != nil else { return [] }
        do {
            let queue = try DatabaseCopy.open(reader.directory.readingPath(of: name))
            defer { try? queue.close() }
            return try queue.unsafeRead { db in
                try AccountSchema.check(db)
                return try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
                    .map { StoreDamage(kind: .database, place: name, finding: $0) }
            }
        } catch {
            return [StoreDamage(kind: .database, place: name, finding: "it cannot be read: \(error)")]
        }
    }

    /// Reads without transactions, as everywhere here, unless another process writes to the store: a transaction that
    /// has met damage cannot be ended.
    private func checkDatabase(_ shard: Int) throws(HistoryError) -> [StoreDamage] {
        let name = DataDirectory.shardName(shard)
        return try translatingErrors(in: name) {
            try reader.databases[shard].unsafeRead { db in
                let structure = try StoreVerification.orUnreadable(name) {
                    try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
                        .map { StoreDamage(kind: .database, place: name, finding: $0) }
                }
                // Each file has at least the rows of its reserved client files.
                let orphans = try StoreVerification.orUnreadable(name) {
                    try Int64.fetchAll(
                        db,
                        sql: """
                            SELECT DISTINCT file FROM client_file
                            WHERE file NOT IN (SELECT id FROM synced_file UNION SELECT file FROM deleted_file)
                            """
                    ).map { number in
                        StoreDamage(
                            kind: .continuity, place: "\(name), file \(number)", finding: "its record is missing")
                    }
                }
                return structure + orphans
            }
        }
    }

    private static func orUnreadable(
        _ name: String, _ damages: () throws -> [StoreDamage]
    ) throws -> [StoreDamage] {
        do {
            return try damages()
        } catch let error as DatabaseError where error.isDamage {
            return [StoreDamage(kind: .database, place: name, finding: "a part cannot be read: \(error)")]
        }
    }

    /// True if another process writes to the store: each shard was checked as it was when it was opened.
    package var isBesideServer: Bool { reader.isWrittenByOthers }

    /// Checks the synced files in the order of their paths and passes on each as soon as it is done.
    /// - Throws: `storeFailed` if the database cannot be read at all.
    package func checkFiles(_ report: (VerifiedFile) -> Void) throws(HistoryError) {
        try translatingErrors {
            var listing = try FileListing(reader.databases)
            while let file = try listing.next() {
                report(try StoreVerification.check(file.id, in: reader.databases[file.id.shard]))
            }
        }
    }

    /// Checks one synced file; if its own record is damaged, nothing else is found.
    static func check(_ id: SyncedFileID, in database: any DatabaseReader) throws -> VerifiedFile {
        do {
            return try database.unsafeRead { db in
                try FileVerification(
                    SQLiteFile(id: id, db: db, isChecked: false), SQLiteRows(file: id, database: database)
                ).run()
            }
        } catch let error as HistoryError {
            return unreadable(id, .value, error.reason)
        } catch let error as DatabaseError where error.isDamage {
            return unreadable(id, .database, "it cannot be read: \(error)")
        }
    }

    private static func unreadable(_ id: SyncedFileID, _ kind: StoreDamage.Kind, _ finding: String) -> VerifiedFile {
        var file = VerifiedFile(path: VirtualPath("\(DataDirectory.shardName(id.shard)), file \(id.number)"))
        file.damages = [StoreDamage(kind: kind, place: "record of the file", finding: finding)]
        return file
    }
}

extension DatabaseError {
    /// A page is not what SQLite expects there.
    var isDamage: Bool { resultCode == .SQLITE_CORRUPT }
}

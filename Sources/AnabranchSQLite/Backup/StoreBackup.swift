package import AnabranchHistory
import Foundation
import GRDB

/// The progress of copying a store.
package struct StoreCopyProgress: Equatable, Sendable {
    /// A step of the work.
    package enum Step: Sendable {
        /// Databases are copied; the numbers are bytes.
        case copying
        /// The copy is compared with the base; the numbers are bytes.
        case comparing
        /// The copy is checked; the numbers are synced files.
        case checking
    }

    /// The current step.
    package var step: Step
    /// The amount that is done.
    package var done: Int
    /// The amount that there was when it began; more can come while a server runs.
    package var total: Int
}

/// A summary of a backup.
package struct StoreBackupSummary: Equatable, Sendable {
    /// The number of synced files.
    package var fileCount: Int
    /// The number of users; nil if there are no accounts.
    package var userCount: Int?
    /// The bytes of all files of the backup.
    package var bytes: Int
    /// The bytes including those that an incremental backup takes from its bases.
    package var wholeBytes: Int
    /// The damage in it; empty unless it was checked.
    package var damages: [StoreDamage] = []
}

/// Copies a store, its accounts and its keys to another directory, while a server uses them or while none does
/// (`Spec/Durability.md`, section 6).
///
/// The shards come first and the accounts after them, so that the user of each client file is there, too. The mark of a
/// backup is written when everything else of it is durable.
package struct StoreBackup {
    /// A database that was copied, with facts to check the copy against.
    private struct CopiedShard {
        var fileCount: Int
        var heads: Checksum
        var epoch: Int64?
    }

    private static let heads =
        "SELECT id, path, version, version_salt, cumulative_size, next_ident, chain FROM synced_file ORDER BY id"

    private let source: URL
    private let manifest: StoreManifest
    private let target: CopyTarget
    private let base: BackupChain?
    private let copyContents: () throws -> Void

    /// - Parameters:
    ///   - path: the path of the data directory; it may be in use.
    ///   - target: made if it is missing; it has to be empty otherwise. The remains of an interrupted backup are
    ///     removed.
    ///   - bases: first the earlier backup since which the changes are kept; then the places where the bases of that
    ///     one may be, if they are neither in their old place nor next to it. Without any, the backup is whole by
    ///     itself.
    ///   - copyContents: copies the contents of files, after the databases that name them and before the mark.
    /// - Throws: `storeUnusable` if there is no store of this format, it is not ready to be served, there is something
    ///   in the target, or the base is not a backup; `storeFailed` if it is too large for the disk.
    package init(
        of path: String, to target: String, bases: [String] = [], copyContents: @escaping () throws -> Void = {}
    ) throws(HistoryError) {
        self.copyContents = copyContents
        source = URL(fileURLWithPath: path, isDirectory: true)
        manifest = try Self.manifest(in: source)
        guard !Self.isInside(target, of: path) else {
            throw HistoryError(.storeUnusable, "\(target) is inside of the data, and would be lost with them")
        }
        for base in bases where Self.isInside(target, of: base) {
            throw HistoryError(.storeUnusable, "\(target) is inside of \(base), and would be lost with it")
        }
        base = if let base = bases.first { try Self.base(base, bases) } else { nil }
        if let base, try StoreManifest.read(in: base.url)?.store != manifest.store {
            throw HistoryError(.storeUnusable, "\(base.url.path) is a backup of another store")
        }
        if let base, base.memberCount >= BackupChain.membersMax {
            throw HistoryError(
                .storeUnusable,
                "\(base.url.path) needs \(base.memberCount - 1) earlier backups, and one that needs more is refused: "
                    + "make a whole backup, without --base")
        }
        self.target = try CopyTarget(target, purpose: "a backup")
        do throws(HistoryError) {
            try self.target.checkSpace(for: byteTotal)
        } catch {
            self.target.clear()
            throw error
        }
    }

    private static func base(_ path: String, _ bases: [String]) throws(HistoryError) -> BackupChain {
        let isThere = FileManager.default.fileExists(atPath: path)
        let record = try BackupRecord.read(in: URL(fileURLWithPath: path, isDirectory: true))
        guard !isThere || record != nil else {
            throw HistoryError(.storeUnusable, "\(path) is not a backup; --base takes an earlier backup")
        }
        return try BackupChain(path, bases: bases)
    }

    private static func isInside(_ path: String, of other: String) -> Bool {
        let paths = [path, other].map { URL(fileURLWithPath: $0, isDirectory: true).resolvingSymlinksInPath().path }
        return (paths[0] + "/").hasPrefix(paths[1] + "/")
    }

    private static func manifest(in source: URL) throws(HistoryError) -> StoreManifest {
        try DataDirectory.checkReadable(source.path)
        guard try BackupRecord.read(in: source) == nil else {
            throw HistoryError(.storeUnusable, "\(source.path) is a backup itself: copy the directory")
        }
        guard let manifest = try StoreManifest.read(in: source) else {
            throw HistoryError(.storeUnusable, "\(source.path): there is no store in it")
        }
        switch manifest.stage {
        case .ready: return manifest
        case .making:
            throw HistoryError(
                .storeUnusable, "\(source.path): the store is not finished; the server that opens it goes on with that")
        case .copying: throw HistoryError.partlyCopied
        case .restoring: throw HistoryError.partlyRestored
        }
    }

    // MARK: Copying

    /// Copies everything; a second process can be the writer at the same time. All of it is durable when this returns.
    /// - Parameters:
    ///   - isVerified: whether the copy is read and checked as `StoreVerification` does, and compared with the
    ///     original. Damage is returned and not thrown, since no better backup can be made. An incremental backup is
    ///     put together with its base again, and compared before the whole is removed.
    ///   - report: called with the progress. If it throws, that is a `storeFailed`.
    /// - Throws: `storeFailed`, `storeDamaged` or `storeUnusable`; then the target is as empty as before.
    package func run(
        isVerified: Bool = false, _ report: (StoreCopyProgress) throws -> Void = { _ in }
    ) throws(HistoryError) -> StoreBackupSummary {
        do throws(HistoryError) {
            return try copy(isVerified: isVerified, report)
        } catch {
            target.clear()
            throw error
        }
    }

    private func copy(
        isVerified: Bool, _ report: (StoreCopyProgress) throws -> Void
    ) throws(HistoryError) -> StoreBackupSummary {
        var record = BackupRecord(stage: .copying)
        var progress = StoreCopyProgress(step: .copying, done: 0, total: byteTotal)
        func add(_ bytes: Int) throws {
            progress.done += bytes
            try report(progress)
        }
        var shards: [CopiedShard] = []
        for number in 0..<manifest.shards { shards.append(try copyShard(number, add)) }
        try level(shards)
        let accounts = try copyAccounts(add)
        try copyKeys()
        // Another process that was restoring the data in that time may have changed some shards before they were
        // copied.
        guard try Self.manifest(in: source) == manifest else {
            throw HistoryError(.storeUnusable, "\(source.path): another store came in its place")
        }
        try manifest.write(in: target.url)
        for name in copiedNames {
            let content = try CopiedFile.content(of: name, in: target.url)
            record.files.append(BackupRecord.File(name: name, bytes: content.bytes, checksum: content.checksum))
        }
        let fileCount = shards.reduce(0) { $0 + $1.fileCount }
        let damages = isVerified ? try check(shards, accounts, fileCount, report) : []
        if let base { try leaveOut(base, of: &record, isVerified: isVerified, report) }
        try translatingErrors(in: "the contents of files") { try copyContents() }
        try target.finish(record)
        return StoreBackupSummary(
            fileCount: fileCount, userCount: accounts?.userCount,
            bytes: record.files.reduce(0) { $0 + $1.storedBytes },
            wholeBytes: record.files.reduce(0) { $0 + $1.bytes }, damages: damages)
    }

    /// Replaces databases by deltas where the base has most of their content.
    private func leaveOut(
        _ base: BackupChain, of record: inout BackupRecord, isVerified: Bool,
        _ report: (StoreCopyProgress) throws -> Void
    ) throws(HistoryError) {
        // A link that leads to the base today may lead to another backup tomorrow.
        record.base = BackupRecord.Base(
            path: base.url.resolvingSymlinksInPath().path, time: base.record.time, checksum: base.checksum)
        let databases = record.files.indices.filter { record.files[$0].name.hasSuffix(".sqlite") }
        let total = databases.reduce(0) { $0 + record.files[$1].bytes }
        var progress = StoreCopyProgress(step: .comparing, done: 0, total: total)
        for index in databases {
            let file = record.files[index]
            guard let old = try base.content(of: file.name) else { continue }
            let stored = try BlockDelta.write(of: file, in: target.url, since: old) { bytes in
                progress.done += bytes
                try report(progress)
            }
            guard let stored else { continue }
            if isVerified {
                let whole = try BackupContent(stored, in: target.url, since: base.content(of: file.name))
                while try whole.next() != nil {}
            }
            record.files[index] = stored
            unlink(target.directory.path(of: file.name))
        }
    }

    private func path(of name: String) -> String { source.appendingPathComponent(name).path }

    /// The size of the databases in bytes; the content of their write-ahead logs can still make them larger.
    private var byteTotal: Int {
        let names = (0..<manifest.shards).map { DataDirectory.shardName($0) } + [DataDirectory.accountsName]
        return names.reduce(0) { sum, name in
            var status = stat()
            return stat(path(of: name), &status) == 0 ? sum + Int(status.st_size) : sum
        }
    }

    private var copiedNames: [String] {
        ((0..<manifest.shards).map { DataDirectory.shardName($0) }
            + [DataDirectory.accountsName, DataDirectory.keysName, StoreManifest.fileName])
            .filter { target.directory.size(of: $0) != nil }
    }

    private func copyShard(_ number: Int, _ report: (Int) throws -> Void) throws(HistoryError) -> CopiedShard {
        let name = DataDirectory.shardName(number)
        return try DatabaseCopy(source: path(of: name), target: target.directory.path(of: name)).run(
            reading: { db in
                try StoreSchema.check(number, of: manifest, in: db)
                return CopiedShard(
                    fileCount: try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM synced_file") ?? 0,
                    heads: try db.digest(of: Self.heads), epoch: try StoreSchema.epoch(in: db))
            }, report)
    }

    /// A server that was started during the copy, or whose day has ended, has counted an epoch between two shards. The
    /// copy counts it in all: they belong together.
    private func level(_ shards: [CopiedShard]) throws(HistoryError) {
        guard let newest = shards.compactMap(\.epoch).max() else { return }
        for (number, shard) in shards.enumerated() where shard.epoch != newest {
            let name = DataDirectory.shardName(number)
            try translatingErrors(in: name) {
                let queue = try DatabaseQueue(path: target.directory.path(of: name))
                defer { try? queue.close() }
                try queue.write { db in try StoreSchema.setMeta("epoch", to: newest, in: db) }
            }
        }
    }

    private func copyAccounts(_ report: (Int) throws -> Void) throws(HistoryError) -> CopiedAccounts? {
        let name = DataDirectory.accountsName
        guard FileManager.default.fileExists(atPath: path(of: name)) else { return nil }
        return try DatabaseCopy(source: path(of: name), target: target.directory.path(of: name)).run(
            reading: CopiedAccounts.init, report)
    }

    /// A process that changes the keys puts a whole new file in the place of the old one: the opened file is one of the
    /// two.
    private func copyKeys() throws(HistoryError) {
        let name = DataDirectory.keysName
        guard FileManager.default.fileExists(atPath: path(of: name)) else { return }
        try translatingErrors(in: name) {
            let keys = try Data(contentsOf: source.appendingPathComponent(name))
            let copy = try DataDirectory.makeFile(target.directory.path(of: name))
            defer { try? copy.close() }
            try copy.write(contentsOf: keys)
        }
    }

    // MARK: Checking

    private func check(
        _ shards: [CopiedShard], _ accounts: CopiedAccounts?, _ fileCount: Int,
        _ report: (StoreCopyProgress) throws -> Void
    ) throws(HistoryError) -> [StoreDamage] {
        try target.damages(
            ofFiles: fileCount,
            and: { reader throws(HistoryError) in
                var damages: [StoreDamage] = []
                for (number, (database, copied)) in zip(reader.databases, shards).enumerated() {
                    let name = DataDirectory.shardName(number)
                    let heads = try translatingErrors(in: name) {
                        try database.unsafeRead { try $0.digest(of: Self.heads) }
                    }
                    guard heads != copied.heads else { continue }
                    let finding = "its files are not those that were copied"
                    damages.append(StoreDamage(kind: .value, place: name, finding: finding))
                }
                let path = target.directory.path(of: DataDirectory.accountsName)
                if let accounts, let damage = try accounts.damage(ofCopyAt: path) { damages.append(damage) }
                return damages
            }, report)
    }
}

extension StoreReader {
    /// The number of synced files.
    func fileCount() throws(HistoryError) -> Int {
        try translatingErrors {
            try databases.reduce(0) { sum, database in
                try sum + database.unsafeRead { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM synced_file") ?? 0 }
            }
        }
    }
}

extension StoreVerification {
    /// Checks everything.
    /// - Parameter fileCount: the number of synced files.
    func damages(
        ofFiles fileCount: Int, _ report: (StoreCopyProgress) throws -> Void
    ) throws(HistoryError) -> [StoreDamage] {
        var damages = try checkDatabase()
        var progress = StoreCopyProgress(step: .checking, done: 0, total: fileCount), failure: (any Error)?
        try checkFiles { file in
            damages += file.damages.map { damage in
                StoreDamage(kind: damage.kind, place: "\(file.path), \(damage.place)", finding: damage.finding)
            }
            progress.done += 1
            do { try report(progress) } catch { failure = failure ?? error }
        }
        if let failure { try translatingErrors { throw failure } }
        return damages
    }
}

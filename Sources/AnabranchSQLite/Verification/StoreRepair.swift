package import AnabranchCore
package import AnabranchHistory
import AnabranchRows
import Foundation
import GRDB

/// The result of `StoreRepair` for one synced file.
package struct RepairedFile: Equatable, Sendable {
    /// The parts that were made again, or from which damage was removed.
    package struct Parts: OptionSet, Sendable {
        /// A bit for each part.
        package let rawValue: UInt8
        /// The stored state.
        package static let state = Parts(rawValue: 1)
        /// The conflict keys.
        package static let conflictKeys = Parts(rawValue: 2)
        /// The bootstrap generations: damaged ones were removed, and client files that have one of them as lineage have
        /// expired. There is a new one if somebody needs it; otherwise it is made when it is due.
        package static let generations = Parts(rawValue: 4)
        /// The archive: its damaged segments were removed, and their content is lost.
        package static let archive = Parts(rawValue: 8)
        /// The views of clients of flexible sync: the client files of damaged ones have expired.
        package static let views = Parts(rawValue: 16)

        /// A set of parts.
        package init(rawValue: UInt8) { self.rawValue = rawValue }
    }

    /// The name of the file.
    package var path: VirtualPath
    /// The reason why the state is still damaged; nil if it is not, or the log is damaged too.
    package var reason: String?
    /// The repaired parts; empty if nothing was damaged, or nothing could be repaired.
    package var repaired: Parts = []
    /// The remaining damage; empty if there is none.
    package var damages: [StoreDamage]
    /// The newest version up to which the log is what was written.
    package var goodVersion: ServerVersion

    init(_ verified: VerifiedFile) {
        (path, damages, goodVersion) = (verified.path, verified.damages, verified.goodVersion)
    }
}

/// Makes those parts again that the log determines: the state and the conflict keys of files in which they are damaged.
/// Damaged bootstrap generations, archived segments and views are removed (`Spec/Durability.md`, section 4). Losses of
/// the log itself, of client files and of reciprocal changesets cannot be repaired.
package struct StoreRepair {
    private let store: SQLiteStore

    /// Opens the store in a directory.
    /// - Throws: `storeUnusable` if there is no store, it has another format, or a process uses it; `storeDamaged` if
    ///   the database itself is damaged: to write to it could make it worse.
    package init(directory path: String) throws(HistoryError) {
        let damages = try StoreVerification(StoreReader(directory: path)).checkDatabase()
        if let first = damages.first {
            throw HistoryError(.storeDamaged, "\(first); only a backup helps")
        }
        store = try SQLiteStore(existingIn: path)
    }

    /// Checks files, repairs what can be repaired, and checks the repaired files again. Each repair can be interrupted:
    /// the next opening of the file continues it.
    /// - Parameters:
    ///   - paths: the files, in any spelling of their partitions' values; nil means all.
    ///   - report: called with each file in the order of their paths.
    /// - Throws: `storeUnusable` if there is no file of that name, before anything was done; `storeFailed`.
    package func run(_ paths: [VirtualPath]? = nil, _ report: (RepairedFile) -> Void) throws(HistoryError) {
        let names = try PartitionNames(of: store), paths = paths?.map { names.file(at: $0) }
        for path in paths ?? [] where try !store.contains(path) {
            throw HistoryError(.storeUnusable, "there is no file \(path)")
        }
        var listing = try FileListing(store.shards.map(\.pool))
        while let file = try listing.next() {
            if paths?.contains(file.path) ?? true { report(try repair(file.id, file.path)) }
        }
    }

    private func repair(_ id: SyncedFileID, _ path: VirtualPath) throws(HistoryError) -> RepairedFile {
        var result = RepairedFile(try verified(id))
        result.path = path
        var parts = RepairedFile.Parts.repairing(result.damages)
        if parts.contains(.state), let base = try trimmedVersion(id) {
            parts.remove(.state)
            result.reason = "the log begins after version \(base), and nothing else tells the state: restore a backup"
        }
        guard !parts.isEmpty else { return result }
        try translatingErrors {
            try store.shards[id.shard].pool.write { db in
                let file = SQLiteFile(id: id, db: db)
                if parts.contains(.conflictKeys) { try file.renewConflictKeys() }
                if parts.contains(.generations) { try file.dropGenerations(damagedBy: result.damages) }
                if parts.contains(.archive) { try file.dropArchived(damagedBy: result.damages) }
                if parts.contains(.views) { try file.dropViews(damagedBy: result.damages) }
                if parts.contains(.state) { try file.dropState() }
            }
        }
        // Opening a file applies those entries of the log that the state lacks.
        if !parts.isDisjoint(with: [.state, .generations]) {
            let file = try SyncedFile(path: path, store: store)
            if parts.contains(.generations), file.head.baseVersion > 0 { try file.makeMissingGeneration() }
        }
        let reason = result.reason
        result = RepairedFile(try verified(id))
        (result.repaired, result.reason) = (parts, reason)
        return result
    }

    /// The version up to which entries are gone; nil if the log is there from its beginning.
    private func trimmedVersion(_ id: SyncedFileID) throws(HistoryError) -> ServerVersion? {
        let base = try translatingErrors {
            try store.shards[id.shard].pool.read { db in try SQLiteFile(id: id, db: db).record().head.baseVersion }
        }
        return base > 0 ? base : nil
    }

    private func verified(_ id: SyncedFileID) throws(HistoryError) -> VerifiedFile {
        try translatingErrors { try StoreVerification.check(id, in: store.shards[id.shard].pool) }
    }

    /// Ends all access and lets others use the directory.
    /// - Throws: `storeFailed`.
    package func close() throws(HistoryError) { try store.close() }
}

extension RepairedFile.Parts {
    /// The parts that can be made again: none, if anything else is damaged.
    fileprivate static func repairing(_ damages: [StoreDamage]) -> RepairedFile.Parts {
        var parts: RepairedFile.Parts = []
        for damage in damages {
            switch damage.kind {
            case .state: parts.insert(.state)
            case .conflictKeys: parts.insert(.conflictKeys)
            case .generation: parts.insert(.generations)
            case .archive: parts.insert(.archive)
            case .view: parts.insert(.views)
            case .database, .checksum, .continuity, .size, .value, .cursor, .reciprocal, .changeset: return []
            }
        }
        return parts
    }
}

extension SQLiteFile {
    /// Resets the state to the one before the log, so that it is made again from the whole log.
    fileprivate func dropState() throws {
        try StateTable(of: id.number).removeAll(in: db)
        var record = try record()
        record.head.stateVersion = record.head.baseVersion
        try store(record)
    }

    /// Removes the generations with reported damage, and lets the client files expire that need them.
    fileprivate func dropGenerations(damagedBy damages: [StoreDamage]) throws {
        let places = Set(damages.filter { $0.kind == .generation }.map(\.place))
        var file = self
        file.isChecked = false
        let readable = try file.generations().map(\.version)
        let whole = Set(readable.filter { !places.contains("generation of version \($0)") })
        let known = try rows("SELECT version FROM generation WHERE file = ?", [id.number]) { $0[0] as Int64 }
        for version in known where !whole.contains(ServerVersion(rawValue: UInt64(bitPattern: version))) {
            // Its entries are removed when the next one is made.
            try execute("DELETE FROM generation WHERE file = ? AND version = ?", [id.number, version])
        }
        let record = try record()
        var commit = Commit(file: id, lease: record.lease, head: record.head)
        let sql = """
            SELECT \(SQLiteFile.clientColumns) FROM client_file WHERE file = ? AND is_expired = 0 AND lineage > 1
            """
        commit.clientFiles = try rows(sql, [id.number], SQLiteFile.clientFile).compactMap { clientFile in
            guard case .generation(let version) = clientFile.lineage, !whole.contains(version) else { return nil }
            var expired = clientFile
            expired.isExpired = true
            return expired
        }
        try apply(commit, to: record, nil)
    }

    /// Removes the views with reported damage, and lets their client files expire.
    fileprivate func dropViews(damagedBy damages: [StoreDamage]) throws {
        let places = Set(damages.filter { $0.kind == .view }.map(\.place)), record = try record()
        var commit = Commit(file: id, lease: record.lease, head: record.head)
        let sql = "SELECT \(SQLiteFile.clientColumns) FROM client_file WHERE file = ? AND salt <> 0"
        commit.clientFiles = try rows(sql, [id.number], SQLiteFile.clientFile).filter {
            places.contains(FileVerification.viewPlace($0.ident))
        }
        for index in commit.clientFiles.indices { commit.clientFiles[index].isExpired = true }
        try apply(commit, to: record, nil)
    }

    /// Removes the archived segments with reported damage.
    fileprivate func dropArchived(damagedBy damages: [StoreDamage]) throws {
        let places = Set(damages.filter { $0.kind == .archive }.map(\.place))
        let sql = "SELECT last FROM archived_segment WHERE file = ?"
        for last in try rows(sql, [id.number], { ServerVersion(rawValue: try $0.number(0)) })
        where places.contains(FileVerification.archivedPlace(last)) {
            try execute("DELETE FROM archived_segment WHERE file = ? AND last = ?", [id.number, stored(last)])
        }
    }

    fileprivate func renewConflictKeys() throws {
        try db.execute(sql: "DELETE FROM conflict_key WHERE file = ?", arguments: [id.number])
        // The keys of sealed entries are in their segments.
        guard let base = try sealedEnd()?.version else { return }
        var replay = LogReplay(VersionRange(after: base, through: try head().version))
        while !replay.isDone {
            for entry in try replay.next(from: self) {
                for key in try entry.writtenKeys() { try store(key) }
            }
        }
    }
}

extension LogEntry {
    /// The conflict keys that it writes.
    /// - Throws: if the changeset cannot be decoded.
    func conflictKeys() throws(ChangesetError) -> [ConflictKeyEntry] {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: version.rawValue, tag: tag)
        return arena.conflictKeys(of: index).writes.map { ConflictKeyEntry(key: $0, version: version, origin: origin) }
    }
}

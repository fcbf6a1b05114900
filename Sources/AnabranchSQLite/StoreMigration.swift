import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// How far the migration of a store from an older format is.
public struct StoreMigrationProgress: Equatable, Sendable {
    /// How many synced files are in the new format.
    public var fileCount = 0
    /// How many there are.
    public var fileTotal: Int
    /// How many bytes of changesets were copied.
    public var bytes: UInt64 = 0
    /// How many there are.
    public var byteTotal: UInt64
}

/// Copies a store of an older format into the shards of a new one, file by file (`Spec/Durability.md`, section 3).
///
/// First the old database gets another name, under which only this reads it, and the marker takes its place: what an
/// older program wrote later would be missing in the new store. Then it can be interrupted everywhere: a synced file
/// has a row in its shard when all else of it is there, and what a file without one has is dropped when the migration
/// goes on. The states are made anew from the logs.
struct StoreMigration {
    typealias Report = (StoreMigrationProgress) throws -> Void

    private let directory: DataDirectory

    init(in directory: DataDirectory) { self.directory = directory }

    // MARK: The old database

    /// Older programs find the old database or the marker under its name, and never nothing. To be called before the
    /// shards are made.
    /// - Throws: `storeUnusable` if that is not the database whose migration has begun.
    func retireSource(_ report: Report) throws(HistoryError) {
        let marker = DataDirectory.markerName, migrated = DataDirectory.migratedName
        guard try isSourceInPlace() else {
            if try directory.lacksMarker() { try directory.putMarker() }
            return
        }
        try translatingErrors(in: marker) {
            try OldStore.settle(at: directory.path(of: marker))
            let total = try OldStore(at: directory.path(of: marker)).total()
            let progress = StoreMigrationProgress(fileTotal: total.files, byteTotal: total.bytes)
            try report(progress)
            if directory.size(of: migrated) == nil { try directory.link(marker, as: migrated) }
            try report(progress)
            try directory.putMarker()
            try report(progress)
        }
    }

    /// Whether the old database has its old name, alone or beside the new one.
    private func isSourceInPlace() throws(HistoryError) -> Bool {
        let marker = DataDirectory.markerName, migrated = DataDirectory.migratedName
        let hasMigrated = directory.size(of: migrated) ?? 0 > 0
        guard directory.size(of: marker) ?? 0 > 0, case .older(let format) = try directory.examineDatabase() else {
            guard hasMigrated else {
                throw HistoryError(.storeUnusable, "\(marker), which was being migrated, is missing: restore a backup")
            }
            return false
        }
        let isOther = hasMigrated && !directory.isSame(marker, migrated)
        // Shards are made when it has lost its name.
        let isLate = !hasMigrated && directory.size(of: DataDirectory.shardName(0)) != nil
        guard !isOther, !isLate else {
            throw HistoryError(
                .storeUnusable,
                """
                \(directory.url.path): \(marker) is a store of format \(format), but another one is being migrated: \
                to go on with \(migrated), move \(marker) away; to begin with \(marker), move \(migrated), \
                \(StoreManifest.fileName) and the shards away
                """)
        }
        return true
    }

    // MARK: The files

    /// Goes on behind what has been copied.
    func run(into store: SQLiteStore, _ report: Report) throws(HistoryError) {
        let old = try OldStore(at: directory.path(of: DataDirectory.migratedName))
        try translatingErrors(in: DataDirectory.migratedName) {
            for shard in store.shards { try shard.setFlushing(false) }
            let total = old.total()
            var progress = StoreMigrationProgress(fileTotal: total.files, byteTotal: total.bytes)
            try report(progress)
            try forEachFile(of: old) { file in
                try copy(file, of: old, into: store, progress.bytes) { bytes in
                    progress.bytes = bytes
                    try report(progress)
                }
                progress.fileCount += 1
            }
            // From here on everything is durable.
            for shard in store.shards { try shard.setFlushing(true) }
            try report(progress)
            try old.queue.close()
        }
    }

    /// Where the table of the files is damaged, the index of their names tells which there are: it may hand over some
    /// that were handed over before.
    private func forEachFile(of old: OldStore, _ body: (OldStore.File) throws -> Void) throws {
        do {
            var last = Int64.min
            while case let piece = try old.names(after: last), let end = piece.last?.number, end > last {
                for name in piece { try body(try old.file(name.number, name.path)) }
                last = end
            }
        } catch let error where error.isOldDamage {
            var last: VirtualPath?
            while case let piece = try old.names(after: last), let end = piece.last?.path, end != last {
                for name in piece { try body(try old.file(name.number, name.path)) }
                last = end
            }
        }
    }

    /// - Parameters:
    ///   - bytes: how many were copied before.
    ///   - report: gets how many are copied.
    private func copy(
        _ file: OldStore.File, of old: OldStore, into store: SQLiteStore, _ bytes: UInt64,
        _ report: (UInt64) throws -> Void
    ) throws {
        do throws(HistoryError) {
            try translatingErrors {
                try report(bytes)
                let shard = store.shard(of: file.path)
                let isThere = try shard.pool.read { db in try SQLiteFile.find(file.path, in: db) != nil }
                if !isThere {
                    let migration = FileMigration(of: file, from: old, to: shard)
                    try migration.run { try report(bytes.adding(min($0, file.size))) }
                }
                try report(bytes.adding(file.size))
                // Opening it applies what the state lacks.
                if file.hasState, file.head.version > 0 { _ = try SyncedFile(path: file.path, store: store) }
            }
        } catch {
            // Who opens a damaged file later is told so; the others are not to wait for its repair.
            guard error.code == .storeDamaged else { throw HistoryError(error.code, "\(file.path): \(error.reason)") }
        }
    }
}

extension UInt64 {
    /// Sizes of damaged records can be anything.
    fileprivate func adding(_ other: UInt64) -> UInt64 {
        let (sum, isTooLarge) = addingReportingOverflow(other)
        return isTooLarge ? .max : sum
    }
}

import AnabranchHistory
import Foundation
import GRDB

/// What a directory holds, and whether it has lost some of it: SQLite would make a new store of what is missing, and
/// every client would have to reset.
extension DataDirectory {
    /// - Throws: `storeUnusable` for a store that has lost files, is somebody else's or a newer program's.
    func contents() throws(HistoryError) -> Contents {
        guard let manifest = try StoreManifest.read(in: url) else { return try contentsWithoutManifest() }
        // `StoreMigration` itself looks at what it migrates.
        guard !manifest.stage.isMigrating else { return .store(manifest) }
        _ = try lacksMarker()
        guard manifest.stage != .making else { return .store(manifest) }
        for number in 0..<manifest.shards where size(of: Self.shardName(number)) ?? 0 == 0 {
            let finding = size(of: Self.shardName(number)) == nil ? "is missing" : "is empty (0 bytes)"
            throw HistoryError(.storeUnusable, "\(url.path): \(Self.shardName(number)) \(finding): restore a backup")
        }
        return .store(manifest)
    }

    /// Whether the marker of a store that has a manifest is to be made anew: it is missing or damaged. Nobody's tables
    /// fit into one page.
    /// - Throws: `storeUnusable` if something else may stand in its place.
    func lacksMarker() throws(HistoryError) -> Bool {
        let name = Self.markerName, bytes = size(of: name) ?? 0
        if size(of: name + "-wal") ?? 0 > 0 {
            // SQLite would delete it.
            guard bytes > 0 else { throw misplaced("\(name)-wal is of another store, of which \(name) is lost") }
        } else if bytes <= Self.markerBytesMax {
            if bytes > 0, let finding = try? examineDatabase(), case .current = finding { return false }
            return true
        }
        let finding: DatabaseFormat.Finding
        do {
            finding = try examineDatabase()
        } catch {
            throw misplaced("\(name) is not the marker of this store, and cannot be read")
        }
        switch finding {
        case .current: return false
        case .new: return true
        case .older(let format), .newer(let format): throw misplaced("\(name) is a store of format \(format)")
        case .foreign: throw misplaced("\(name) is not a store of Anabranch")
        }
    }

    private func misplaced(_ finding: String) -> HistoryError {
        HistoryError(
            .storeUnusable,
            """
            \(url.path): \(finding), beside one of format \(StoreSchema.format.version): keep the one that is meant, \
            and move \(Self.markerName), or \(StoreManifest.fileName) and the shards, away
            """)
    }

    /// SQLite's own page size, when the marker was made.
    private static let markerBytesMax = 4096

    private func contentsWithoutManifest() throws(HistoryError) -> Contents {
        let shards = (0..<StoreManifest.shardsMax).map { Self.shardName($0) }
        try refuse(StoreManifest.fileName, "is missing", beside: shards)
        let name = Self.markerName, log = name + "-wal", version = StoreSchema.format.version
        switch size(of: name) {
        case nil:
            try refuse(name, "is missing", beside: [Self.migratedName, log])
            return .nothing
        case 0:
            try refuse(name, "is empty (0 bytes)", beside: [Self.migratedName, log] + Self.otherFiles)
            return .nothing
        default: break
        }
        switch try examineDatabase() {
        case .new:
            try refuse(name, "has no tables", beside: [Self.migratedName] + Self.otherFiles)
            return .nothing
        case .older(let format): return .older(format: format)
        case .current:
            throw HistoryError(
                .storeUnusable,
                """
                \(url.path): \(StoreManifest.fileName) is missing, but \(name) tells of it: \
                \(StoreManifest.advice), or restore a backup
                """)
        case .newer(let format):
            throw HistoryError(
                .storeUnusable, "the store has format \(format); this program reads up to \(version)")
        case .foreign:
            throw HistoryError(
                .storeUnusable, "\(name) is not a store of Anabranch: restore a backup, or use another directory")
        }
    }

    /// What the database of older formats is.
    /// - Throws: `storeUnusable` for the marker of a store that a development version has made.
    func examineDatabase() throws(HistoryError) -> DatabaseFormat.Finding {
        let finding = try translatingErrors(in: Self.markerName) {
            let queue = try DatabaseQueue(path: path(of: Self.markerName))
            defer { try? queue.close() }
            return try queue.read { db in try StoreSchema.format.examine(db) }
        }
        if case .older(StoreSchema.developmentVersion) = finding {
            throw HistoryError.ofDevelopmentVersion("the store")
        }
        // Its marker is as good as a newer one.
        if case .older(let version) = finding, StoreSchema.upgradedFormats.contains(version) { return .current }
        return finding
    }

    /// What a server makes after the databases. Keys can be made before.
    private static let otherFiles = [accountsName, keysName, "admin-token"]

    private func refuse(_ name: String, _ finding: String, beside names: [String]) throws(HistoryError) {
        let left = names.filter { size(of: $0) ?? 0 > 0 }
        guard let first = left.first else { return }
        let others = left.count > 3 ? "\(first) and \(left.count - 1) others" : left.joined(separator: ", ")
        let advice =
            switch name {
            case Self.markerName where first == Self.migratedName:
                "restore a backup; or, to have the store of an older format migrated once more, rename it to \(name)"
            case Self.markerName:
                "restore a backup; or, to begin with an empty store, delete \(name) and \(name)-wal"
            default: "\(StoreManifest.advice), or use another directory"
            }
        throw HistoryError(
            .storeUnusable,
            """
            \(url.path): \(name) \(finding), but \(others) beside it tell of an earlier life: \(advice)
            """)
    }
}

import AnabranchHistory
import Foundation
import GRDB

/// What a directory holds, and whether it has lost some of it: SQLite would make a new store of what is missing, and
/// every client would have to reset.
extension DataDirectory {
    /// - Throws: `storeUnusable` for a store that has lost files, is somebody else's or a newer program's.
    func contents() throws(HistoryError) -> Contents {
        guard let manifest = try StoreManifest.read(in: url) else { return try contentsWithoutManifest() }
        guard manifest.stage != .making, manifest.stage != .migrating else { return .store(manifest) }
        for number in 0..<manifest.shards where size(of: Self.shardName(number)) ?? 0 == 0 {
            let finding = size(of: Self.shardName(number)) == nil ? "is missing" : "is empty (0 bytes)"
            throw HistoryError(.storeUnusable, "\(url.path): \(Self.shardName(number)) \(finding): restore a backup")
        }
        if size(of: Self.markerName) ?? 0 > 0, case .older(let format) = try examineDatabase() {
            throw HistoryError(
                .storeUnusable,
                """
                \(url.path): \(Self.markerName) is a store of format \(format), beside one of format \
                \(manifest.format): keep the one that is meant, and move \(Self.markerName), or \
                \(StoreManifest.fileName) and the shards, away
                """)
        }
        return .store(manifest)
    }

    private func contentsWithoutManifest() throws(HistoryError) -> Contents {
        let shards = (0..<StoreManifest.shardsMax).map { Self.shardName($0) }
        try refuse(StoreManifest.fileName, "is missing", beside: shards)
        let log = Self.markerName + "-wal"
        switch size(of: Self.markerName) {
        case nil: try refuse(Self.markerName, "is missing", beside: [log])
        case 0: try refuse(Self.markerName, "is empty (0 bytes)", beside: [log] + Self.otherFiles)
        default:
            let found = try examineDatabase()
            if case .nothing = found { try refuse(Self.markerName, "has no tables", beside: Self.otherFiles) }
            return found
        }
        return .nothing
    }

    /// What the database of older formats is.
    private func examineDatabase() throws(HistoryError) -> Contents {
        let name = Self.markerName, version = StoreSchema.format.version
        let finding = try translatingErrors(in: name) {
            let queue = try DatabaseQueue(path: path(of: name))
            defer { try? queue.close() }
            return try queue.read { db in try StoreSchema.format.examine(db) }
        }
        switch finding {
        case .new: return .nothing
        case .older(let format): return .older(format: format)
        case .current:
            // The marker; who looks at it without a manifest has lost that.
            if let manifest = try StoreManifest.read(in: url) { return .store(manifest) }
            throw HistoryError(
                .storeUnusable,
                "\(url.path): \(StoreManifest.fileName) is missing, but \(name) tells of it: restore a backup")
        case .newer(let format):
            throw HistoryError(
                .storeUnusable, "the store has format \(format); this program reads up to \(version)")
        case .foreign:
            throw HistoryError(
                .storeUnusable, "\(name) is not a store of Anabranch: restore a backup, or use another directory")
        }
    }

    /// What a server makes after the databases. Keys can be made before.
    private static let otherFiles = ["accounts.sqlite", "keys.json", "admin-token"]

    private func refuse(_ name: String, _ finding: String, beside names: [String]) throws(HistoryError) {
        let left = names.filter { size(of: $0) ?? 0 > 0 }
        guard let first = left.first else { return }
        let others = left.count > 3 ? "\(first) and \(left.count - 1) others" : left.joined(separator: ", ")
        let advice =
            name == Self.markerName
            ? "or, to begin with an empty store, delete \(name) and \(name)-wal" : "or use another directory"
        throw HistoryError(
            .storeUnusable,
            """
            \(url.path): \(name) \(finding), but \(others) beside it tell of an earlier life: restore a backup; \
            \(advice)
            """
        )
    }
}

import AnabranchHistory
import Foundation

/// The contents of a directory, and the check that none of them are lost: SQLite would make a new store in place of a
/// missing one, and every client would have to reset.
extension DataDirectory {
    /// The manifest of the store; nil if the directory has neither a manifest nor anything else of a store.
    /// - Throws: `storeUnusable` for a store that has lost files, or has another format.
    func manifest() throws(HistoryError) -> StoreManifest? {
        guard let manifest = try StoreManifest.read(in: url) else {
            try refuseRemains()
            return nil
        }
        guard !manifest.isUnmade else { return manifest }
        for number in 0..<manifest.shards where size(of: Self.shardName(number)) ?? 0 == 0 {
            let finding = size(of: Self.shardName(number)) == nil ? "is missing" : "is empty (0 bytes)"
            throw HistoryError(.storeUnusable, "\(url.path): \(Self.shardName(number)) \(finding): restore a backup")
        }
        return manifest
    }

    private func refuseRemains() throws(HistoryError) {
        let shards = (0..<StoreManifest.shardsMax).map { Self.shardName($0) }.filter { size(of: $0) ?? 0 > 0 }
        guard let first = shards.first else { return }
        let all = shards.count > 3 ? "\(first) and \(shards.count - 1) others" : shards.joined(separator: ", ")
        throw HistoryError(
            .storeUnusable,
            """
            \(url.path): \(StoreManifest.fileName) is missing, but \(all) beside it tell of an earlier life: \
            \(StoreManifest.advice), or use another directory
            """)
    }
}

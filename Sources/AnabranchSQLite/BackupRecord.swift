import AnabranchHistory
import Foundation

/// `backup.json`: marks a directory as a copy of a store that no server may serve, and says what was copied
/// (`Spec/Durability.md`, section 6).
struct BackupRecord: Codable, Equatable {
    /// How far the copy is.
    enum Stage: String, Codable {
        /// Something may be missing: it is no backup.
        case copying
        /// Everything is there, durably.
        case whole
    }

    /// A file of the copy.
    struct File: Codable, Equatable {
        var name: String
        var bytes: Int
        /// In hexadecimal, see `CopiedFile`.
        var checksum: String
    }

    static let fileName = "backup.json"

    /// What can be in a backup beside it.
    static let copiedNames = Set(
        (0..<StoreManifest.shardsMax).map { DataDirectory.shardName($0) }
            + [
                DataDirectory.accountsName, DataDirectory.keysName, StoreManifest.fileName,
            ])

    /// When it was begun: a time of ISO 8601, for people.
    var time = Date().formatted(.iso8601)
    var stage: Stage
    /// In the order in which they were copied.
    var files: [File] = []

    /// - Returns: nil if the directory is no copy.
    /// - Throws: `storeUnusable` if nobody can tell.
    static func read(in directory: URL) throws(HistoryError) -> BackupRecord? {
        do {
            let content = try Data(contentsOf: directory.appendingPathComponent(fileName))
            let record = try JSONDecoder().decode(BackupRecord.self, from: content)
            // Nothing else is copied anywhere, whatever somebody has written here.
            let names = Set(record.files.map(\.name)), sizes = 0...(Int.max >> 8)
            guard names.count == record.files.count, names.isSubset(of: copiedNames),
                record.files.allSatisfy({ sizes.contains($0.bytes) })
            else {
                throw CocoaError(.fileReadCorruptFile)
            }
            return record
        } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
            return nil
        } catch {
            throw HistoryError(.storeUnusable, "\(directory.path): \(fileName) is damaged: use another backup")
        }
    }

    func write(in directory: URL) throws(HistoryError) {
        try DataDirectory.write(self, to: directory.appendingPathComponent(Self.fileName))
    }

    /// - Throws: `storeUnusable` if the directory is a copy that was interrupted.
    static func refuseUnfinished(in directory: URL) throws(HistoryError) {
        guard try read(in: directory)?.stage == .copying else { return }
        throw HistoryError(
            .storeUnusable,
            """
            \(directory.path): the copy was interrupted here, so this is no backup: make it once more, which removes \
            what is there
            """)
    }

    /// - Throws: `storeUnusable` if the directory is a copy, whole or not.
    static func refuseCopy(in directory: URL) throws(HistoryError) {
        try refuseUnfinished(in: directory)
        guard try read(in: directory) != nil else { return }
        throw HistoryError(
            .storeUnusable,
            """
            \(directory.path) is a backup: `anabranch restore --from \(directory.path) --data DIR` makes data of it \
            that can be served, in DIR; if this is a copy of the backup, `anabranch restore --data \(directory.path)` \
            does so in place
            """)
    }
}

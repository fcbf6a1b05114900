import AnabranchHistory
import Foundation

/// `backup.json`: marks a directory as a copy of a store that no server may serve, and lists what was copied
/// (`Spec/Durability.md`, section 6).
struct BackupRecord: Codable, Equatable {
    /// The progress of the copy.
    enum Stage: String, Codable {
        /// Something may be missing: it is not a backup.
        case copying
        /// Everything is there, durably.
        case whole
    }

    /// The size of a file's content, and its checksum.
    struct Content: Codable, Equatable {
        var bytes: Int
        /// The checksum in hexadecimal, see `ContentDigest`.
        var checksum: String
    }

    /// A file of the copy.
    struct File: Codable, Equatable {
        var name: String
        var bytes: Int
        var checksum: String
        /// The delta, which is there in place of the file: the changes since the base.
        var delta: Content?

        var content: Content { Content(bytes: bytes, checksum: checksum) }
        /// The number of bytes that are stored.
        var storedBytes: Int { delta?.bytes ?? bytes }
    }

    /// An earlier backup.
    struct Base: Codable, Equatable {
        /// The path at which it was.
        var path: String
        var time: String
        /// The checksum of its own record.
        var checksum: String
    }

    static let fileName = "backup.json"

    /// The names of the other files that a backup can have.
    static let copiedNames = Set(
        (0..<StoreManifest.shardsMax).map { DataDirectory.shardName($0) }
            + [
                DataDirectory.accountsName, DataDirectory.keysName, StoreManifest.fileName,
            ])

    /// The time when it was begun, in ISO 8601, for people.
    var time = Date().formatted(.iso8601)
    var stage: Stage
    /// The base of an incremental backup: it has everything that is not in this one.
    var base: Base?
    /// The files in the order in which they were copied.
    var files: [File] = []

    /// - Returns: nil if the directory is not a copy.
    /// - Throws: `storeUnusable` if that cannot be determined.
    static func read(in directory: URL) throws(HistoryError) -> BackupRecord? {
        guard let content = try DataDirectory.content(of: fileName, in: directory) else { return nil }
        do {
            let record = try JSONDecoder().decode(BackupRecord.self, from: content)
            // Nothing else is ever copied to another place, whatever somebody has written here.
            let names = Set(record.files.map(\.name)), sizes = 0...(Int.max >> 8)
            guard names.count == record.files.count, names.isSubset(of: copiedNames),
                record.files.allSatisfy({ sizes.contains($0.bytes) && sizes.contains($0.storedBytes) })
            else {
                throw CocoaError(.fileReadCorruptFile)
            }
            return record
        } catch {
            throw HistoryError(.storeUnusable, "\(directory.path): \(fileName) is damaged: use another backup")
        }
    }

    /// The checksum of the record in a directory; nil if there is none.
    static func checksum(in path: String) -> String? {
        let url = URL(fileURLWithPath: path, isDirectory: true).appendingPathComponent(fileName)
        guard let content = try? Data(contentsOf: url) else { return nil }
        var digest = ContentDigest()
        digest.add(Array(content))
        return digest.content.checksum
    }

    /// The same backup with the content of its bases.
    var madeWhole: BackupRecord {
        var record = self
        record.base = nil
        for index in record.files.indices { record.files[index].delta = nil }
        return record
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
            \(directory.path): the copy was interrupted here: make it once more, with `anabranch backup --to` or \
            `anabranch restore --from`, which removes what is there
            """)
    }

    /// The same, and also refuses a copy that has to be put together with others before it is read.
    static func refuseIncomplete(in directory: URL) throws(HistoryError) {
        try refuseUnfinished(in: directory)
        guard let base = try read(in: directory)?.base else { return }
        throw HistoryError(
            .storeUnusable,
            """
            \(directory.path) is an incremental backup, which holds what has changed since \(base.path): \
            `anabranch restore --from \(directory.path) --data DIR` makes data of both, in DIR
            """)
    }

    /// - Throws: `storeUnusable` if the directory is a copy, whole or not.
    static func refuseCopy(in directory: URL) throws(HistoryError) {
        try refuseIncomplete(in: directory)
        guard try read(in: directory) != nil else { return }
        throw HistoryError(
            .storeUnusable,
            """
            \(directory.path) is a backup: `anabranch restore --from \(directory.path) --data DIR` makes data of it \
            that can be served, in DIR; if this is a copy of the backup, `anabranch restore --in-place --data \
            \(directory.path)` makes data of the copy itself
            """)
    }
}

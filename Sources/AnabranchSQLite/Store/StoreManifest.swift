import AnabranchHistory
import Foundation

/// `manifest.json`: the facts that are needed before any database of a store is opened (`Spec/Durability.md`, section
/// 3).
struct StoreManifest: Codable, Equatable {
    /// The state of the store.
    enum Stage: String, Codable {
        /// Its databases are being made.
        case making
        /// It is a copy; `StoreRestoration` may have changed a part of it.
        case restoring
        /// Another store is being copied into it.
        case copying
        /// It can be served.
        case ready
    }

    static let fileName = "manifest.json"
    /// The most databases of a store: each costs a write-ahead log and some connections.
    static let shardsMax = 64
    private static let pathHash = "siphash-2-4-128"

    /// The format of the tables in the shards.
    var format = StoreSchema.format.version
    /// A random name, which the databases have as well: shards of different stores cannot be mixed.
    var store = UUID().uuidString
    /// The number of databases; never changes.
    var shards: Int
    /// The function that determines the shard of a file from its path.
    var pathHash = StoreManifest.pathHash
    var stage: Stage
    /// The place, for people, of the store that has taken the place of this one; nil if none has.
    var copiedTo: String?

    private enum CodingKeys: String, CodingKey {
        case format, store, shards, stage
        case pathHash = "path_hash", copiedTo = "copied_to"
    }

    init(shards: Int, stage: Stage) {
        self.shards = shards
        self.stage = stage
    }

    func shard(of path: VirtualPath) -> Int { Int(Checksum(startOf: path).low % UInt64(shards)) }

    /// True if databases may be missing.
    var isUnmade: Bool { stage == .making || stage == .copying }

    /// - Throws: `storeUnusable` if a store is not to be opened for a purpose.
    func checkStage(for purpose: SQLiteStore.Purpose, in directory: URL) throws(HistoryError) {
        guard stage != .restoring || purpose == .restoration else { throw HistoryError.partlyRestored }
        guard stage != .copying || purpose == .copyTarget else { throw HistoryError.partlyCopied }
        guard let copiedTo, purpose == .use else { return }
        throw HistoryError(
            .storeUnusable,
            """
            \(directory.path): this store was copied to \(copiedTo), which is served in its place. To serve this one \
            again: if no client has been there, take copied_to out of \(Self.fileName); otherwise run `anabranch \
            restore --data \(directory.path)`, which lets clients reset that know of more
            """)
    }

    // MARK: The file

    /// Advice for those who have lost the manifest, which contains nothing that changes while the store is served.
    static let advice = "copy \(fileName) from any backup of this store"

    /// - Returns: nil if there is none.
    /// - Throws: `storeUnusable` for a store of another format, and for a damaged one.
    static func read(in directory: URL) throws(HistoryError) -> StoreManifest? {
        guard let content = try DataDirectory.content(of: fileName, in: directory) else {
            guard try DataDirectory.content(of: oldFileName, in: directory)?.isEmpty ?? true else {
                throw ofOtherFormat("1 to 5")
            }
            return nil
        }
        // All other members can be different in another format.
        let format = try decode(FormatAlone.self, from: content).format
        guard format == StoreSchema.format.version else { throw ofOtherFormat("\(format)") }
        let manifest = try decode(StoreManifest.self, from: content)
        guard manifest.pathHash == pathHash, (1...shardsMax).contains(manifest.shards) else {
            throw HistoryError(.storeUnusable, "\(fileName) is damaged: \(advice)")
        }
        return manifest
    }

    /// The file that held or marked stores of older formats.
    private static let oldFileName = "anabranch.sqlite"

    private static func ofOtherFormat(_ format: String) -> HistoryError {
        HistoryError(
            .storeUnusable,
            """
            the store has format \(format); this program reads format \(StoreSchema.format.version): export it with \
            the program that has written it, and import the lines into a new store
            """)
    }

    private struct FormatAlone: Decodable { let format: Int }

    private static func decode<Content: Decodable>(
        _ type: Content.Type, from content: Data
    ) throws(HistoryError) -> Content {
        do {
            return try JSONDecoder().decode(type, from: content)
        } catch {
            throw HistoryError(.storeUnusable, "\(fileName) is damaged: \(advice) (\(error))")
        }
    }

    /// Replaces the file, so that it is there entirely and durably, or as it was before.
    func write(in directory: URL) throws(HistoryError) {
        try DataDirectory.write(self, to: directory.appendingPathComponent(Self.fileName))
    }
}

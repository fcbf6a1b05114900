import AnabranchHistory
import Foundation

/// `manifest.json`: what has to be known of a store before one of its databases is opened (`Spec/Durability.md`,
/// section 3).
struct StoreManifest: Codable, Equatable {
    /// What has been done to the store.
    enum Stage: String, Codable {
        /// Its databases are being made.
        case making
        /// A store of an older format is being brought into its databases.
        case migrating
        /// The same with a backup, by `StoreRestoration`; no server goes on with it.
        case migratingBackup = "migrating-backup"
        /// It is a copy, of which `StoreRestoration` may have changed a part.
        case restoring
        /// It can be served.
        case ready

        var isMigrating: Bool { self == .migrating || self == .migratingBackup }
        /// Whether `StoreRestoration` has to go on before a server starts.
        var isRestoring: Bool { self == .migratingBackup || self == .restoring }
    }

    static let fileName = "manifest.json"
    /// A store has no more databases: each costs a write-ahead log and some connections.
    static let shardsMax = 64
    private static let pathHash = "siphash-2-4-128"

    /// Of the tables in the shards.
    var format = StoreSchema.format.version
    /// A random name, which the databases have as well: shards of different stores cannot be mixed.
    var store = UUID().uuidString
    /// How many databases there are; never changes.
    var shards: Int
    /// How the shard of a file follows from its path.
    var pathHash = StoreManifest.pathHash
    var stage: Stage

    private enum CodingKeys: String, CodingKey {
        case format, store, shards, stage
        case pathHash = "path_hash"
    }

    init(shards: Int, stage: Stage) {
        self.shards = shards
        self.stage = stage
    }

    func shard(of path: VirtualPath) -> Int { Int(Checksum(startOf: path).low % UInt64(shards)) }

    // MARK: The file

    /// For those who have lost it: it says nothing that changes while the store is served.
    static let advice = "copy \(fileName) from any backup of this store"

    /// - Returns: nil if there is none.
    static func read(in directory: URL) throws(HistoryError) -> StoreManifest? {
        guard let content = try DataDirectory.content(of: fileName, in: directory) else { return nil }
        let newest = StoreSchema.format.version
        // All else can be different in a newer format.
        let format = try decode(FormatAlone.self, from: content).format
        guard format <= newest else {
            throw HistoryError(.storeUnusable, "the store has format \(format); this program reads up to \(newest)")
        }
        guard format != StoreSchema.developmentVersion else { throw HistoryError.ofDevelopmentVersion("the store") }
        let manifest = try decode(StoreManifest.self, from: content)
        guard format == newest || StoreSchema.upgradedFormats.contains(format), manifest.pathHash == pathHash,
            (1...shardsMax).contains(manifest.shards)
        else { throw HistoryError(.storeUnusable, "\(fileName) is damaged: \(advice)") }
        return manifest
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

    /// It is there entirely and durably, or as it was before.
    func write(in directory: URL) throws(HistoryError) {
        try DataDirectory.write(self, to: directory.appendingPathComponent(Self.fileName))
    }
}

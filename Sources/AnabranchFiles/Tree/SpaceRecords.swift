import AnabranchChunks
import AnabranchClient
import Foundation

/// A file as it is synchronized.
struct FileRecord: SyncedObject {
    static let className = SpaceClasses.file

    var id = UUID()
    var name = ""
    var parent: UUID?
    var moved = Date()
    var manifest = Data(Manifest.empty.bytes)
    /// Copies of facts in the manifest, for lists and queries.
    var size = 0
    var modified = Date()
    var mediaType: String?
    /// The content id that is deleted: the file is deleted as long as this is its content.
    var trashed: Data?

    enum CodingKeys: String, CodingKey {
        case id = "_id"
        case name, parent, moved, manifest, size, modified, mediaType, trashed
    }

    /// The content; empty if another program has written an invalid manifest.
    var content: Manifest { Manifest(Array(manifest)) ?? .empty }

    mutating func setContent(_ content: Manifest, modified date: Date) {
        manifest = Data(content.bytes)
        size = Int(content.size)
        modified = date
    }
}

/// A folder as it is synchronized.
struct FolderRecord: SyncedObject {
    static let className = SpaceClasses.folder

    var id = UUID()
    var name = ""
    var parent: UUID?
    var moved = Date()
    /// When it was deleted: it is, as long as nothing below it lives.
    var trashed: Date?

    enum CodingKeys: String, CodingKey {
        case id = "_id"
        case name, parent, moved, trashed
    }
}

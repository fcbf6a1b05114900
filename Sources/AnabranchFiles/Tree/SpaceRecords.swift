import AnabranchChunks
import AnabranchClient
import Foundation
import Synchronization

/// A file as it is synchronized.
struct FileRecord: SyncedObject {
    static let className = SpaceClasses.file

    var id: UUID
    var name: String
    var parent: UUID?
    var moved: Date
    var manifest: Data
    /// Copies of facts in the manifest, for lists and queries.
    var size: Int
    var modified: Date
    var mediaType: String?
    /// The content id that is deleted: the file is deleted as long as this is its content.
    var trashed: Data?

    enum CodingKeys: String, CodingKey {
        case id = "_id"
        case name, parent, moved, manifest, size, modified, mediaType, trashed
    }

    /// A new file, which is empty. Initial values at the properties would be made for each object that is read.
    init(
        id: UUID = SpaceKeys.next(), name: String, parent: UUID? = nil, moved: Date = Date(), modified: Date = Date()
    ) {
        (self.id, self.name, self.parent, self.moved, self.modified) = (id, name, parent, moved, modified)
        (manifest, size) = (Data(Manifest.empty.bytes), 0)
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

    var id: UUID
    var name: String
    var parent: UUID?
    var moved: Date
    /// When it was deleted: it is, as long as nothing below it lives.
    var trashed: Date?

    enum CodingKeys: String, CodingKey {
        case id = "_id"
        case name, parent, moved, trashed
    }

    /// A new folder.
    init(name: String, parent: UUID? = nil, moved: Date = Date()) {
        (id, self.name, self.parent, self.moved) = (SpaceKeys.next(), name, parent, moved)
    }
}

/// The keys of new files and folders.
private enum SpaceKeys {
    private static let keys = Mutex(ObjectKeys())

    static func next() -> UUID { UUID(keys.withLock { $0.next() }) }
}

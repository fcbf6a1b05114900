package import AnabranchChunks
package import AnabranchCore

/// A file or folder of a state, as far as the server has to understand it. Any client can write anything into it.
struct SpaceObject {
    let parent: UUIDBytes?
    let moved: Timestamp?
    /// The encoded manifest, which may be malformed; nil for a folder. It is decoded only where it is needed: one of
    /// 400 GB has 100,000 hashes.
    let content: [UInt8]?
    /// The content that the trash mark names; empty for a folder. Nil without a mark.
    let trashed: [UInt8]?
    let isFolder: Bool

    /// True for a file with the mark of its own content, and for a folder with any mark.
    var isMarked: Bool { trashed.map { isFolder || $0 == manifest?.id.bytes } ?? false }

    /// Nil for a folder, and if it is malformed.
    var manifest: Manifest? { content.flatMap { Manifest($0) } }

    var chunks: Set<ChunkHash> { Set(manifest?.chunks ?? []) }

    init(_ object: StateObject, _ schema: ClassSchema, isFolder: Bool) {
        func value(_ name: String) -> StateValue {
            schema.property(named: Array(name.utf8)).map { object.value(of: $0) } ?? .null
        }
        if case .uuid(let key) = value(SpaceClasses.parent) { parent = key } else { parent = nil }
        if case .timestamp(let time) = value(SpaceClasses.moved) { moved = time } else { moved = nil }
        if case .binary(let bytes) = value(SpaceClasses.manifest) { content = bytes } else { content = nil }
        switch value(SpaceClasses.trashed) {
        case .binary(let bytes) where !isFolder: trashed = bytes
        case .timestamp where isFolder: trashed = []
        default: trashed = nil
        }
        self.isFolder = isFolder
    }
}

extension ObjectGraph {
    /// True if it has the classes of a file space, or one of them.
    var hasFileSpace: Bool {
        [SpaceClasses.file, SpaceClasses.folder].contains { classID(of: Array($0.utf8)) != nil }
    }

    func spaceObject(_ name: SpaceObjectKey) throws(ApplyError) -> SpaceObject? {
        guard let schema = schema(ofClass: Array(name.className.utf8)),
            let object = try object(ObjectReference(classID: schema.number, key: .uuid(name.key)))
        else { return nil }
        return SpaceObject(object, schema, isFolder: name.isFolder)
    }

    func forEachSpaceObject(
        isFolder: Bool, _ body: (UUIDBytes, SpaceObject) throws(ApplyError) -> Void
    ) throws(ApplyError) {
        let name = isFolder ? SpaceClasses.folder : SpaceClasses.file
        guard let schema = schema(ofClass: Array(name.utf8)) else { return }
        try forEachObject(of: schema.number) { object throws(ApplyError) in
            guard case .uuid(let key)? = object.key else { return }
            try body(key, SpaceObject(object, schema, isFolder: isFolder))
        }
    }

    /// Calls `body` with the key and the content of each file.
    package func forEachContent(_ body: (UUIDBytes, Manifest) throws -> Void) throws {
        var found: [(UUIDBytes, Manifest)] = []
        try forEachSpaceObject(isFolder: false) { key, file in
            if let content = file.manifest { found.append((key, content)) }
        }
        for (key, content) in found { try body(key, content) }
    }
}

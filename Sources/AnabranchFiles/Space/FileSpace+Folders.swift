import AnabranchChunks
import AnabranchClient
public import Foundation

/// Names and places. All changes take effect at once, and reach the server when they can. They can throw `SpaceError`,
/// and errors of the store.
extension FileSpace {
    // MARK: Reading

    /// The files and folders in a folder, by name. While a client synchronizes the store, this waits for its first
    /// synchronization.
    public func list(_ path: SpacePath = .root) async throws -> [SpaceEntry] {
        if !store.completedFirstSync, store.isRunning { try await store.wait(for: .firstSync) }
        return try withTree { tree in
            let folder = try Self.folder(at: path, in: tree)
            return tree.list(folder).compactMap { Self.entry($0.key, path.child($0.name), in: tree) }
                .sorted { $0.displayName < $1.displayName }
        }
    }

    /// A file or folder.
    public func info(_ path: SpacePath) throws -> SpaceEntry {
        try withTree { tree in
            let key = try Self.key(at: path, in: tree)
            guard let entry = Self.entry(key, path, in: tree) else { throw Self.notFound(path) }
            return entry
        }
    }

    /// The file or folder with a key; nil if there is none, or it is deleted.
    public func entry(_ key: UUID) throws -> SpaceEntry? {
        try withTree { tree in
            guard tree.lives(key), let path = tree.path(of: key) else { return nil }
            return Self.entry(key, path, in: tree)
        }
    }

    /// Everything in the space, folders before what is in them.
    public func everything() throws -> [SpaceEntry] {
        try withTree { tree in
            var found: [SpaceEntry] = [], waiting: [(UUID?, SpacePath)] = [(nil, .root)]
            while let (folder, path) = waiting.popLast() {
                for (key, name) in tree.list(folder) {
                    guard let entry = Self.entry(key, path.child(name), in: tree) else { continue }
                    found.append(entry)
                    if entry.isFolder { waiting.append((key, entry.path)) }
                }
            }
            return found
        }
    }

    /// The living files and folders among some and those around them, and everything in folders that are not known,
    /// folders before what is in them.
    /// - Returns: the keys of all that were looked at as well.
    func entries(
        of keys: Set<UUID>, isKnown: (UUID) -> Bool
    ) throws -> (entries: [SpaceEntry], keys: Set<UUID>) {
        try withTree { tree in
            var all: Set<UUID> = []
            for key in keys {
                var next: UUID? = key
                while let key = next, all.insert(key).inserted { next = tree.folder(of: key) }
            }
            for key in all where tree.nodes[key]?.isFolder == true && !isKnown(key) {
                all.formUnion(tree.subtree(key))
            }
            let paths = tree.paths(of: all.filter(tree.lives))
            let entries = paths.compactMap { Self.entry($0.key, $0.value, in: tree) }
            return (entries.sorted { $0.path.components.count < $1.path.components.count }, all)
        }
    }

    /// The deleted files and folders, without what was deleted with these; the server erases them after some time.
    public func trash() throws -> [SpaceEntry] {
        try withTree { tree in
            tree.paths(of: tree.trash()).compactMap { Self.entry($0.key, $0.value, in: tree) }
                .sorted { ($0.path.description, $0.key.uuidString) < ($1.path.description, $1.key.uuidString) }
        }
    }

    static func entry(_ key: UUID, _ path: SpacePath, in tree: SpaceTree) -> SpaceEntry? {
        guard let node = tree.nodes[key] else { return nil }
        let content = tree.content(of: key)
        return SpaceEntry(
            path: path, key: key, isFolder: node.isFolder, size: content?.size ?? 0, modified: node.modified,
            contentID: content?.text)
    }

    static func notFound(_ path: SpacePath) -> SpaceError { SpaceError(.notFound, "there is no \(path)") }

    static func key(at path: SpacePath, in tree: SpaceTree) throws(SpaceError) -> UUID {
        guard let key = tree.find(path) else { throw notFound(path) }
        guard let key else { throw SpaceError(.notAllowed, "the root cannot be used like this") }
        return key
    }

    static func folder(at path: SpacePath, in tree: SpaceTree) throws(SpaceError) -> UUID? {
        guard let key = tree.find(path) else { throw notFound(path) }
        guard let key, tree.nodes[key]?.isFolder != true else { return key }
        throw SpaceError(.notFolder, "\(path) is not a folder")
    }

    /// The folder for something new with this path, and its name.
    private static func place(
        for path: SpacePath, in tree: SpaceTree
    ) throws(SpaceError) -> (folder: UUID?, name: String) {
        guard let above = path.parent else { throw SpaceError(.exists, "the root is there already") }
        let folder = try folder(at: above, in: tree)
        guard tree.find(path.name, in: folder) == nil else { throw SpaceError(.exists, "there is a \(path) already") }
        return (folder, path.name)
    }

    private static func checkDepth(of folder: SpacePath) throws(SpaceError) {
        guard folder.components.count <= SpaceTree.depthMax else {
            throw SpaceError(.notAllowed, "at most \(SpaceTree.depthMax) folders lie in each other")
        }
    }

    // MARK: Writing

    /// Makes a change after those that are under way, and tells observers.
    private func change<Value: Sendable>(_ body: @Sendable () async throws -> Value) async throws -> Value {
        try await turns.perform { [self] in
            let value = try await body()
            try refresh()
            return value
        }
    }

    /// Makes an empty file, and opens it. Other devices show it so until the server has a content that was written.
    public func create(_ path: SpacePath) async throws -> SpaceFile { try await create(path, with: .empty) }

    /// Makes a file with a content, and opens it. Other devices show no empty one before: see `FileIssue.Kind.awaited`.
    public func create(_ path: SpacePath, _ data: Data) async throws -> SpaceFile {
        try await create(path) { try $0.store(data) }
    }

    /// Makes a file with the content of one on the disk, and opens it; see `create`.
    /// - Parameter url: a file that nothing changes during the call.
    public func create(_ path: SpacePath, contentsOf url: URL) async throws -> SpaceFile {
        try await create(path) { try $0.store(contentsOf: url) }
    }

    /// Makes a file with a content that has no chunks, and opens it.
    func create(_ path: SpacePath, with content: Manifest) async throws -> SpaceFile {
        let key = try await change {
            let file = try self.newFile(at: path, with: content)
            try await self.store.write { try $0.insert(file) }
            return file.id
        }
        return try openFile(key, path)
    }

    /// The record of a file that is made.
    func newFile(at path: SpacePath, with content: Manifest) throws -> FileRecord {
        let now = settings.now(), (folder, name) = try withTree { try Self.place(for: path, in: $0) }
        var file = FileRecord(name: name, parent: folder, moved: now, modified: now)
        file.setContent(content, modified: now)
        return file
    }

    /// Makes an empty folder.
    public func createFolder(_ path: SpacePath) async throws {
        let now = settings.now()
        try await change {
            try Self.checkDepth(of: path)
            let (folder, name) = try self.withTree { try Self.place(for: path, in: $0) }
            try await self.store.write { try $0.insert(FolderRecord(name: name, parent: folder, moved: now)) }
        }
    }

    /// Deletes a file, or a folder with everything below it. It can be restored from the trash.
    public func delete(_ path: SpacePath) async throws {
        let now = settings.now()
        try await change {
            let marks = try self.withTree { tree in
                tree.subtree(try Self.key(at: path, in: tree)).filter(tree.lives).compactMap { key in
                    tree.nodes[key].map { (key, $0.isFolder ? nil : tree.content(of: key).map { Data($0.id.bytes) }) }
                }
            }
            try await self.store.write { tx in
                for (key, content) in marks {
                    if let content {
                        guard try tx.find(FileRecord.self, key) != nil else { continue }
                        try tx.edit(FileRecord.self, key) { $0.trashed = content }
                    } else if try tx.find(FolderRecord.self, key) != nil {
                        try tx.edit(FolderRecord.self, key) { $0.trashed = now }
                    }
                }
            }
        }
    }

    /// Moves or renames a file or folder. It keeps its key, its handle and its observers. Where another device has
    /// moved it as well, the later one counts.
    public func move(_ path: SpacePath, to target: SpacePath) async throws {
        let now = settings.now()
        try await change {
            let (key, isFolder, place) = try self.withTree { tree in
                let key = try Self.key(at: path, in: tree), isFolder = tree.nodes[key]?.isFolder == true
                guard let above = target.parent else { throw SpaceError(.exists, "the root is there already") }
                if isFolder { try Self.checkDepth(of: target) }
                let folder = try Self.folder(at: above, in: tree)
                if let other = tree.find(target.name, in: folder), other != key {
                    throw SpaceError(.exists, "there is a \(target) already")
                }
                var next = folder
                while let above = next {
                    guard above != key else {
                        throw SpaceError(.wouldLoop, "\(path) cannot be moved into itself")
                    }
                    next = tree.folder(of: above)
                }
                return (key, isFolder, (folder: folder, name: target.name))
            }
            try await self.store.write { tx in
                if isFolder {
                    try tx.edit(FolderRecord.self, key) { folder in
                        folder.name = place.name
                        if folder.parent != place.folder { (folder.parent, folder.moved) = (place.folder, now) }
                    }
                } else {
                    try tx.edit(FileRecord.self, key) { file in
                        file.name = place.name
                        if file.parent != place.folder { (file.parent, file.moved) = (place.folder, now) }
                    }
                }
            }
        }
    }

    /// Takes a file, or a folder with everything that was deleted below it, out of the trash. It returns to where it
    /// was, or where it was moved since.
    public func restore(_ entry: SpaceEntry) async throws {
        try await change {
            let marked = try self.withTree { tree in
                guard tree.nodes[entry.key] != nil else { throw Self.notFound(entry.path) }
                return tree.subtree(entry.key).compactMap { key in
                    tree.nodes[key].flatMap { $0.trashed != nil ? (key, $0.isFolder) : nil }
                }
            }
            try await self.store.write { tx in
                for (key, isFolder) in marked {
                    if isFolder {
                        try tx.edit(FolderRecord.self, key) { $0.trashed = nil }
                    } else {
                        try tx.edit(FileRecord.self, key) { $0.trashed = nil }
                    }
                }
            }
        }
    }
}

import AnabranchChunks
public import AnabranchClient
import AnabranchCore
import Foundation
import Synchronization

/// Files and folders that are there offline, and that all devices of a store share (`Spec/Files.md`).
///
///     let store = try await SyncedStore("files.store")
///     try await client.add(store, partition: "files")
///     let space = try await FileSpace(
///         store, folder: "files", service: FileService(server: url, app: "my-app", partition: "files"))
///     let note = try await space.create(SpacePath("/note.txt"))
///     try await note.write(string: "Water the plants")
///
/// Names and places are objects of the store, and come and go with it; contents are transferred by themselves, in the
/// background. All changes take effect here at once, and reach the server when it can be reached.
public final class FileSpace: Sendable {
    /// The space that an application uses everywhere, if it wants one.
    public static var shared: FileSpace? {
        get { sharedSpace.withLock { $0 } }
        set { sharedSpace.withLock { $0 = newValue } }
    }
    private static let sharedSpace = Mutex<FileSpace?>(nil)

    struct State {
        var tree = SpaceTree()
        var pending: [UUID: ContentCache.Pending] = [:]
        var handles: [UUID: WeakHandle] = [:]
        var pins: Set<UUID> = []
        /// The contents that the metadata name.
        var contents: [UUID: Manifest] = [:]
        /// The files and folders that have changed since the tree was updated; the next reading of the tree does that.
        var changed: Set<UUID> = []
    }

    struct WeakHandle {
        weak var file: SpaceFile?
    }

    /// The store with the names and places.
    public let store: SyncedStore
    /// The settings that the space was opened with.
    public let settings: SpaceSettings
    let cache: ContentCache
    let service: FileService?
    let disk = Disk()
    let turns = Turns()
    let hub = SpaceHub()
    let board: TransferBoard
    let downloads: Downloads
    let state = Mutex(State())
    private let news = SpaceNews()
    private let tasks = Mutex<[Task<Void, Never>]>([])
    /// How often in a row the upload of a file has failed.
    let attempts = Mutex<[UUID: Int]>([:])
    private let hasClosed = Mutex(false)
    var isClosed: Bool { hasClosed.withLock { $0 } }
    let uploadBell = Bell()
    /// The observations of owners that are not streams.
    let owners = OwnedTasks()

    /// Opens a space over a store.
    /// - Parameters:
    ///   - store: it is synchronized by partition, with a client of the caller's.
    ///   - folder: for the contents; made if it is missing. No two spaces may share it.
    ///   - service: where contents are kept; nil to work offline.
    /// - Throws: `SpaceError`; an error of the store.
    public init(
        _ store: SyncedStore, folder: String, service: FileService?, settings: SpaceSettings = SpaceSettings()
    ) async throws {
        self.store = store
        self.settings = settings
        self.service = service
        let bytesMax = settings.cacheBytesMax
        cache = try await disk.run { try ContentCache(folder: folder, bytesMax: bytesMax) }
        let hub = hub
        board = TransferBoard { hub.transferChanged($0) }
        downloads = Downloads(cache, service, board, disk)
        let pending = try cache.pending(), pins = try cache.pins()
        state.withLock { state in
            for row in pending { state.pending[row.file] = row }
            state.pins = Set(pins)
        }
        let news = news
        await store.replica.follow { news.add($0, isLocal: $1) }
        try await makeMissingFiles(of: pending)
        news.add(nil, isLocal: false)
        try refresh(tells: false)
        let newsBell = news.bell, uploadBell = uploadBell
        tasks.withLock { tasks in
            tasks = [
                Task { [weak self] in
                    while await newsBell.wait() {
                        guard let self else { return }
                        await self.followStore()
                    }
                },
                Task { [weak self] in
                    var delay: Duration?
                    while await uploadBell.wait(atMost: delay) {
                        guard let self else { return }
                        delay = await self.uploadAll()
                    }
                },
            ]
        }
        news.bell.ring()
        uploadBell.ring()
        try await lookForLostContents(cache.publishedFiles)
    }

    /// Ends all transfers and observations. What waits for upload goes on when the space is opened again. The store
    /// stays open.
    public func close() async throws {
        hasClosed.withLock { $0 = true }
        for task in tasks.withLock({ $0 }) { task.cancel() }
        news.bell.ring()
        uploadBell.ring()
        for task in tasks.withLock({ $0 }) { await task.value }
        await downloads.stop()
        for handle in state.withLock({ $0.handles.values.compactMap(\.file) }) { handle.close() }
        owners.end()
        hub.end()
        try cache.close()
    }

    deinit { for task in tasks.withLock({ $0 }) { task.cancel() } }

    // MARK: Keeping up with the store

    /// Takes over what has changed in the store, and tells observers.
    func refresh(tells: Bool = true) throws {
        if try takeOver(tells: tells), tells { hub.statusChanged(nil) }
    }

    /// - Returns: whether anything has changed.
    private func takeOver(tells: Bool) throws -> Bool {
        try state.withLock { state in
            let (noted, isAll) = news.take()
            guard isAll || !noted.isEmpty else { return false }
            var found: [UUID: (node: SpaceTree.Node, content: Manifest?)] = [:]
            do {
                try store.read { snapshot in
                    let files =
                        isAll
                        ? try snapshot.all(FileRecord.self)
                        : try snapshot.find(FileRecord.self, Array(noted.keys))
                    for file in files {
                        let content = file.content
                        found[file.id] = (.init(file, content), content)
                    }
                    let folders =
                        isAll
                        ? try snapshot.all(FolderRecord.self)
                        : try snapshot.find(FolderRecord.self, noted.keys.filter { found[$0] == nil })
                    for folder in folders where found[folder.id] == nil { found[folder.id] = (.init(folder), nil) }
                }
            } catch {
                // Nothing is forgotten.
                news.putBack(noted, isAll: isAll)
                throw error
            }
            let keys = isAll ? Array(Set(state.tree.nodes.keys).union(found.keys)) : Array(noted.keys)
            let isTold = tells && hub.isObserved
            let before = isTold ? Self.places(of: keys, in: state) : [:]
            var shown: Set<UUID>? = hub.isFollowed && !isAll && !state.tree.hasStrays ? [] : nil
            for key in keys {
                let here = found[key]
                shown?.formUnion(state.tree.alike(key))
                state.tree.set(here?.node, key)
                shown?.formUnion(state.tree.alike(key))
                state.contents[key] = here?.content
            }
            if isAll { for (key, row) in state.pending { state.tree.setWritten(.init(row.content), of: key) } }
            state.tree.findCuts()
            hub.tellFollowers(state.tree.hasStrays ? nil : shown)
            if isTold {
                hub.tell(before, Self.places(of: keys, in: state)) { noted[$0] ?? .remote }
            }
            if tells { state.changed.formUnion(keys) }
            return !keys.isEmpty
        }
    }

    /// Where something is, and what is in it.
    struct Place: Equatable {
        let path: SpacePath
        let content: SpaceTree.ContentNote?
    }

    static func places(of keys: [UUID], in state: State) -> [UUID: Place] {
        let paths = state.tree.paths(of: keys.filter(state.tree.lives))
        return Dictionary(
            uniqueKeysWithValues: paths.map { ($0, Place(path: $1, content: state.tree.content(of: $0))) })
    }

    /// Takes over changes of the store, and does what they ask for.
    private func followStore() async {
        var changed: [UUID] = []
        do {
            try refresh()
            changed = state.withLock { state in
                defer { state.changed = [] }
                return Array(state.changed)
            }
            try await lookForLostContents(changed)
            fetchWanted(among: changed)
            await endNeedlessDownloads()
        } catch {
            // It is tried again with the next change.
            state.withLock { $0.changed.formUnion(changed) }
        }
    }

    /// The tree as it is now.
    func withTree<Value>(_ body: (SpaceTree) throws -> Value) throws -> Value {
        try refresh()
        return try state.withLock { try body($0.tree) }
    }
}

extension SpaceTree.ContentNote {
    init(_ content: Manifest) { self.init(id: content.id, size: content.size) }
}

extension SpaceTree.Node {
    init(_ file: FileRecord, _ content: Manifest) {
        self.init(
            key: file.id, isFolder: false, name: SpaceTree.shown(file.name), parent: file.parent, moved: file.moved,
            content: SpaceTree.ContentNote(content), trashed: file.trashed.map { Array($0) },
            modified: file.modified)
    }

    init(_ folder: FolderRecord) {
        self.init(
            key: folder.id, isFolder: true, name: SpaceTree.shown(folder.name), parent: folder.parent,
            moved: folder.moved, content: nil, trashed: folder.trashed.map { _ in [] }, modified: nil)
    }
}

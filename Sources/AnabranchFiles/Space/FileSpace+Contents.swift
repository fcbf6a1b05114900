import AnabranchChunks
public import AnabranchClient
package import Foundation
import Synchronization

extension FileSpace {
    // MARK: Handles

    /// Opens a file at the version that it has.
    /// - Throws: `SpaceError` with the code `alreadyOpen` if there is an open handle of it.
    public func open(_ path: SpacePath) throws -> SpaceFile {
        let key = try withTree { tree in
            let key = try Self.key(at: path, in: tree)
            guard tree.nodes[key]?.isFolder == false else { throw SpaceError(.isFolder, "\(path) is a folder") }
            return key
        }
        return try openFile(key, path)
    }

    func openFile(_ key: UUID, _ path: SpacePath) throws -> SpaceFile {
        guard let content = newestContent(of: key) else { throw Self.notFound(path) }
        let file = SpaceFile(key, content, at: path, in: self)
        try state.withLock { state in
            guard state.handles[key]?.file == nil else {
                throw SpaceError(.alreadyOpen, "\(path) is open already")
            }
            state.handles[key] = WeakHandle(file: file)
        }
        if wantsNewer(of: key) { fetch(content, of: key) }
        return file
    }

    func closed(_ file: SpaceFile) {
        state.withLock { state in
            if state.handles[file.key]?.file === file { state.handles[file.key] = nil }
        }
    }

    func released(_ key: UUID) {
        state.withLock { state in
            if state.handles[key]?.file == nil { state.handles[key] = nil }
        }
    }

    /// The content that was written here, or that the file has.
    func newestContent(of key: UUID) -> Manifest? {
        _ = try? refresh()
        return knownContent(of: key)
    }

    /// The same, as far as the space has looked at the store.
    func knownContent(of key: UUID) -> Manifest? {
        state.withLock { $0.pending[key]?.content ?? $0.contents[key] }
    }

    // MARK: Status

    /// How a file stands, at the version that it has.
    /// - Throws: `SpaceError`; an error of the store.
    public func status(of path: SpacePath) async throws -> FileStatus {
        let key = try withTree { try Self.key(at: path, in: $0) }
        guard let content = newestContent(of: key) else { throw SpaceError(.isFolder, "\(path) is a folder") }
        let isPending = try await store.status(of: FileRecord.self, key).isPending
        return status(of: content, key, isRecordPending: isPending)
    }

    func status(of content: Manifest, _ key: UUID, isRecordPending: Bool) -> FileStatus {
        var status = FileStatus()
        let isWaiting = state.withLock { $0.pending[key]?.content.id == content.id }
        status.isCached = isWaiting || (try? cache.has(content)) ?? false
        status.isPending = isWaiting || isRecordPending
        status.progress = FileProgress(
            transferred: status.isCached ? content.size : 0, total: content == .awaited ? -1 : content.size)
        if isWaiting {
            let transfer = board.transfer(.upload(key))
            status.issue = transfer?.issue
            status.state = transfer?.issue == nil ? .uploading : .idle
            status.progress = transfer?.progress ?? FileProgress(transferred: 0, total: content.size)
        } else if content == .awaited {
            // It may have come since the handle was opened.
            if knownContent(of: key) == content { status.issue = .awaited }
        } else if !status.isCached, let transfer = board.transfer(.download(content.id)) {
            status.issue = transfer.issue
            status.state = transfer.isMoving ? .downloading : .idle
            status.progress = transfer.progress
        } else if isRecordPending, store.status.isUploading {
            status.state = .uploading
        }
        if status.issue != nil, status.issue?.path == nil {
            status.issue?.path = state.withLock { $0.tree.path(of: key) }
        }
        return status
    }

    /// How the space stands.
    public struct Status: Equatable, Sendable {
        /// The names and places.
        public let store: StoreStatus
        /// The contents that are being uploaded now, and downloaded.
        public let uploads: Int
        /// The contents that are being downloaded now.
        public let downloads: Int
        /// The files whose contents wait for upload.
        public let pendingFiles: Int
        /// The bytes that the transfers under way have transferred.
        public let transferred: Int64
        /// The bytes that they have to transfer.
        public let total: Int64
        /// The issues that keep contents from being transferred.
        public let issues: [FileIssue]

        /// True if nothing has to be transferred any more.
        public var isIdle: Bool {
            uploads == 0 && downloads == 0 && pendingFiles == 0 && store.pendingTransactions == 0
        }
    }

    /// How the space stands now.
    public var status: Status {
        let moving = board.moving
        return Status(
            store: store.status, uploads: moving.up, downloads: moving.down,
            pendingFiles: state.withLock { $0.pending.count }, transferred: moving.progress.transferred,
            total: moving.progress.total, issues: board.issues)
    }

    /// `status`, at once and whenever it changes, until the space is closed. A slow observer gets only the newest.
    public var statusUpdates: AsyncStream<Status> {
        let (stream, continuation) = AsyncStream.makeStream(of: Status.self, bufferingPolicy: .bufferingNewest(1))
        let number = hub.addStatusObserver(
            { [weak self] _ in
                guard let self else { return continuation.finish() }
                continuation.yield(status)
            }, end: { continuation.finish() })
        let stores = store.statusUpdates
        let task = Task { [hub] in for await _ in stores { hub.statusChanged(nil) } }
        continuation.onTermination = { [hub] _ in
            hub.remove(number)
            task.cancel()
        }
        continuation.yield(status)
        return stream
    }

    /// Waits until the server has everything that was written here, contents and names.
    /// - Throws: `FileIssue` if something cannot be uploaded although the server can be reached, and is not tried
    ///   again by itself with any hope: a quota, a right that is missing; `SyncError` if no client synchronizes the
    ///   store; `SpaceError` with the code `closed` if the space is closed; `CancellationError`.
    public func waitForUpload() async throws {
        var isUploaded = false
        for await status in statusUpdates {
            let hopeless: Set<FileIssue.Kind> = [
                .quotaExceeded, .forbidden, .unauthorized, .storageFailed, .storageFull, .damaged,
                .noFileSpace,
            ]
            // The issue of a content goes after it has stopped waiting.
            isUploaded = status.pendingFiles == 0
            if isUploaded { break }
            if let issue = board.uploadIssues.first(where: { hopeless.contains($0.kind) }) { throw issue }
        }
        try Task.checkCancellation()
        guard isUploaded else { throw SpaceError(.closed, "the space is closed") }
        try await store.wait(for: .upload)
    }

    /// How many chunks were read and written on this device for copies.
    package var localChunks: UInt64 { board.localChunks.withLock { $0 } }

    // MARK: Cache

    /// Keeps the content of a file on the device, and each newer one, until it is unpinned.
    public func setPinned(_ path: SpacePath, _ isPinned: Bool) async throws {
        let key = try withTree { try Self.key(at: path, in: $0) }, cache = cache
        try await disk.run { try cache.setPin(key, isPinned) }
        state.withLock { state in
            if isPinned { state.pins.insert(key) } else { state.pins.remove(key) }
        }
        if isPinned, let content = newestContent(of: key) { fetch(content, of: key) }
    }

    /// True if the content of a file is kept on the device.
    public func isPinned(_ path: SpacePath) throws -> Bool {
        let key = try withTree { try Self.key(at: path, in: $0) }
        return state.withLock { $0.pins.contains(key) }
    }

    /// Records that a content was used, and makes room.
    func touch(_ content: Manifest) async throws {
        let held = held, cache = cache
        try await disk.run {
            try cache.touch(content.chunks)
            try cache.evict(except: held)
        }
    }

    /// The contents that may not go.
    private var held: [Manifest] {
        state.withLock { state in
            let shown = state.handles.values.compactMap { $0.file?.shownContent }
            return shown + state.pins.compactMap { state.contents[$0] }
        }
    }

    // MARK: Newer contents

    /// True if contents of the file are kept on the device as they come.
    /// - Parameter isOpened: true if it is about to be opened.
    func wantsNewer(of key: UUID, isOpened: Bool = false) -> Bool {
        let (isPinned, isOpen) = state.withLock { state in
            (state.pins.contains(key), isOpened || state.handles[key]?.file != nil)
        }
        return switch settings.policy {
        case .always: true
        case .onOpen: isPinned || isOpen
        case .when(let holds): (isPinned || isOpen) && holds()
        case .manual: isPinned
        }
    }

    func fetchWanted(among keys: [UUID]) {
        for key in keys where wantsNewer(of: key) {
            guard let content = state.withLock({ $0.contents[key] }) else { continue }
            fetch(content, of: key)
        }
    }

    /// Brings a content that is about to be copied: then the copy has nothing to wait for.
    /// - Parameter old: a file that may have some of its chunks.
    func prepare(_ content: Manifest, of key: UUID, reusing old: String?) async throws {
        guard !wantsNewer(of: key, isOpened: true) else { return try await downloads.fetch(content) }
        let handle = try await downloads.bring(content, to: nil, reusing: old), drafts = cache.drafts
        try await disk.run { try ContentCache.flush(handle, drafts) }
    }

    /// Takes back issues of contents that no file has any more, and no handle shows, and what has come of them.
    func endNeedlessDownloads() async {
        let stopped = board.stoppedDownloads
        guard !stopped.isEmpty else { return }
        let needed = state.withLock { state in
            Set(state.contents.values.map(\.id) + state.handles.values.compactMap { $0.file?.shownContent.id })
        }
        for content in stopped where !needed.contains(content) {
            await downloads.giveUpDraft(of: content)
            board.end(.download(content))
        }
    }

    /// Brings the content of a file in the background, for as often as it takes.
    private func fetch(_ content: Manifest, of key: UUID) {
        guard service != nil else { return }
        let downloads = downloads
        Task { [weak self] in
            var seconds = 1.0
            while true {
                do {
                    try await downloads.fetch(content)
                    try await self?.touch(content)
                    return
                } catch let error as SpaceError where error.code == .unavailable {
                    try? await Task.sleep(for: .seconds(seconds))
                    seconds = min(60, seconds * 2)
                    guard let self, self.isContent(content, of: key) else { return }
                } catch {
                    return
                }
            }
        }
    }

    private func isContent(_ content: Manifest, of key: UUID) -> Bool {
        state.withLock { $0.contents[key]?.id == content.id } && !isClosed
    }

    // MARK: Writing

    /// Makes what `store` returns the content of a file.
    /// - Parameter isSeen: true if the user has the content that it replaces, whether the cache has it or not.
    func write(
        _ file: SpaceFile, isSeen: Bool = false, _ store: @escaping @Sendable (ContentCache) throws -> Manifest
    ) async throws {
        let cache = cache, key = file.key, shown = try file.content()
        guard try await disk.run({ try isSeen || cache.has(shown) }) else {
            throw SpaceError(.notCached, "the content of \(file.path) is not on this device")
        }
        // Nobody waits for it.
        let stored = try await disk.run { try store(cache) }
        defer { cache.release(stored.chunks) }
        try await turns.perform { [self] in
            let shown = try file.content()
            let (waiting, published) = state.withLock { ($0.pending[key], $0.contents[key]) }
            // The content that waits may be published, if the process ended before that was written down.
            let isShownPublished = waiting?.content.id != shown.id || published?.id == shown.id
            // Nobody else knows a content that was not: of many, none would be left that somebody does.
            let former = shown.ancestors.filter { !Manifest.awaited.ancestors.contains($0) }
            let ancestors = isShownPublished ? [shown.id] + former : former
            guard stored.chunks != shown.chunks || shown == .awaited,
                let content = Manifest(size: stored.size, chunks: stored.chunks, ancestors: ancestors)
            else { return }
            guard let node = try withTree({ $0.nodes[key] }) else { throw Self.notFound(file.path) }
            let row = ContentCache.Pending(
                file: key, content: content,
                base: isShownPublished ? shown.id : waiting?.base, name: node.name,
                parent: node.parent, modified: settings.now(), isCopy: waiting?.isCopy ?? false)
            try await disk.run { try cache.add(row) }
            setWaiting(row, key, origin: .local)
            file.state.withLock { $0.content = content }
            board.begin(.upload(key), of: content.id, transferred: 0, total: content.size)
        }
        uploadBell.ring()
    }

    /// Makes a file of the disk, or the standard input, the content of a file of the space, which is made if it is
    /// missing.
    /// - Parameters:
    ///   - source: nil for the standard input.
    ///   - isSeen: true if a content that is not on this device may be replaced.
    package func put(_ source: URL?, at path: SpacePath, isSeen: Bool) async throws {
        let store: @Sendable (ContentCache) throws -> Manifest = { cache in
            guard let source else { return try cache.store(from: STDIN_FILENO) }
            return try cache.store(contentsOf: source)
        }
        guard (try? info(path)) != nil else { return try await create(path, store).close() }
        let file = try open(path)
        defer { file.close() }
        try await write(file, isSeen: isSeen, store)
    }

    /// Makes a file with the content that `store` returns, and opens it. Nothing is made if that cannot be kept.
    func create(
        _ path: SpacePath, _ store: @escaping @Sendable (ContentCache) throws -> Manifest
    ) async throws -> SpaceFile {
        let cache = cache, stored = try await disk.run { try store(cache) }, base = Manifest.awaited.id
        defer { cache.release(stored.chunks) }
        guard !stored.chunks.isEmpty,
            let content = Manifest(size: stored.size, chunks: stored.chunks, ancestors: [base])
        else { return try await create(path, with: .empty) }
        let key = try await turns.perform { [self] in
            let file = try newFile(at: path, with: .awaited)
            let row = ContentCache.Pending(
                file: file.id, content: content, base: base, name: file.name, parent: file.parent,
                modified: file.modified, isCopy: false)
            // First the content, which may find no room: other devices would show a file for which none comes.
            try await disk.run { try cache.add(row) }
            do { try await self.store.write { try $0.insert(file) } } catch {
                try? await disk.run { try cache.finish(row, isPublished: false) }
                throw error
            }
            setWaiting(row, file.id, origin: .local)
            board.begin(.upload(file.id), of: content.id, transferred: 0, total: content.size)
            try refresh()
            return file.id
        }
        uploadBell.ring()
        return try openFile(key, path)
    }

    /// Makes the files of new contents that have none, since the process ended in between.
    func makeMissingFiles(of rows: [ContentCache.Pending]) async throws {
        let new = rows.filter { $0.base == Manifest.awaited.id }
        guard !new.isEmpty else { return }
        try await store.write { tx in
            for row in new where try tx.find(FileRecord.self, row.file) == nil {
                var file = FileRecord(id: row.file, name: row.name, parent: row.parent, moved: row.modified)
                file.setContent(.awaited, modified: row.modified)
                try tx.insert(file)
            }
        }
    }

    /// Changes what is seen of a file, and tells observers.
    func setWaiting(_ row: ContentCache.Pending?, _ key: UUID, origin: SpaceChange.Origin) {
        state.withLock { state in
            let before = Self.places(of: [key], in: state)
            state.pending[key] = row
            state.tree.setWritten(row.map { SpaceTree.ContentNote($0.content) }, of: key)
            hub.tellFollowers(state.tree.hasStrays ? nil : state.tree.alike(key))
            hub.tell(before, Self.places(of: [key], in: state)) { _ in origin }
        }
        hub.statusChanged(.upload(key))
    }
}

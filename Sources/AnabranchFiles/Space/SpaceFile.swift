import AnabranchChunks
import AnabranchClient
public import Foundation
import Synchronization

/// An open file at one version: what it shows stays as it is until `update`, or until it is written (`Spec/Files.md`,
/// section 7). One handle of a file can be open at a time; it closes when it is released.
public final class SpaceFile: Sendable {
    struct State {
        var content: Manifest
        var isOpen = true
        /// True if the server has not acknowledged the names and places of the file.
        var isRecordPending = false
    }

    /// The key, which stays through renaming and moving.
    public let key: UUID
    let space: FileSpace
    let state: Mutex<State>
    private let following = Mutex<Task<Void, Never>?>(nil)
    /// The last known path.
    private let lastPath: Mutex<SpacePath>

    init(_ key: UUID, _ content: Manifest, at path: SpacePath, in space: FileSpace) {
        self.key = key
        self.space = space
        state = Mutex(State(content: content))
        lastPath = Mutex(path)
        let statuses = try? space.store.statusUpdates(of: FileRecord.self, key)
        following.withLock { task in
            task = Task { [weak self] in
                guard let statuses else { return }
                for await status in statuses {
                    guard let self else { return }
                    let isNews = self.state.withLock { state in
                        defer { state.isRecordPending = status.isPending }
                        return state.isRecordPending != status.isPending
                    }
                    if isNews { self.space.hub.statusChanged(.upload(key)) }
                }
            }
        }
    }

    deinit {
        following.withLock { $0?.cancel() }
        space.released(key)
    }

    /// Where the file is shown now: it follows moves. Where it was, if it is deleted.
    public var path: SpacePath {
        guard let path = try? space.withTree({ $0.path(of: key) }) else { return lastPath.withLock { $0 } }
        lastPath.withLock { $0 = path }
        return path
    }

    /// False when it was closed.
    public var isOpen: Bool { state.withLock { $0.isOpen } }

    /// The size of the version that it shows, in bytes.
    public var size: Int64 { state.withLock { $0.content.size } }

    /// The content that it shows, or has shown.
    var shownContent: Manifest { state.withLock { $0.content } }

    /// Ends the use of the file. Another call throws `SpaceError` with the code `closed`.
    public func close() {
        state.withLock { $0.isOpen = false }
        following.withLock { $0?.cancel() }
        space.closed(self)
    }

    /// The content that it shows.
    func content() throws(SpaceError) -> Manifest {
        let state = state.withLock { $0 }
        guard state.isOpen else { throw SpaceError(.closed, "the handle of \(path) is closed") }
        return state.content
    }

    /// The content that it shows, if that can be read.
    /// - Throws: `SpaceError` with the code `unavailable` if none has arrived at the server yet.
    func arrivedContent() throws(SpaceError) -> Manifest {
        let content = try content()
        guard content != .awaited else {
            throw SpaceError(.unavailable, "\(path): \(FileIssue.awaited.reason)")
        }
        return content
    }

    // MARK: Status

    /// How the version stands that it shows.
    public var status: FileStatus {
        let (content, isPending) = state.withLock { ($0.content, $0.isRecordPending) }
        return space.status(of: content, key, isRecordPending: isPending)
    }

    /// How the version stands that the file has now, which may not be here yet; nil if it is the one that is shown.
    public var newerStatus: FileStatus? {
        _ = try? space.refresh()
        return knownNewerStatus
    }

    private var knownNewerStatus: FileStatus? {
        let shown = state.withLock { $0.content }
        guard let newer = space.knownContent(of: key), newer.id != shown.id else { return nil }
        return space.status(of: newer, key, isRecordPending: false)
    }

    /// `status`, at once and each time that it changes. A slow observer gets only the newest.
    public var statusUpdates: AsyncStream<FileStatus> { updates { $0.status } }

    /// `newerStatus`, at once and each time that it changes. A slow observer gets only the newest.
    public var newerStatusUpdates: AsyncStream<FileStatus?> { updates { $0.knownNewerStatus } }

    private func updates<Value: Equatable & Sendable>(
        _ value: @escaping @Sendable (SpaceFile) -> Value
    ) -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .bufferingNewest(1))
        let last = Mutex<Value?>(nil), key = key
        let tell: @Sendable () -> Void = { [weak self] in
            guard let self else { return continuation.finish() }
            // In order, and each once.
            last.withLock { last in
                let now = value(self)
                guard last != .some(now) else { return }
                last = now
                continuation.yield(now)
            }
        }
        let number = space.hub.addStatusObserver(
            { way in
                if case .upload(let other)? = way, other != key { return }
                tell()
            }, end: { continuation.finish() })
        continuation.onTermination = { [hub = space.hub] _ in hub.remove(number) }
        tell()
        return stream
    }

    // MARK: Reading

    /// The whole content. It waits until missing chunks are downloaded.
    /// - Throws: `SpaceError` with the code `unavailable` if the server cannot be reached, or has no content of a new
    ///   file yet; `CancellationError`, which ends the waiting and not the download.
    public func read() async throws -> Data { try await bytes(in: 0..<(try content().size)) }

    /// The whole content as a text.
    /// - Throws: `SpaceError` with the code `notText` if it is not in UTF-8; see `read`.
    public func readString() async throws -> String {
        guard let text = String(validating: try await read(), as: UTF8.self) else {
            throw SpaceError(.notText, "\(path) is not text in UTF-8")
        }
        return text
    }

    /// Some of the content; what is not here is brought, and nothing else.
    /// - Parameter range: what is after the end of the content does not count.
    /// - Throws: see `read`.
    public func bytes(in range: Range<Int64>) async throws -> Data {
        let content = try arrivedContent(), range = range.clamped(to: 0..<content.size)
        if range == 0..<content.size { try await space.downloads.fetch(content) }
        var data = Data(capacity: range.count), place = range.lowerBound
        while place < range.upperBound {
            let index = Int(place / Int64(Manifest.chunkBytes)), start = Int64(index) * Int64(Manifest.chunkBytes)
            let chunk = try await space.downloads.fetch(content.chunks[index])
            let end = min(range.upperBound - start, Int64(chunk.count))
            guard end > place - start else {
                throw SpaceError(.damaged, "a part of \(path) has another size than its manifest says")
            }
            data += chunk[Int(place - start)..<Int(end)]
            place = start + end
        }
        try await space.touch(content)
        return data
    }

    /// Brings the content to this device, unless it is here.
    /// - Throws: see `read`.
    public func fetch() async throws { try await space.downloads.fetch(try arrivedContent()) }

    /// Copies the content into a file, part by part. The file is there when all of it is.
    ///
    /// A content that the settings of the space do not keep on the device comes straight into the file, and not into
    /// the cache. Chunks that the file had before are not transferred again, nor those that came before a failure.
    /// - Throws: see `read`; `CancellationError`, which ends the download of what comes straight into the file.
    public func copy(to url: URL) async throws {
        if FolderScan.look(url.path)?.isFolder == true { throw SpaceError(.isFolder, "\(url.path) is a folder") }
        // Its name is short, whatever that of the file is.
        let draft = url.deletingLastPathComponent().appendingPathComponent(".\(UUID().uuidString).part").path
        defer { unlink(draft) }
        let handle = try await write(try arrivedContent(), to: draft, reusing: url.path)
        // Otherwise a failure of the power could leave a part of it in the place of what was there.
        try await space.disk.run { try ContentCache.flush(handle, draft) }
        guard rename(draft, url.path) == 0 else { throw ContentCache.lastError(url.path) }
    }

    /// An open file with the content, for reading. It has no name, and goes when it is closed.
    /// - Throws: see `read`.
    public func readHandle() async throws -> FileHandle {
        let draft = "\(space.cache.drafts)/\(UUID().uuidString)"
        let handle = try await write(try arrivedContent(), to: draft)
        defer { unlink(draft) }
        try handle.seek(toOffset: 0)
        return handle
    }

    /// Writes a content, part by part, into a file that is not there yet.
    /// - Parameter old: a file that may have some of its chunks.
    func write(
        _ content: Manifest, to path: String, mode: mode_t = 0o600, reusing old: String? = nil
    ) async throws -> FileHandle {
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw ContentCache.lastError(path) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard space.wantsNewer(of: key) else {
            do { return try await space.downloads.bring(content, to: path, reusing: old) } catch {
                unlink(path)
                throw error
            }
        }
        // One chunk comes while the one before it is written.
        let fetching = Task { try await space.downloads.fetch(content) }
        do {
            for chunk in content.chunks {
                if chunk == ContentDraft.zeros {
                    try handle.truncate(atOffset: handle.offset() + UInt64(Manifest.chunkBytes))
                } else {
                    try await space.downloads.append(chunk, to: handle)
                }
            }
            try await fetching.value
        } catch {
            // It says in the status why.
            if !Task.isCancelled { _ = await fetching.result }
            unlink(path)
            throw error
        }
        try await space.touch(content)
        return handle
    }

    // MARK: Writing

    /// Writes a new version, on the base of the one that is shown. It is durable here when this returns, and goes to
    /// the server in the background.
    /// - Throws: `SpaceError` with the code `notCached` if the version that is shown is not here.
    public func write(_ data: Data) async throws {
        try await space.write(self) { try $0.store(data) }
    }

    /// Writes a text; see `write`.
    public func write(string: String) async throws { try await write(Data(string.utf8)) }

    /// Writes the content of a file, part by part; see `write`.
    /// - Parameters:
    ///   - url: a file that nothing changes during the call.
    ///   - moving: true to take the file over: it is removed when its content is durable here.
    public func write(contentsOf url: URL, moving: Bool = false) async throws {
        try await space.write(self) { try $0.store(contentsOf: url) }
        if moving, unlink(url.path) != 0 { throw ContentCache.lastError(url.path) }
    }

    /// Goes to the version that the file has now.
    /// - Returns: false if that is the one that is shown.
    /// - Throws: `SpaceError` with the code `notCached` if it is not here.
    @discardableResult
    public func update() throws -> Bool {
        let shown = try content()
        guard let newer = space.newestContent(of: key), newer.id != shown.id else { return false }
        guard try space.cache.has(newer) else {
            throw SpaceError(.notCached, "the newer version of \(path) is not on this device yet")
        }
        state.withLock { $0.content = newer }
        space.hub.statusChanged(.upload(key))
        return true
    }
}

import AnabranchChunks
import AnabranchClient
import Foundation

/// Brings contents from the server, each once however many want it.
actor Downloads {
    /// How many chunks of a content are on their way at once.
    static let parallelMax = 2
    /// How many have come, and are being flushed to the disk, while those are on their way.
    static let flushedMax = 1

    let cache: ContentCache
    private let service: FileService?
    let board: TransferBoard
    let disk: Disk
    private var running: [ChunkHash: Task<Void, any Error>] = [:]
    /// The chunks that are on their way.
    private var coming: [ChunkHash: Task<[UInt8], any Error>] = [:]
    /// The contents that come past the cache, each for one copy at a time.
    var bringing: [ChunkHash: Task<FileHandle, any Error>] = [:]
    /// The chunks that have come into the draft of a content.
    var drafted: [ChunkHash: Set<ChunkHash>] = [:]
    private var hasStopped = false
    /// Chunks that have just come, and were checked then.
    private var arrived: Set<ChunkHash> = []
    /// How many of them are remembered.
    private static let arrivedMax = 10_000

    init(_ cache: ContentCache, _ service: FileService?, _ board: TransferBoard, _ disk: Disk) {
        self.cache = cache
        self.service = service
        self.board = board
        self.disk = disk
    }

    /// Brings a content, unless it is here.
    /// - Throws: `SpaceError`; `CancellationError` if this task is cancelled: the download goes on.
    func fetch(_ content: Manifest) async throws {
        if try await disk.run({ [cache] in try cache.missing(of: content).isEmpty }) {
            board.end(.download(content.id))
            return
        }
        let task =
            running[content.id]
            ?? Task {
                defer { running[content.id] = nil }
                try await download(content)
            }
        running[content.id] = task
        try await task.valueUnlessCancelled
    }

    /// Downloads one chunk, unless it is here. A chunk that the disk has damaged does not count as here.
    func fetch(_ chunk: ChunkHash) async throws -> [UInt8] {
        if coming[chunk] == nil, let bytes = try await stored(chunk) { return bytes }
        do {
            return try await download(chunk)
        } catch let issue as FileIssue {
            throw Self.error(issue)
        }
    }

    /// Appends one chunk to an open file, and brings it if it is not here. One that has just come is not read, hashed
    /// and written again: the system copies it.
    func append(_ chunk: ChunkHash, to handle: FileHandle) async throws {
        if arrived.remove(chunk) != nil,
            try await disk.run({ [cache] in try cache.append(chunk, to: handle.fileDescriptor) })
        {
            return
        }
        let bytes = try await fetch(chunk)
        try await disk.run { try handle.write(contentsOf: bytes) }
    }

    func stored(_ chunk: ChunkHash) async throws -> [UInt8]? {
        let cache = cache
        return try await disk.run {
            guard let bytes = try cache.chunk(chunk) else { return nil }
            if ChunkHash(of: bytes) == chunk { return bytes }
            try cache.remove(chunk)
            return nil
        }
    }

    /// Ends all downloads, and lets no other one begin.
    func stop() {
        hasStopped = true
        for task in running.values { task.cancel() }
        for task in coming.values { task.cancel() }
        for task in bringing.values { task.cancel() }
        (running, coming) = ([:], [:])
    }

    private func download(_ content: Manifest) async throws {
        let way = TransferBoard.Way.download(content.id), cache = cache, turns = Turns(atOnce: Self.parallelMax)
        try await reporting(content) {
            let missing = try await disk.run { try cache.missing(of: content) }, wanted = Set(missing)
            var counts: [ChunkHash: Int] = [:]
            for (index, chunk) in content.chunks.enumerated() where wanted.contains(chunk) {
                counts[chunk, default: 0] += content.byteCount(ofChunk: index)
            }
            board.begin(
                way, of: content.id, transferred: content.size - counts.values.reduce(0) { $0 + Int64($1) },
                total: content.size)
            try await withThrowingTaskGroup(of: Int.self) { group in
                var waiting = missing[...]
                func addNext() {
                    guard let chunk = waiting.popFirst() else { return }
                    let count = counts[chunk] ?? 0
                    group.addTask {
                        // A reader of the content may have downloaded it.
                        let isHere = try await self.disk.run { [cache] in try cache.has(chunk) }
                        if !isHere { _ = try await self.download(chunk, turns) }
                        return count
                    }
                }
                for _ in 0..<Self.parallelMax + Self.flushedMax { addNext() }
                while let count = try await group.next() {
                    board.advance(way, of: content.id, by: count)
                    addNext()
                }
            }
        }
    }

    /// Downloads a content, and says on the board how that ends.
    func reporting<Value>(_ content: Manifest, _ body: () async throws -> Value) async throws -> Value {
        let way = TransferBoard.Way.download(content.id)
        do {
            let value = try await body()
            board.end(way)
            return value
        } catch let issue as FileIssue {
            board.stop(way, of: content.id, because: issue)
            throw Self.error(issue)
        } catch let error as SpaceError {
            board.stop(way, of: content.id, because: FileIssue(error))
            throw error
        } catch {
            board.end(way)
            throw error
        }
    }

    /// - Parameter turns: those of the content that it comes for; no other one's transfer holds it up.
    private func download(_ chunk: ChunkHash, _ turns: Turns = Turns()) async throws -> [UInt8] {
        if let task = coming[chunk] { return try await task.valueUnlessCancelled }
        let task = Task { [cache, disk] in
            defer { coming[chunk] = nil }
            let bytes = try await get(chunk, turns)
            try await disk.run { try cache.put(chunk, bytes) }
            if arrived.count >= Self.arrivedMax { arrived = [] }
            arrived.insert(chunk)
            return bytes
        }
        coming[chunk] = task
        return try await task.valueUnlessCancelled
    }

    /// The bytes of a chunk from the server; from the cache's download, if it is on its way there.
    func bytes(of chunk: ChunkHash, in buffers: ChunkBuffers, _ turns: Turns) async throws -> [UInt8] {
        if let task = coming[chunk] { return try await task.valueUnlessCancelled }
        return try await get(chunk, in: buffers, turns)
    }

    private func get(
        _ chunk: ChunkHash, in buffers: ChunkBuffers = ChunkBuffers(), _ turns: Turns
    ) async throws -> [UInt8] {
        guard let service else { throw FileIssue(.offline, "there is no server", isRetrying: false) }
        guard !hasStopped else { throw SpaceError(.closed, "the space is closed") }
        return try await turns.perform { [disk] in try await service.get(chunk, in: buffers, hashingOn: disk) }
    }

    private static func error(_ issue: FileIssue) -> SpaceError {
        SpaceError(issue.kind == .damaged ? .damaged : .unavailable, issue.reason)
    }
}

extension FileIssue {
    /// Converts a failure on this device.
    init(_ error: SpaceError) {
        self.init(error.code == .storageFull ? .storageFull : .storageFailed, error.reason)
    }
}

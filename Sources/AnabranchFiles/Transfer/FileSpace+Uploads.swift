import AnabranchChunks
import AnabranchClient
import Crypto
import Foundation
import Synchronization

/// Contents on their way to the server: first the chunks that it does not have, then the name of the content in the
/// record of the file.
extension FileSpace {
    private static let delayMax = Duration.seconds(60)

    /// Uploads what waits.
    /// - Returns: the time after which to try again; nil if nothing is left.
    func uploadAll() async -> Duration? {
        let cache = cache
        guard let rows = try? await disk.run({ try cache.pending() }) else { return .seconds(5) }
        var delay: Duration?
        for row in rows {
            do {
                if let copy = try await upload(row) { setWaiting(copy, copy.file, origin: .local) }
                try? await touch(row.content)
                attempts.withLock { $0[row.file] = nil }
            } catch is CancellationError {
                return nil
            } catch {
                let issue = (error as? FileIssue) ?? Self.issue(of: error)
                if issue.kind == .quotaExceeded, (try? await giveUp(row)) == true { continue }
                let count = attempts.withLock { attempts in
                    attempts[row.file, default: -1] += 1
                    return attempts[row.file] ?? 0
                }
                let wait = min(Self.delayMax, .milliseconds(500 << min(count, 7)))
                stop(row, because: issue, wait)
                delay = min(delay ?? wait, wait)
                // The others would fail as well.
                if [.offline, .unauthorized, .noFileSpace].contains(issue.kind) { break }
            }
        }
        return delay
    }

    private func stop(_ row: ContentCache.Pending, because issue: FileIssue, _ wait: Duration) {
        var issue = issue
        issue.path = try? withTree { $0.path(of: row.file) }
        issue.isRetrying = true
        issue.nextAttempt = Date(timeIntervalSinceNow: Double(wait.components.seconds))
        board.stop(.upload(row.file), of: row.content.id, because: issue)
    }

    private static func issue(of error: any Error) -> FileIssue {
        if let error = error as? SpaceError { return FileIssue(error) }
        return FileIssue(.storageFailed, "\(error)")
    }

    /// Uploads and publishes a content.
    /// - Returns: the copy that it has become, since somebody else has written the file.
    private func upload(_ row: ContentCache.Pending) async throws -> ContentCache.Pending? {
        // Who has just written it down rings when it waits. Nothing is published whose chunks have not gone up.
        guard isWaiting(row) else { return nil }
        try await uploadChunks(of: row)
        let cache = cache, device = settings.deviceName, now = settings.now()
        return try await turns.perform { [self] in
            // It may have been written again.
            guard isWaiting(row) else {
                uploadBell.ring()
                return nil
            }
            let outcome = try await store.write { try Self.publish(row, in: $0, device: device, now) }
            var copy: ContentCache.Pending?
            switch outcome {
            case .published: break
            case .copied(let made): copy = made
            }
            let made = copy
            try await disk.run { try cache.finish(row, isPublished: made == nil, copy: made) }
            try refresh()
            setWaiting(nil, row.file, origin: .local)
            board.end(.upload(row.file))
            if made != nil { uploadBell.ring() }
            return made
        }
    }

    /// Takes back a content for which there is no room, if its file has been deleted with it since: other devices show
    /// the content before it until then.
    /// - Returns: false if the file has not been deleted.
    private func giveUp(_ row: ContentCache.Pending) async throws -> Bool {
        let cache = cache
        return try await turns.perform { [self] in
            guard isWaiting(row) else { return false }
            let isDeleted = try await store.write { tx in
                guard let record = try tx.find(FileRecord.self, row.file), record.trashed == Data(row.content.id.bytes)
                else { return false }
                // What others have written since was not deleted.
                if record.content.id == row.base {
                    try tx.edit(FileRecord.self, row.file) {
                        // A new one comes back from the trash as an empty file.
                        if $0.content == .awaited { $0.setContent(.empty, modified: $0.modified) }
                        $0.trashed = Data($0.content.id.bytes)
                    }
                }
                return true
            }
            guard isDeleted else { return false }
            try await disk.run { try cache.finish(row, isPublished: false) }
            try refresh()
            setWaiting(nil, row.file, origin: .local)
            board.end(.upload(row.file))
            return true
        }
    }

    private func isWaiting(_ row: ContentCache.Pending) -> Bool {
        state.withLock { $0.pending[row.file]?.content.id == row.content.id }
    }

    private func uploadChunks(of row: ContentCache.Pending) async throws {
        guard let service else { throw FileIssue(.offline, "there is no server", isRetrying: false) }
        let content = row.content, way = TransferBoard.Way.upload(row.file), cache = cache, disk = disk
        var seen: Set<ChunkHash> = []
        let chunks = content.chunks.filter { seen.insert($0).inserted }
        let missing = chunks.isEmpty ? [] : try await service.missing(chunks)
        var counts: [ChunkHash: Int] = [:]
        for (index, chunk) in content.chunks.enumerated() {
            counts[chunk, default: 0] += content.byteCount(ofChunk: index)
        }
        board.begin(
            way, of: content.id, transferred: content.size - missing.reduce(0) { $0 + Int64(counts[$1] ?? 0) },
            total: content.size)
        try await withThrowingTaskGroup(of: ChunkHash.self) { group in
            var waiting = chunks.filter(missing.contains)[...]
            func addNext() {
                guard let chunk = waiting.popFirst() else { return }
                group.addTask {
                    guard let bytes = try await disk.run({ try cache.chunk(chunk) }) else {
                        throw FileIssue(.storageFailed, "a part of the content is gone from the folder of the space")
                    }
                    try await service.put(chunk, bytes)
                    return chunk
                }
            }
            for _ in 0..<Downloads.parallelMax { addNext() }
            while let chunk = try await group.next() {
                board.advance(way, of: content.id, by: counts[chunk] ?? 0)
                // It goes on: the next failure is the first one.
                attempts.withLock { $0[row.file] = nil }
                addNext()
            }
        }
    }

    // MARK: Publishing

    private enum Outcome: Sendable {
        case published
        case copied(ContentCache.Pending)
    }

    /// Makes contents those of their file, unless somebody else has written the file since.
    private static func publish(
        _ row: ContentCache.Pending, in tx: ObjectTransaction, device: String, _ now: Date
    ) throws -> Outcome {
        guard let record = try tx.find(FileRecord.self, row.file) else {
            guard row.base == nil else {
                // It was erased in between. An object that is made again under the same key could be erased again.
                return .copied(copy(of: row.content, row.file, name: row.name, row.parent, row.modified))
            }
            var file = FileRecord(id: row.file, name: row.name, parent: row.parent, moved: now)
            file.setContent(row.content, modified: row.modified)
            try tx.insert(file)
            return .published
        }
        let current = record.content
        if current.id == row.content.id || current.ancestors.contains(row.content.id) { return .published }
        if row.base == nil || current.id == row.base {
            try tx.edit(FileRecord.self, row.file) { $0.setContent(row.content, modified: row.modified) }
            return .published
        }
        let name = conflictName(record.name, device, now)
        return .copied(copy(of: row.content, row.file, name: name, record.parent, row.modified))
    }

    /// The name of a content that has lost.
    static func conflictName(_ name: String, _ device: String, _ date: Date) -> String {
        let day = date.formatted(.iso8601.year().month().day())
        let device = String(SpaceTree.shown(device).prefix(40))
        return SpaceTree.marked(SpaceTree.shown(name), "(conflict of \(device), \(day))")
    }

    /// A content as a file of its own. Its key follows from file and content, so that there is one however often it is
    /// made.
    private static func copy(
        of content: Manifest, _ file: UUID, name: String, _ parent: UUID?, _ modified: Date
    ) -> ContentCache.Pending {
        ContentCache.Pending(
            file: UUID(named: content.id.bytes, in: file), content: content, base: nil, name: name, parent: parent,
            modified: modified, isCopy: true)
    }

    // MARK: Lost contents

    /// Finds contents that were published here and have lost to others written without knowledge of them, and has them
    /// saved as copies.
    func lookForLostContents(_ keys: [UUID]) async throws {
        let cache = cache, now = settings.now(), device = settings.deviceName
        for key in keys {
            guard let mine = cache.publishedContent(of: key) else { continue }
            try await turns.perform { [self] in
                let (current, waiting) = state.withLock { ($0.contents[key], $0.pending[key]) }
                guard let current, current.id != mine else { return }
                let isKnown = current.ancestors.contains(mine) || waiting?.content.ancestors.contains(mine) == true
                guard !isKnown, let record = try store.find(FileRecord.self, key) else {
                    return try await disk.run { try cache.forgetPublished(of: key, mine) }
                }
                let name = Self.conflictName(record.name, device, now)
                let copy = try await disk.run {
                    try cache.forgetPublished(of: key, mine) {
                        Self.copy(of: $0, key, name: name, record.parent, record.modified)
                    }
                }
                guard let copy else { return }
                setWaiting(copy, copy.file, origin: .local)
                uploadBell.ring()
            }
        }
    }
}

extension UUID {
    /// The name-based UUID of bytes (RFC 9562, section 5.5).
    init(named name: [UInt8], in space: UUID) {
        var digest = Insecure.SHA1()
        digest.update(data: space.data)
        digest.update(data: name)
        var bytes = Array(digest.finalize().prefix(16))
        bytes[6] = bytes[6] & 0x0F | 0x50
        bytes[8] = bytes[8] & 0x3F | 0x80
        self = UUID(data: Data(bytes)) ?? space
    }
}

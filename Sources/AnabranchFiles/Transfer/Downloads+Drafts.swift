import AnabranchChunks
import AnabranchClient
import Foundation
import Synchronization

/// Contents on their way into a file, past the cache.
extension Downloads {
    /// Brings a content to the place of an empty file, and writes each byte once. What comes before a failure stays,
    /// and the next call goes on with it.
    /// - Parameters:
    ///   - path: nil to leave it where the next call finds it.
    ///   - old: a file that may have some of its chunks.
    /// - Throws: `SpaceError`; `CancellationError`, which ends the download as well.
    func bring(_ content: Manifest, to path: String?, reusing old: String?) async throws -> FileHandle {
        while let other = bringing[content.id] {
            _ = try? await other.valueUnlessCancelled
            try Task.checkCancellation()
        }
        let task = Task {
            defer { bringing[content.id] = nil }
            return try await complete(content, path, reusing: old)
        }
        bringing[content.id] = task
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// Removes what has come of a content that nobody needs any more.
    func giveUpDraft(of content: ChunkHash) {
        guard bringing[content] == nil else { return }
        drafted[content] = nil
        unlink("\(cache.drafts)/\(content)")
    }

    private func complete(_ content: Manifest, _ path: String?, reusing old: String?) async throws -> FileHandle {
        let cache = cache, board = board
        return try await reporting(content) {
            let draft = try await disk.run {
                try ContentDraft(content, in: cache.drafts) { board.localChunks.withLock { $0 += 1 } }
            }
            let known = draft.isNew ? [] : drafted[content.id]
            let (found, missing) = try await disk.run {
                var found = try known ?? draft.chunks()
                found.insert(ContentDraft.zeros)
                let wanted = Set(content.chunks).subtracting(found)
                if let old, !wanted.isEmpty { found.formUnion(try draft.take(wanted, from: old)) }
                return (found, Set(try cache.missing(of: content)).subtracting(found))
            }
            drafted[content.id] = found
            try await fill(draft, content, missing)
            let handle = try await disk.run { try path.map(draft.move) ?? draft.handle }
            if path != nil { drafted[content.id] = nil }
            return handle
        }
    }

    /// Writes into a draft what is not there yet: from the cache, or else from the server.
    private func fill(_ draft: ContentDraft, _ content: Manifest, _ missing: Set<ChunkHash>) async throws {
        let way = TransferBoard.Way.download(content.id), turns = Turns(atOnce: Self.parallelMax)
        let buffers = ChunkBuffers()
        var counts: [ChunkHash: Int] = [:], waiting: [ChunkHash] = []
        for (index, chunk) in content.chunks.enumerated() where drafted[content.id]?.contains(chunk) != true {
            if counts[chunk] == nil { waiting.append(chunk) }
            counts[chunk, default: 0] += content.byteCount(ofChunk: index)
        }
        let byteCount = missing.reduce(0) { $0 + Int64(counts[$1] ?? 0) }
        if byteCount > 0 {
            board.begin(way, of: content.id, transferred: content.size - byteCount, total: content.size)
        }
        try await withThrowingTaskGroup(of: ChunkHash.self) { group in
            var rest = waiting[...]
            func addNext() {
                guard let chunk = rest.popFirst() else { return }
                group.addTask { [disk] in
                    let own = missing.contains(chunk) ? nil : try await self.stored(chunk)
                    let bytes: [UInt8] =
                        if let own { own } else { try await self.bytes(of: chunk, in: buffers, turns) }
                    try await disk.run { try draft.write(bytes, of: chunk) }
                    // Also if another chunk has failed meanwhile.
                    await self.add(chunk, toDraftOf: content)
                    buffers.giveBack(bytes)
                    return chunk
                }
            }
            // One is written while the others come.
            for _ in 0..<Self.parallelMax + Self.flushedMax { addNext() }
            while let chunk = try await group.next() {
                if missing.contains(chunk) { board.advance(way, of: content.id, by: counts[chunk] ?? 0) }
                addNext()
            }
        }
    }

    private func add(_ chunk: ChunkHash, toDraftOf content: Manifest) { drafted[content.id]?.insert(chunk) }
}

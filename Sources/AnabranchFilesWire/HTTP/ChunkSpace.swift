import AnabranchChunks
import AnabranchCore
import AnabranchHistory
import AnabranchServer
import NIOCore
import NIOHTTP1

/// The chunks of a synced file, for one of its users.
struct ChunkSpace: Sendable {
    let wire: FilesWire
    let app: FilesApp
    let path: VirtualPath
    /// Empty if not known.
    let user: String
    let isWritable: Bool

    // MARK: Writing

    /// Takes a chunk. It is durable, and counted, when this returns.
    func put(_ chunk: ChunkHash, _ headers: HTTPHeaders, _ body: RequestParts) async throws -> EndpointResponse {
        guard isWritable else { throw ChunkRefusal(.forbidden, "no right to write") }
        guard let byteCount = headers.first(name: "Content-Length").flatMap({ Int($0) }) else {
            throw ChunkRefusal(.lengthRequired, "Content-Length is needed")
        }
        guard (1...Manifest.chunkBytes).contains(byteCount) else {
            throw ChunkRefusal(.payloadTooLarge, "a chunk has from 1 to \(Manifest.chunkBytes) bytes")
        }
        if try await isHere(chunk) {
            await body.drain()
            // A client that has the bytes may read them, and they are kept as if they had just arrived.
            try await record(chunk, byteCount)
            return EndpointResponse(status: .ok)
        }
        do { try wire.server().requireSpace() } catch is HistoryError { throw ChunkRefusal.diskFull }
        let kept = try await wire.read(path) { try $1.chunkBytes() } ?? 0
        try checkQuota(kept, byteCount)
        guard let parts = body.take() else { throw ChunkRefusal(.badRequest, "no body") }
        try await wire.store.put(chunk, of: path, byteCount: byteCount, parts)
        do { try await record(chunk, byteCount) } catch {
            await removeUnrecorded(chunk)
            throw error
        }
        return EndpointResponse(status: .created)
    }

    /// Removes a chunk that could not be counted, as when others have used up the quota while it came.
    private func removeUnrecorded(_ chunk: ChunkHash) async {
        let (path, store) = (path, wire.store)
        _ = try? await wire.read(path) { _, records in
            if try records.chunk(chunk) == nil { try store.remove(chunk, of: path) }
        }
    }

    private func checkQuota(_ kept: UInt64, _ byteCount: Int) throws(ChunkRefusal) {
        guard kept + UInt64(byteCount) <= UInt64(app.quotaBytes) else {
            throw ChunkRefusal(.insufficientStorage, "the quota of \(app.quotaBytes) bytes is used up")
        }
    }

    private func record(_ chunk: ChunkHash, _ byteCount: Int) async throws {
        let (path, store, user, now) = (path, wire.store, user, wire.unixSeconds())
        try await wire.write(path) { [self] _, records in
            // It may have been removed since: then the client puts it once more.
            guard store.contains(chunk, of: path) else { throw ChunkRefusal(.serviceUnavailable, "try again") }
            let former = try records.chunk(chunk)
            if former == nil { try checkQuota(try records.chunkBytes(), byteCount) }
            var row = ChunkRow(byteCount: UInt32(byteCount), putAt: now, user: user)
            if let former {
                row.byteCount = former.byteCount
                row.usedAt = former.usedAt
            } else if try records.isUsed(chunk) {
                row.usedAt = now
            }
            try records.set(row, of: chunk)
        }
    }

    // MARK: Reading

    /// The bytes of a chunk, or of a part of it.
    func get(_ chunk: ChunkHash, _ request: EndpointRequest) async throws -> EndpointResponse {
        guard try await isReadable(chunk), let byteCount = try await wire.store.byteCount(of: chunk, of: path) else {
            throw ChunkRefusal.notFound
        }
        var headers: HTTPHeaders = [
            "Content-Type": "application/octet-stream", "ETag": "\"\(chunk)\"", "Accept-Ranges": "bytes",
            "Cache-Control": "private, immutable, max-age=31536000",
        ]
        var range = 0..<byteCount, status = HTTPResponseStatus.ok
        if let text = request.headers.first(name: "Range"), let asked = ByteRange(text) {
            guard let part = asked.range(of: byteCount) else {
                headers.add(name: "Content-Range", value: "bytes */\(byteCount)")
                return EndpointResponse(status: .rangeNotSatisfiable, headers: headers)
            }
            (range, status) = (part, .partialContent)
            headers.add(
                name: "Content-Range", value: "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(byteCount)")
        }
        guard let parts = try await wire.store.read(chunk, of: path, in: range) else { throw ChunkRefusal.notFound }
        return EndpointResponse(status: status, headers: headers, body: .stream(parts, byteCount: range.count))
    }

    /// The chunks of a list that have to be uploaded.
    func missing(_ body: RequestParts) async throws -> EndpointResponse {
        guard let parts = body.take() else { throw ChunkRefusal(.badRequest, "no body") }
        var bytes: [UInt8] = []
        for try await part in parts {
            bytes += part.readableBytesView
            guard bytes.count <= 100 * ChunkEndpoints.hashesMax else {
                throw ChunkRefusal(.payloadTooLarge, "the body is too long")
            }
        }
        guard let items = (try? JSONValue(parsing: bytes))?.array, items.count <= ChunkEndpoints.hashesMax else {
            throw ChunkRefusal(.badRequest, "the body is not a list of at most \(ChunkEndpoints.hashesMax) hashes")
        }
        let hashes = items.compactMap { $0.string.flatMap { ChunkHash(hex: $0) } }
        guard hashes.count == items.count else { throw ChunkRefusal(.badRequest, "one of them is not a hash") }
        var missing: [JSONValue] = []
        for hash in hashes where try await !isHere(hash) { missing.append(.string(hash.description)) }
        return EndpointResponse(status: .ok, text: JSONValue.array(missing).encoded)
    }

    /// True if the user need not put a chunk.
    private func isHere(_ chunk: ChunkHash) async throws -> Bool {
        guard try await isReadable(chunk), let row = try await row(chunk) else { return false }
        return try await wire.store.byteCount(of: chunk, of: path) == Int(row.byteCount)
    }

    private func row(_ chunk: ChunkHash) async throws -> ChunkRow? {
        try await wire.read(path) { try $1.chunk(chunk) } ?? nil
    }

    /// True for chunks that a file uses or has used, and for those that the user has uploaded recently: nobody learns
    /// what somebody else is about to publish.
    private func isReadable(_ chunk: ChunkHash) async throws -> Bool {
        guard let row = try await row(chunk) else { return false }
        let isOwn = row.user == user && row.putAt + wire.settings.uploaderSeconds > wire.unixSeconds()
        return row.usedAt > 0 || isOwn
    }
}

/// One range of bytes, as the header `Range` names it (RFC 9110, section 14.1.2).
struct ByteRange: Equatable {
    private let first: Int?
    private let last: Int?

    /// - Returns: nil for headers that are ignored: other units, several ranges.
    init?(_ text: String) {
        guard text.hasPrefix("bytes="), !text.contains(",") else { return nil }
        let ends = text.dropFirst(6).split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]),
            first != nil || last != nil, first ?? 0 <= last ?? .max || first == nil
        else { return nil }
        (self.first, self.last) = (first, last)
    }

    /// - Returns: nil if the bytes are not there.
    func range(of byteCount: Int) -> Range<Int>? {
        let range: Range<Int>
        if let first {
            guard first < byteCount else { return nil }
            range = first..<min(last ?? byteCount - 1, byteCount - 1) + 1
        } else {
            range = max(0, byteCount - (last ?? 0))..<byteCount
        }
        return range.isEmpty ? nil : range
    }

    private static func number(_ text: Substring) -> Int?? {
        if text.isEmpty { return .some(nil) }
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text) else { return nil }
        return .some(number)
    }
}

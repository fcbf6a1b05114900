import AnabranchCore

/// Accepted uploads that wait for integration, of all clients of one file or of one of them.
struct UploadQueue {
    private struct Item {
        var ident: ClientFileID
        var upload: Upload
    }

    private var items = ClientQueue<Item> { $0.ident }
    /// The number of uploads of each client file, and where they end.
    private var ends: [ClientFileID: (count: Int, progress: UploadCursor, lockedVersion: ServerVersion)] = [:]
    /// The memory that the items occupy, in bytes.
    private(set) var byteCount = 0
    /// The bytes counted for each upload and each changeset besides its content, so that empty ones cost something too.
    static let overheadBytes = 64

    var isEmpty: Bool { items.count == 0 }

    static func byteCount(of upload: Upload) -> Int {
        upload.changesets.reduce(overheadBytes) { $0 + $1.changeset.count + overheadBytes }
            + upload.withheldSchemas.reduce(0) { $0 + $1.count + overheadBytes }
    }

    /// The size of uploads, in bytes, above which integration most likely needs objects that are not in memory.
    private static let littleBytes = 8 << 10

    /// True if the integration needs more than a little that a tail does not have.
    func missesTail(_ tail: LogTail?) -> Bool {
        guard let tail, byteCount <= Self.littleBytes else { return true }
        return !items.allSatisfy { item in
            let base = item.upload.changesets.first?.cursor.serverVersion ?? tail.base
            return tail.covers(item.ident, after: base)
        }
    }

    mutating func append(_ upload: Upload, from ident: ClientFileID) {
        items.append(Item(ident: ident, upload: upload))
        ends[ident] = ((ends[ident]?.count ?? 0) + 1, upload.progress, upload.lockedVersion)
        byteCount += UploadQueue.byteCount(of: upload)
    }

    /// Removes the first uploads of client files.
    /// - Parameter counts: how many of each; at most all of them.
    mutating func remove(_ counts: [ClientFileID: Int]) {
        for item in items.removeFirst(counts) {
            byteCount -= UploadQueue.byteCount(of: item.upload)
            ends[item.ident]?.count -= 1
            if ends[item.ident]?.count == 0 { ends[item.ident] = nil }
        }
    }

    /// Removes all uploads of a client file.
    /// - Returns: a queue of them.
    mutating func extract(_ ident: ClientFileID) -> UploadQueue {
        var extracted = UploadQueue()
        for item in items.removeFirst(counts(from: [ident])) { extracted.append(item.upload, from: ident) }
        byteCount -= extracted.byteCount
        ends[ident] = nil
        return extracted
    }

    /// The number of uploads of each client file.
    func counts(from idents: Set<ClientFileID>) -> [ClientFileID: Int] { items.counts(from: idents) }

    /// The end of the queued uploads of a client file; nil if there are none. The progress of a file never goes back,
    /// so that of its last upload is the furthest.
    func progress(of ident: ClientFileID) -> (progress: UploadCursor, lockedVersion: ServerVersion)? {
        ends[ident].map { ($0.progress, $0.lockedVersion) }
    }

    /// The uploads that came first, up to the one with which they have `bytesMax` bytes: one for each client file, in
    /// ascending order of ident. Several of one file are joined, since a changeset merges the same whether it comes
    /// alone or after others.
    func joined(bytesMax: Int) -> [JoinedUploads] {
        var bytes = 0
        let first = items.prefix { item in
            guard bytes < bytesMax else { return false }
            bytes += UploadQueue.byteCount(of: item.upload)
            return true
        }
        var result: [JoinedUploads] = []
        for item in first.enumerated().sorted(by: { ($0.element.ident, $0.offset) < ($1.element.ident, $1.offset) }) {
            let ident = item.element.ident, upload = item.element.upload
            if let last = result.indices.last, result[last].ident == ident {
                result[last].append(upload)
            } else {
                result.append(JoinedUploads(upload, from: ident))
            }
        }
        return result
    }
}

/// Consecutive uploads of one client file, as one.
struct JoinedUploads {
    let ident: ClientFileID
    private(set) var upload: Upload
    /// The client version up to which each of them goes.
    private var ends: [ClientVersion]
    /// The programs that uploaded them, each with the client version up to which it did. A program that is updated
    /// continues with the uploads that it has.
    private var uploaders: [(uploader: Uploader, end: ClientVersion)]

    init(_ upload: Upload, from ident: ClientFileID) {
        (self.ident, self.upload) = (ident, upload)
        ends = [upload.progress.clientVersion]
        uploaders = [(upload.uploader, upload.progress.clientVersion)]
    }

    fileprivate mutating func append(_ next: Upload) {
        upload.changesets += next.changesets
        upload.withheldSchemas += next.withheldSchemas
        upload.progress = next.progress
        upload.lockedVersion = max(upload.lockedVersion, next.lockedVersion)
        ends.append(next.progress.clientVersion)
        if uploaders.last?.uploader == next.uploader { uploaders.removeLast() }
        uploaders.append((next.uploader, next.progress.clientVersion))
    }

    /// The program that uploaded the changeset of a client version.
    func uploader(of version: ClientVersion) -> Uploader {
        uploaders.first { version <= $0.end }?.uploader ?? upload.uploader
    }

    /// The number of uploads that are integrated once all changesets up to `version` are.
    func count(upTo version: ClientVersion) -> Int { ends.prefix { $0 <= version }.count }
}

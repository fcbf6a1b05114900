import AnabranchCore

/// Accepted uploads that wait for integration, of all clients of one file.
struct UploadQueue {
    private struct Item {
        var ident: ClientFileID
        var upload: Upload
    }

    private var items: [Item] = []
    /// What the items occupy, in bytes.
    private(set) var byteCount = 0
    /// Counted for each upload and each changeset beside its bytes, so that empty ones cost something too.
    private static let overheadBytes = 64

    var isEmpty: Bool { items.isEmpty }
    var count: Int { items.count }

    static func byteCount(of upload: Upload) -> Int {
        upload.changesets.reduce(overheadBytes) { $0 + $1.changeset.count + overheadBytes }
    }

    mutating func append(_ upload: Upload, from ident: ClientFileID) {
        items.append(Item(ident: ident, upload: upload))
        byteCount += UploadQueue.byteCount(of: upload)
    }

    mutating func removeFirst(_ count: Int) {
        for item in items[..<count] { byteCount -= UploadQueue.byteCount(of: item.upload) }
        items.removeFirst(count)
    }

    /// Removes what a client file has queued.
    mutating func removeAll(from ident: ClientFileID) {
        for item in items where item.ident == ident { byteCount -= UploadQueue.byteCount(of: item.upload) }
        items.removeAll { $0.ident == ident }
    }

    /// Where the queued uploads of a client file end; nil if there are none. The progress of a file never goes back, so
    /// its last upload has come furthest.
    func progress(of ident: ClientFileID) -> (progress: UploadCursor, lockedVersion: ServerVersion)? {
        items.last { $0.ident == ident }.map { ($0.upload.progress, $0.upload.lockedVersion) }
    }

    /// One upload for each client file, in ascending order of ident: several of one file are joined, since a changeset
    /// merges the same whether it comes alone or behind others.
    func joined() -> [(ident: ClientFileID, upload: Upload)] {
        var result: [(ident: ClientFileID, upload: Upload)] = []
        for item in items.enumerated().sorted(by: { ($0.element.ident, $0.offset) < ($1.element.ident, $1.offset) }) {
            let ident = item.element.ident, upload = item.element.upload
            if let last = result.indices.last, result[last].ident == ident {
                result[last].upload.changesets += upload.changesets
                result[last].upload.progress = upload.progress
                result[last].upload.uploader = upload.uploader
                result[last].upload.lockedVersion = max(result[last].upload.lockedVersion, upload.lockedVersion)
            } else {
                result.append((ident, upload))
            }
        }
        return result
    }
}

import AnabranchCore

/// The uploads of a client whose merge has not ended within a step: it goes on beside what others commit.
final class LongUploads {
    let ident: ClientFileID
    fileprivate(set) var queue: UploadQueue
    /// The merge of the first of them; nil if it has not begun, or begins again.
    var merge: Integration.Current?

    init(of ident: ClientFileID, _ queue: UploadQueue) { (self.ident, self.queue) = (ident, queue) }

    /// The version up to which it has met the log.
    fileprivate var metVersion: ServerVersion {
        switch merge {
        case .some(let client): client.merge.metVersion
        case nil: 0
        }
    }

    /// The memory that the merge occupies in addition to the uploads, in bytes.
    var memoryBytes: Int {
        switch merge {
        case .some(let client): client.merge.memoryBytes
        case nil: 0
        }
    }
}

/// Accepted uploads of one file that wait for integration: those of clients whose merges take long stand apart, one
/// queue a client, so that nobody else waits for them.
struct WaitingUploads {
    /// The memory that set-aside merges may occupy beside the one that was set aside first, in bytes.
    private static let memoryBytesMax = 64 << 20

    private(set) var new = UploadQueue()
    /// In the order in which they were set aside.
    private(set) var long: [LongUploads] = []
    /// The place of the one whose turn is next.
    private var next = 0

    var isEmpty: Bool { new.isEmpty && long.isEmpty }

    /// The memory that the uploads occupy, in bytes.
    var byteCount: Int { long.reduce(new.byteCount) { $0 + $1.queue.byteCount } }

    /// The memory that set-aside merges occupy, in bytes.
    var mergeBytes: Int { long.reduce(0) { $0 + $1.memoryBytes } }

    mutating func append(_ upload: Upload, from ident: ClientFileID) {
        guard let uploads = self[ident] else { return new.append(upload, from: ident) }
        uploads.queue.append(upload, from: ident)
    }

    private subscript(_ ident: ClientFileID) -> LongUploads? { long.first { $0.ident == ident } }

    /// Removes the first uploads of client files.
    /// - Parameter counts: how many of each; at most all of them.
    mutating func remove(_ counts: [ClientFileID: Int]) {
        new.remove(counts.filter { self[$0.key] == nil })
        for uploads in long { uploads.queue.remove(counts.filter { $0.key == uploads.ident }) }
        long.removeAll(where: \.queue.isEmpty)
    }

    /// The number of uploads of each client file.
    func counts(from idents: Set<ClientFileID>) -> [ClientFileID: Int] {
        long.reduce(into: new.counts(from: idents)) { $0.merge($1.queue.counts(from: idents)) { $1 } }
    }

    /// As `UploadQueue.progress(of:)`.
    func progress(of ident: ClientFileID) -> (progress: UploadCursor, lockedVersion: ServerVersion)? {
        (self[ident]?.queue ?? new).progress(of: ident)
    }

    // MARK: Long merges

    /// The client whose long merge goes on next: each has its turn.
    mutating func nextLong() -> LongUploads? {
        guard !long.isEmpty else { return nil }
        defer { next += 1 }
        if next >= long.count { next = 0 }
        return long[next]
    }

    /// Lets the uploads of a client go on apart from others.
    @discardableResult
    mutating func setAside(_ ident: ClientFileID) -> LongUploads {
        if let uploads = self[ident] { return uploads }
        let uploads = LongUploads(of: ident, new.extract(ident))
        long.append(uploads)
        return uploads
    }

    /// Keeps a merge until its client's next turn, unless that takes too much memory; the one that was set aside first
    /// is always kept, so that there is one that ends.
    mutating func setAside(_ client: consuming Integration.Current) {
        let uploads = setAside(client.file.ident)
        guard uploads === long.first || mergeBytes + client.merge.memoryBytes <= Self.memoryBytesMax else { return }
        uploads.merge = consume client
    }

    /// Lets all long merges begin again.
    func dropMerges() { for uploads in long { uploads.merge = nil } }

    /// Lets long merges begin again that have met entries which never came into being.
    /// - Parameter newest: the newest version that there is.
    func dropMerges(beyond newest: ServerVersion) {
        for uploads in long where uploads.metVersion > newest { uploads.merge = nil }
    }
}

import AnabranchCore

/// Accepted uploads that wait for integration, of all clients of one file.
struct UploadQueue {
    struct Item {
        var ident: ClientFileID
        var upload: Upload
    }

    private(set) var items: [Item] = []
    /// What the items occupy, in bytes.
    private(set) var byteCount = 0
    /// Counted for each upload and each changeset beside its bytes, so that empty ones cost something too.
    private static let overheadBytes = 64

    var isEmpty: Bool { items.isEmpty }

    static func byteCount(of upload: Upload) -> Int {
        upload.changesets.reduce(overheadBytes) { $0 + $1.changeset.count + overheadBytes }
    }

    mutating func append(_ upload: Upload, from ident: ClientFileID) {
        items.append(Item(ident: ident, upload: upload))
        byteCount += UploadQueue.byteCount(of: upload)
    }

    mutating func removeAll() {
        items.removeAll(keepingCapacity: true)
        byteCount = 0
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
                result[last].upload.lockedVersion = max(result[last].upload.lockedVersion, upload.lockedVersion)
            } else {
                result.append((ident, upload))
            }
        }
        return result
    }
}

extension SyncedFile {
    public var hasQueuedUploads: Bool { !queue.isEmpty }

    /// What waits for integration, in bytes.
    public var backlogBytes: Int { queue.byteCount }

    /// Queues what `SessionProgress.accept` has left of an upload.
    /// - Throws: `backlogFull` (`Spec/History.md`, section 5, row 12); the upload was not queued then.
    public func enqueue(_ upload: Upload, from ident: ClientFileID) throws(HistoryError) {
        let byteCount = UploadQueue.byteCount(of: upload)
        try require(
            queue.isEmpty || byteCount <= backlogBytesMax - queue.byteCount, .backlogFull,
            "\(queue.byteCount) bytes wait to be integrated")
        queue.append(upload, from: ident)
    }

    /// Integrates what is queued, in one transaction.
    /// - Parameter time: seconds since 1970.
    /// - Throws: trouble of the store only. Then everything stays queued, to be tried again.
    public func integrate(at time: UInt64) throws(HistoryError) -> IntegrationReport {
        try SyncedFile.integrate([self], at: time).first ?? IntegrationReport()
    }

    /// Integrates what is queued for different files of one store, in one transaction; a report for each file.
    public static func integrate(_ files: [SyncedFile], at time: UInt64) throws(HistoryError) -> [IntegrationReport] {
        var prepared: [PreparedCommit] = []
        for file in files { prepared.append(try file.prepareCommit(at: time)) }
        for (index, file) in files.enumerated() {
            prepared[index].report.madeVersions = prepared[index].commit.newHead.version > file.head.version
        }
        try commit(Array(zip(files, prepared.map(\.commit))))
        for (index, file) in files.enumerated() {
            file.queue.removeAll()
            swap(&file.decoded, &prepared[index].decoded)
        }
        return prepared.map(\.report)
    }

    private struct PreparedCommit: Sendable {
        var commit: Commit
        var report: IntegrationReport
        var decoded: DecodedEntries
    }

    /// The file has no decoded entries until the commit is done: those that it adds may never come into being.
    private func prepareCommit(at time: UInt64) throws(HistoryError) -> PreparedCommit {
        let state = try currentState()
        return try read { view throws(HistoryError) in
            let head = try view.head()
            var integration = Integration(
                into: PendingLog(continuing: view, head: head), state: state, versionSalt: versionSalt,
                time: max(1, time), oursBytesMax: oursBytesMax)
            integration.mergeStrategy = mergeStrategy
            swap(&integration.decoded, &decoded)
            for (ident, upload) in queue.joined() { try integration.add(upload, from: ident) }
            var commit = Commit(file: id, lease: lease, head: head)
            integration.fill(&commit)
            return PreparedCommit(commit: commit, report: integration.report, decoded: integration.decoded)
        }
    }
}

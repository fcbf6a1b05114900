public import AnabranchCore

extension SyncedFile {
    /// Whether uploads wait for integration.
    public var hasQueuedUploads: Bool { !queue.isEmpty }

    /// What waits for integration, in bytes.
    package var backlogBytes: Int { queue.byteCount }

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
    /// - Throws: a failure of the store. Then everything stays queued, to be tried again.
    public func integrate(at time: UInt64) throws(HistoryError) -> IntegrationReport {
        try SyncedFile.integrate([self], at: time).first ?? IntegrationReport()
    }

    /// Integrates what is queued for different files of one store, in one transaction; a report for each file.
    /// - Parameter time: seconds since 1970.
    /// - Throws: a failure of the store. Then everything stays queued, to be tried again.
    public static func integrate(_ files: [SyncedFile], at time: UInt64) throws(HistoryError) -> [IntegrationReport] {
        var prepared: [PreparedCommit] = []
        for file in files { prepared.append(try file.prepareCommit(at: time)) }
        for (index, file) in files.enumerated() {
            prepared[index].report.madeVersions = prepared[index].commit.newHead.version > file.head.version
        }
        try commit(Array(zip(files, prepared.map(\.commit))))
        for (index, file) in files.enumerated() {
            file.queue.removeAll()
            swap(&file.decodedEntries, &prepared[index].decodedEntries)
        }
        return prepared.map(\.report)
    }

    private struct PreparedCommit: Sendable {
        var commit: Commit
        var report: IntegrationReport
        var decodedEntries: DecodedEntryCache
    }

    /// The file has no decoded entries until the commit is done: those that it adds may never come into being.
    private func prepareCommit(at time: UInt64) throws(HistoryError) -> PreparedCommit {
        let state = try currentState()
        return try read { view throws(HistoryError) in
            let head = try view.head()
            var integration = Integration(
                into: PendingLog(continuing: view, head: head), state: state, versionSalt: versionSalt,
                time: max(1, time), options: mergeOptions)
            swap(&integration.decodedEntries, &decodedEntries)
            for (ident, upload) in queue.joined() { integration.add(upload, from: ident) }
            var commit = Commit(file: id, lease: lease, head: head)
            integration.fill(&commit)
            return PreparedCommit(
                commit: commit, report: integration.report, decodedEntries: integration.decodedEntries)
        }
    }
}

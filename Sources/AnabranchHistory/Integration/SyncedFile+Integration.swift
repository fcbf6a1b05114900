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

    /// Integrates what is queued, in one transaction, or in several if it is much (`Spec/History.md`, section 6.1).
    /// - Parameter time: seconds since 1970.
    /// - Throws: a failure of the store. Then what is not integrated stays queued, to be tried again.
    public func integrate(at time: UInt64) throws(HistoryError) -> IntegrationReport {
        try SyncedFile.integrate([self], at: time).first ?? IntegrationReport()
    }

    /// Integrates what is queued for different files of one store, in common transactions of those that are in one
    /// shard; a report for each file.
    /// - Parameter time: seconds since 1970.
    /// - Throws: the first failure of the store. Then what is not integrated stays queued, to be tried again.
    public static func integrate(_ files: [SyncedFile], at time: UInt64) throws(HistoryError) -> [IntegrationReport] {
        var reports = files.map { _ in IntegrationReport() }
        repeat {
            for file in files {
                var limit = StepLimit.none
                while try !file.advanceIntegration(at: time, until: &limit) {}
            }
            for (index, result) in commitIntegrations(of: files).enumerated() {
                reports[index].append(try result.get())
            }
        } while files.contains { $0.hasQueuedUploads }
        return reports
    }

    // MARK: In steps

    /// Whether an integration has begun and is not committed yet. Uploads that come now wait for the next one.
    package var isIntegrating: Bool { integration != nil }

    /// What the integration occupies, in bytes, beside the uploads.
    package var integrationBytes: Int { integration?.memoryBytes ?? 0 }

    /// Merges what is queued until the step is over. In between, everything else may go on, from what is committed.
    /// - Parameter time: seconds since 1970.
    /// - Returns: whether everything is merged that one commit takes of what was queued when the integration began.
    /// - Throws: a failure of the store. Then everything stays queued, and the next call begins anew.
    package func advanceIntegration(
        at time: UInt64, until limit: inout StepLimit
    ) throws(HistoryError) -> Bool {
        do {
            let state = isIntegrating ? nil : try currentState()
            return try read(missesTail: queue.missesTail(tail)) { view throws(HistoryError) in
                if !isIntegrating { integration = begin(at: try view.head(), state, max(1, time)) }
                return integration?.advance(over: view, until: &limit) ?? true
            }
        } catch {
            dropIntegration()
            throw error
        }
    }

    /// Everything stays queued, and is merged anew.
    package func dropIntegration() {
        if isIntegrating { state?.forgetReads(beyond: readBytesBefore) }
        integration = nil
    }

    /// The file has no decoded entries until the commit is done: those that it adds may never come into being.
    private func begin(at head: FileHead, _ state: ObjectGraph?, _ time: UInt64) -> Integration {
        readBytesBefore = state?.readBytes ?? 0
        var integration = Integration(
            of: queue, at: head, state: state, unwritten: unwritten, versionSalt: versionSalt, time: time,
            options: mergeOptions)
        swap(&integration.decodedEntries, &decodedEntries)
        return integration
    }

    /// Commits what is merged for different files of one store, in one transaction for each shard.
    /// - Returns: a report for each file, or why the commit of its shard failed: then everything of the file stays
    ///   queued, to be merged anew.
    package static func commitIntegrations(of files: [SyncedFile]) -> [Result<IntegrationReport, HistoryError>] {
        let merged = files.map { $0.takeMerged() }
        let failures = commit(Array(zip(files, merged.map(\.commit))))
        return files.indices.map { files[$0].finish(merged[$0], failures[$0]) }
    }

    /// What an integration has come to, between its last step and the outcome of its commit.
    package struct MergedUploads {
        package fileprivate(set) var commit: Commit
        fileprivate var report = IntegrationReport()
        fileprivate var watched: [Checksum] = []
        fileprivate var decodedEntries = DecodedEntryCache()
    }

    /// What is merged, to be committed. `finish` has to be called with it.
    package func takeMerged() -> MergedUploads {
        var merged = MergedUploads(commit: Commit(file: id, lease: lease, head: head))
        guard var integration = integration.take() else { return merged }
        merged.commit = integration.commit(to: id, lease, nextIdent: head.nextIdent)
        merged.report = integration.report
        merged.report.madeVersions = merged.commit.newHead.version > head.version
        merged.watched = integration.watched
        swap(&merged.decodedEntries, &integration.decodedEntries)
        watch(merged.watched) { $0.begin($1, at: integration.time) }
        return merged
    }

    /// To be called when the outcome of the commit is known.
    /// - Returns: what was done with the uploads, or `failure`: then everything stays queued, to be merged anew.
    package func finish(
        _ merged: MergedUploads, _ failure: HistoryError?
    ) -> Result<IntegrationReport, HistoryError> {
        if let failure {
            watch(merged.watched) { $0.pause($1) }
            return .failure(failure)
        }
        var merged = merged
        let refused = Set(merged.report.outcomes.lazy.filter { $0.refusal != nil }.map(\.ident))
        // What follows a refused changeset would leave a gap.
        if !refused.isEmpty { merged.report.uploadsDone.merge(queue.counts(from: refused)) { $1 } }
        queue.remove(merged.report.uploadsDone)
        watch(merged.watched) { $0.end($1) }
        swap(&decodedEntries, &merged.decodedEntries)
        return .success(merged.report)
    }

    private func watch(_ names: [Checksum], _ note: (UploadWatch, Checksum) -> Void) {
        guard let watch = mergeOptions.watch else { return }
        for name in names { note(watch, name) }
    }
}

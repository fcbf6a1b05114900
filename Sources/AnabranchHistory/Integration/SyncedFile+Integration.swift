public import AnabranchCore

extension SyncedFile {
    /// True if uploads wait for integration.
    public var hasQueuedUploads: Bool { !queue.isEmpty }

    /// The memory that waiting uploads occupy, in bytes.
    package var backlogBytes: Int { queue.byteCount }

    /// Queues the part of an upload that `SessionProgress.accept` has left.
    /// - Throws: `backlogFull` (`Spec/History.md`, section 5, row 12); the upload was not queued then.
    public func enqueue(_ upload: Upload, from ident: ClientFileID) throws(HistoryError) {
        let byteCount = UploadQueue.byteCount(of: upload)
        try require(
            queue.isEmpty || byteCount <= backlogBytesMax - queue.byteCount, .backlogFull,
            "\(queue.byteCount) bytes wait to be integrated")
        queue.append(upload, from: ident)
    }

    /// Integrates the queued uploads, in one transaction, or in several if they are large (`Spec/History.md`, section
    /// 6.1).
    /// - Parameter time: seconds since 1970.
    /// - Throws: a failure of the store. Then everything not yet integrated stays queued, to be tried again.
    public func integrate(at time: UInt64) throws(HistoryError) -> IntegrationReport {
        try SyncedFile.integrate([self], at: time).first ?? IntegrationReport()
    }

    /// Integrates the queued uploads of different files of one store, in common transactions for those in the same
    /// shard; a report for each file.
    /// - Parameter time: seconds since 1970.
    /// - Throws: the first failure of the store. Then everything not yet integrated stays queued, to be tried again.
    public static func integrate(_ files: [SyncedFile], at time: UInt64) throws(HistoryError) -> [IntegrationReport] {
        var reports = files.map { _ in IntegrationReport() }
        repeat {
            for file in files {
                try file.retrying { () throws(HistoryError) in
                    var limit = StepLimit.none
                    while try !file.advanceIntegration(at: time, until: &limit) {}
                }
            }
            for (index, result) in commitIntegrations(of: files).enumerated() {
                switch result {
                case .failure(let error) where error.code == .conflict: try files[index].follow()
                case .success, .failure: reports[index].append(try result.get())
                }
            }
        } while files.contains { $0.hasQueuedUploads }
        return reports
    }

    // MARK: In steps

    /// True while an integration has begun and is not committed yet. Uploads that come now wait for the next one.
    package var isIntegrating: Bool { integration != nil }

    /// True if uploads wait that are not set aside.
    package var hasNewUploads: Bool { !queue.new.isEmpty }

    /// True if merges are set aside: each goes on beside what others commit, and takes it in.
    package var hasLongUploads: Bool { !queue.long.isEmpty }

    /// The memory that merges occupy in addition to the uploads, in bytes.
    package var integrationBytes: Int { (integration?.memoryBytes ?? 0) + queue.mergeBytes }

    /// Merges queued uploads until the step is over, and shows what they became to the observers. Between steps,
    /// everything else may go on, from what is committed. A merge that takes longer than a step of its own is set
    /// aside.
    /// - Parameters:
    ///   - time: seconds since 1970.
    ///   - isLong: whether to go on with a merge that is set aside, although new uploads wait.
    /// - Returns: whether everything is merged that one commit takes; that may be nothing.
    /// - Throws: a failure of the store. Then everything stays queued, and the next call starts over.
    package func advanceIntegration(
        at time: UInt64, until limit: inout StepLimit, isLong: Bool = false
    ) throws(HistoryError) -> Bool {
        do {
            if observation != nil { return try observeMerged(until: limit) }
            let isNew = !isIntegrating, state = isNew ? try currentState() : nil
            let long = isNew && (isLong || queue.new.isEmpty) ? queue.nextLong() : nil
            let uploads = long?.queue ?? queue.new
            let isMerged = try read(missesTail: uploads.missesTail(tail)) { view throws(HistoryError) in
                if isNew {
                    // Where that fails, the merge stays.
                    let head = try view.head()
                    integration = begin(uploads, long?.merge.take(), at: head, state, max(1, time))
                }
                return integration?.advance(over: view, until: &limit) ?? true
            }
            if let client = integration?.takeUnfinished() { queue.setAside(client) }
            if isMerged, isShared { try requireNewest() }
            return isMerged ? try observeMerged(until: limit) : false
        } catch {
            dropIntegration()
            throw error
        }
    }

    /// Shows the merged entries to the observers until the step is over. One alone is shown when it is committed, and
    /// all are if this fails.
    /// - Returns: whether all are shown.
    private func observeMerged(until limit: StepLimit) throws(HistoryError) -> Bool {
        let entries = integration?.entries ?? [], watched = integration?.watched ?? [], time = integration?.time ?? 1
        guard !observers.isEmpty, entries.count > 1, let state = try currentState() else { return true }
        watch(watched) { $0.begin($1, at: time) }
        defer { watch(watched) { $0.pause($1) } }
        do throws(HistoryError) {
            return try read { view throws(HistoryError) in
                var next = observation.take() ?? Observation(of: entries, from: state, PendingRecords(over: view))
                defer { observation = next }
                return try next.advance(in: self, over: view, until: limit)
            }
        } catch {
            if error.code == .conflict { throw error }
            observation = nil
            return true
        }
    }

    /// No upload is refused because of this node's memory alone: other nodes may have written what it needs.
    private func requireNewest() throws(HistoryError) {
        guard integration?.report.outcomes.contains(where: { $0.refusal != nil }) ?? false else { return }
        try store.read(id) { [head] view throws(HistoryError) in try view.requireHead(head, of: id) }
    }

    /// Gives up the integration: everything stays queued, and is merged again. Merges that are set aside go on, as does
    /// one that has left nothing in the integration, unless they have met what it would have added.
    package func dropIntegration() {
        observation = nil
        if isIntegrating { state?.forgetReads(beyond: readBytesBefore) }
        if let client = integration?.takeBegun() { queue.setAside(client) }
        integration = nil
        queue.dropMerges(beyond: head.version)
    }

    /// Gives up all merges, to free their memory.
    package func dropMerges() {
        dropIntegration()
        queue.dropMerges()
    }

    /// Until the commit is done, the file has no decoded entries: those that it adds may never come into being.
    private func begin(
        _ uploads: UploadQueue, _ kept: consuming Integration.Current?, at head: FileHead, _ state: ObjectGraph?,
        _ time: UInt64
    ) -> Integration {
        readBytesBefore = state?.readBytes ?? 0
        var options = mergeOptions
        options.commitBytesMax = commitBytesMax
        var integration = Integration(
            of: uploads, continuing: kept, at: head, state: state, unwritten: unwritten,
            sessions: isShared ? ownSessions : nil, versionSalt: versionSalt, time: time, options: options)
        swap(&integration.decodedEntries, &decodedEntries)
        return integration
    }

    /// Commits the merged uploads of different files of one store, in one transaction for each shard.
    /// - Returns: a report for each file, or why the commit of its shard failed: then everything of the file stays
    ///   queued, to be merged again.
    package static func commitIntegrations(of files: [SyncedFile]) -> [Result<IntegrationReport, HistoryError>] {
        let merged = files.map { $0.takeMerged() }
        let failures = commit(Array(zip(files, merged.map(\.commit))))
        return files.indices.map { files[$0].finish(merged[$0], failures[$0]) }
    }

    /// The result of an integration, between its last step and the outcome of its commit.
    package struct MergedUploads {
        package fileprivate(set) var commit: Commit
        fileprivate var report = IntegrationReport()
        fileprivate var watched: [Checksum] = []
        /// The client whose other uploads are to go on apart from others.
        fileprivate var overdue: ClientFileID?
        fileprivate var decodedEntries = DecodedEntryCache()
    }

    /// Takes the merged uploads, to be committed. `finish` has to be called with them.
    package func takeMerged() -> MergedUploads {
        var merged = MergedUploads(commit: Commit(file: id, lease: lease, head: head))
        guard var integration = integration.take() else { return merged }
        merged.commit = integration.commit(to: id, lease, nextIdent: head.nextIdent)
        if let observation = observation.take() {
            merged.commit.records = observation.changes
            merged.commit.observedThrough = merged.commit.newHead.version
        }
        merged.report = integration.report
        merged.report.madeVersions = merged.commit.newHead.version > head.version
        (merged.watched, merged.overdue) = (integration.watched, integration.overdue)
        swap(&merged.decodedEntries, &integration.decodedEntries)
        watch(merged.watched) { $0.begin($1, at: integration.time) }
        return merged
    }

    /// To be called when the outcome of the commit is known.
    /// - Returns: what was done with the uploads, or `failure`: then everything stays queued, to be merged again.
    package func finish(
        _ merged: MergedUploads, _ failure: HistoryError?
    ) -> Result<IntegrationReport, HistoryError> {
        if let failure {
            watch(merged.watched) { $0.pause($1) }
            return .failure(failure)
        }
        var merged = merged
        let refused = Set(merged.report.outcomes.lazy.filter { $0.refusal != nil }.map(\.ident))
        // Anything that follows a refused changeset would leave a gap.
        if !refused.isEmpty { merged.report.uploadsDone.merge(queue.counts(from: refused)) { $1 } }
        queue.remove(merged.report.uploadsDone)
        if let ident = merged.overdue, queue.progress(of: ident) != nil { queue.setAside(ident) }
        if merged.report.madeVersions { overtakenCount = max(0, overtakenCount - 1) }
        watch(merged.watched) { $0.end($1) }
        swap(&decodedEntries, &merged.decodedEntries)
        return .success(merged.report)
    }

    private func watch(_ names: [Checksum], _ record: (UploadWatch, Checksum) -> Void) {
        guard let watch = mergeOptions.watch else { return }
        for name in names { record(watch, name) }
    }
}

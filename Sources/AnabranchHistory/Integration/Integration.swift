package import AnabranchCore

/// How uploads are merged with the log.
package struct MergeOptions: Sendable {
    /// Merging every pair is the definition, for comparison.
    package var strategy = MergeStrategy.indexed
    /// Whether uploads may take classes and columns away.
    package var destructiveSchema = DestructiveSchema.refuse
    /// Whether a class may be used in the changeset that replaces it: for recorded histories that no client loads.
    package var allowsReplacedClasses = false
    /// What the log entries that an upload is merged with may occupy in memory, in bytes.
    package var localBytesMax = 1 << 30
    /// How large uploads can make an object, in bytes (`Spec/State.md`, B11).
    package var objectBytesMax = Int.max
    /// Whose uploads are watched, if the store remembers them.
    var watch: UploadWatch?
}

/// Computes what queued uploads make of one state of a file (`Spec/History.md`, section 6): a commit, and what each
/// client is told. Works in steps, each of which reads through a view of its own, and changes nothing: it can be
/// dropped between two steps. Nobody else may write to the log meanwhile.
struct Integration: ~Copyable {
    /// The client whose changesets are merged now.
    private struct Current: ~Copyable {
        let upload: Upload
        let file: ClientFile
        let stateBefore: PendingState?
        /// Its name for the watch.
        let watched: Checksum?
        var merge: ClientMerge
    }

    /// How many uploads of the queue it takes in.
    let uploadCount: Int
    private let head: FileHead
    private var added = AddedEntries()
    /// The state at the end of the log; nil for a relay.
    private var state: PendingState?
    private let versionSalt: Salt
    private let time: UInt64
    private let options: MergeOptions
    private var waiting: ArraySlice<(ident: ClientFileID, upload: Upload)>
    private var current: Current?
    private var reciprocals: [ReciprocalChange] = []
    private var clientFiles: [ClientFile] = []
    private(set) var report = IntegrationReport()
    /// Entries of this log, those included that the commit adds.
    var decodedEntries = DecodedEntryCache()

    /// - Parameters:
    ///   - queue: what to integrate.
    ///   - head: the head of the log.
    ///   - state: the state there; nil for a relay.
    ///   - time: seconds since 1970, at least 1.
    init(
        of queue: UploadQueue, at head: FileHead, state: ObjectGraph?, versionSalt: Salt, time: UInt64,
        options: MergeOptions
    ) {
        uploadCount = queue.count
        waiting = queue.joined()[...]
        self.head = head
        self.state = state.map { PendingState($0, objectBytesMax: options.objectBytesMax) }
        self.versionSalt = versionSalt
        self.time = time
        self.options = options
    }

    /// What it occupies, in bytes, beside the uploads.
    var memoryBytes: Int {
        switch current {
        case .some(let client): client.merge.memoryBytes + decodedEntries.arena.memoryBytes
        case nil: decodedEntries.arena.memoryBytes
        }
    }

    /// Goes on until the step is over.
    /// - Parameter view: the file; its log ends where it did when the integration began.
    /// - Returns: whether everything is merged.
    mutating func advance(over view: any FileView, until limit: inout StepLimit) -> Bool {
        var log = PendingLog(continuing: view, head: head)
        swap(&log.added, &added)
        defer { swap(&log.added, &added) }
        while var client = nextClient(past: &log) {
            let watched = client.watched
            options.watch?.begin(watched, at: time)
            do throws(HistoryError) {
                let isMerged = try client.merge.advance(
                    past: log, sharing: &decodedEntries, into: &state, until: &limit)
                guard isMerged else {
                    current = consume client
                    options.watch?.pause(watched)
                    return false
                }
                finish(client, in: &log)
            } catch {
                report.entriesVisited += client.merge.entriesVisited
                state = client.stateBefore
                refuse(client.merge.ident, because: error)
            }
            options.watch?.end(watched)
        }
        return true
    }

    /// A refused client leaves no trace, and the others go on as if it had not been there: also when the store cannot
    /// read what its changesets have to be merged with, for the others need something else.
    private mutating func refuse(_ ident: ClientFileID, because error: HistoryError) {
        report.outcomes.append(ClientOutcome(ident: ident, newVersions: 0, refusal: error))
    }

    private mutating func nextClient(past log: inout PendingLog) -> Current? {
        if let client = current.take() { return client }
        while let (ident, upload) = waiting.popFirst() {
            do {
                return try begin(upload, from: ident, past: &log)
            } catch {
                refuse(ident, because: error)
            }
        }
        return nil
    }

    private func begin(
        _ upload: Upload, from ident: ClientFileID, past log: inout PendingLog
    ) throws(HistoryError) -> Current {
        guard let file = try log.view.clientFile(ident), file.salt != 0 else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
        }
        try require(!file.isExpired, .clientFileExpired, "the client file has expired")
        // A changeset can be in the log already, if the store made a commit durable and then failed to report it.
        let changesets = upload.changesets.drop { $0.cursor.clientVersion <= file.uploadCursor.clientVersion }
        try check(changesets, of: upload, after: file.uploadCursor, log.version)
        log.added.indexEntries()
        return Current(
            upload: upload, file: file, stateBefore: state,
            watched: try options.watch?.check(upload, from: ident, at: time),
            merge: ClientMerge(of: changesets, from: ident, options: options))
    }

    private mutating func finish(_ client: consuming Current, in log: inout PendingLog) {
        var file = client.file
        let merged = client.merge.merged
        log.added.append(merged, of: client.upload.uploader, behind: head, versionSalt: versionSalt, at: time)
        let newest = log.added.entries.suffix(merged.count).last { $0.origin == file.ident }
        file.advance(
            to: client.upload.progress, lockedVersion: client.upload.lockedVersion,
            receipt: newest.map { Receipt(version: $0.version, clientVersion: $0.clientVersion) })
        if file != client.file {
            file.lastSeen = time
            clientFiles.append(file)
        }
        for reciprocal in client.merge.reciprocals(after: file.uploadCursor.serverVersion) {
            reciprocals.append(ReciprocalChange(ident: file.ident, reciprocal: reciprocal))
        }
        report.entriesVisited += client.merge.entriesVisited
        report.outcomes.append(
            ClientOutcome(
                ident: file.ident, newVersions: merged.count - client.merge.restoringCount, refusal: nil,
                skippedInstructions: client.merge.skippedInstructions,
                entriesRestoringNulls: client.merge.restoringCount))
    }

    /// Puts everything that was computed into a commit.
    /// - Parameter nextIdent: of the head as it is now. Client files may have been made since the integration began.
    func commit(to file: SyncedFileID, _ lease: Lease, nextIdent: ClientFileID) -> Commit {
        var head = head
        head.nextIdent = max(head.nextIdent, nextIdent)
        var commit = Commit(file: file, lease: lease, head: head)
        commit.entries = added.entries
        commit.conflictKeys = added.conflictKeys
        commit.received = added.received
        commit.reciprocals = reciprocals
        commit.clientFiles = clientFiles
        if let state, let last = added.entries.last { commit.state = state.update(to: last.version) }
        return commit
    }

    /// What the checks of a session guarantee, for callers that have no session; and the origin, which is checked here.
    private func check(
        _ changesets: ArraySlice<UploadedChangeset>, of upload: Upload, after integrated: UploadCursor,
        _ newest: ServerVersion
    ) throws(HistoryError) {
        try require(
            upload.progress.serverVersion <= newest && upload.lockedVersion <= newest, .badServerVersion,
            "the upload speaks of server versions that do not exist")
        var previous = integrated
        for changeset in changesets {
            try require(changeset.origin == 0, .badOriginFileIdent, "a changeset of client file \(changeset.origin)")
            let cursor = changeset.cursor
            try require(
                cursor.clientVersion > previous.clientVersion && cursor.clientVersion <= upload.progress.clientVersion,
                .badClientVersion, "client version \(cursor.clientVersion) is out of order")
            try require(
                cursor.serverVersion >= previous.serverVersion && cursor.serverVersion <= newest,
                .badServerVersion, "base \(cursor.serverVersion) is out of order")
            previous = cursor
        }
    }
}

extension ClientFile {
    /// Section 6, steps 9 and 10: nothing ever goes back.
    /// - Parameter receipt: of the newest entry that was made of the upload.
    fileprivate mutating func advance(to progress: UploadCursor, lockedVersion: ServerVersion, receipt: Receipt?) {
        if let receipt {
            newestReceipt = receipt
            if lineage == .none { lineage = .log }
        }
        if progress.clientVersion > uploadCursor.clientVersion {
            uploadCursor.clientVersion = progress.clientVersion
            uploadCursor.serverVersion = max(uploadCursor.serverVersion, progress.serverVersion)
        }
        self.lockedVersion = max(self.lockedVersion, lockedVersion)
    }
}
